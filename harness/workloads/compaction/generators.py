"""The load of compaction: sends of fresh values under keys that come again and again, and polls.

Decides keys, and what is a tombstone. Must not know clients. A few keys get most of the records, so that there are
values that are superseded at once, and others that stay for the whole run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.operations.generator import (
    PENDING,
    Completed,
    Context,
    Generator,
    Mix,
    Op,
    Pending,
    Rng,
    Stagger,
    TimeLimit,
)
from harness.plan.plan import Plan
from harness.workloads.append_poll.generators import Polls, Sends, Spread, threads_of
from harness.workloads.compaction.options import Options


@dataclass(frozen=True, slots=True)
class Keyed:
    """The sends of another generator, each record with a key: `Op.detail` is ((key, tombstone), …), as many as values.

    Ops of other kinds are handed on as they are.
    """

    rng: Rng
    options: Options
    inner: Generator

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """The inner generator's op."""
        found = self.inner.next(context)
        if found is None or found == PENDING:
            return found
        op, after = found
        rng, detail = self.rng, []
        for _ in op.values:
            few, rng = rng.unit()
            # Half of all records go to a tenth of the keys.
            key, rng = rng.below(max(1, self.options.keys // 10) if few < 0.5 else self.options.keys)
            chance, rng = rng.unit()
            detail.append((key, chance < self.options.tombstones))
        return replace(op, detail=tuple(detail)), replace(self, rng=rng, inner=after)

    def update(self, completed: Completed) -> Generator:
        """Hands the completion on."""
        return replace(self, inner=self.inner.update(completed))


def load(plan: Plan, options: Options) -> Generator:
    """The operations of the main phase, at the plan's rate."""
    workload, partitions, rng = plan.workload, plan.topic.partitions, Rng(plan.seed_drawn)
    sends = Sends(rng.split(1), Spread(0, workload.producers, partitions), workload.records_per_send)
    polls = Polls(rng.split(2), Spread(workload.producers, threads_of(workload), partitions))
    mixed = Mix(rng.split(3), (Keyed(rng.split(5), options, sends), polls), (workload.producers, workload.consumers))
    return TimeLimit(int(workload.time_limit_s * 1e9), Stagger(rng.split(4), 1e9 / workload.rate, mixed))
