"""The load of recreate: append-poll's, and beside it who makes topics anew, who sends to them and who reads them.

Decides mix and pace. Must not know clients. Which of its operations an administrator carries out is the client's to say
(`lives`), which knows what was answered; here it is `describe_topic`. Partitions of all topics that are made anew are
numbered through: those of the first, then those of the second, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.operations.generator import PENDING, Completed, Context, Generator, Op, Pending, Rng, TimeLimit, within
from harness.plan.plan import Plan
from harness.workloads.append_poll.generators import Polls, Sends, Spread, mixed
from harness.workloads.recreate.lives import ASK
from harness.workloads.recreate.options import Options, first_administrator

VALUES = 3 * 10**10
"""Values from here on are sent to topics that are made anew."""


@dataclass(frozen=True, slots=True)
class Administration:
    """Endless operations, each of an idle thread of [first, end): of the topic whose administrator that is."""

    rng: Rng
    first: int
    end: int

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """An operation of an idle administrator, in random order."""
        mine = within(context.free, self.first, self.end)
        if not mine:
            return PENDING
        at, rng = self.rng.below(len(mine))
        return Op(context.time_ns, mine[at], ASK, -1, detail=mine[at] - self.first), replace(self, rng=rng)

    def update(self, completed: Completed) -> Generator:
        """What was answered the client keeps."""
        return self


def load(plan: Plan, options: Options) -> Generator:
    """The operations of the main phase, at the plan's rate."""
    rng, first, records = Rng(plan.seed_drawn), first_administrator(plan), plan.workload.records_per_send
    senders, partitions = first + options.topics, options.topics * options.partitions
    readers = senders + options.senders
    administration = Administration(rng.split(5), first, senders)
    sends = Sends(rng.split(6), Spread(senders, readers, partitions), records, VALUES)
    polls = Polls(rng.split(7), Spread(readers, readers + options.readers, partitions), list_offsets_share=0.0)
    paced = mixed(
        plan,
        rng,
        lambda spread: Sends(rng.split(1), spread, records),
        lambda spread: Polls(rng.split(2), spread),
        [(administration, options.topics), (sends, options.senders), (polls, options.readers)],
    )
    return TimeLimit(int(plan.workload.time_limit_s * 1e9), paced)
