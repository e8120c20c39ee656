"""The load of `groups`: sends by producers, and steps of members, each of which knows itself what it does next.

Decides the mix, the pace and which thread goes on. Must not know members.
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
    within,
)
from harness.plan.plan import Plan
from harness.workloads.append_poll.generators import Polls, Sends, Spread
from harness.workloads.groups.client import CALM
from harness.workloads.groups.options import threads_of

STEP = "step"
"""Name of an op that a member turns into an operation of its own."""

ASK_END = 0.25
"""How many of a reader's operations ask where the log ends."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Endless steps by idle threads of [first, end), in random order."""

    rng: Rng
    first: int
    end: int
    calm: bool = False

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """A step of an idle thread."""
        mine = within(context.free, self.first, self.end)
        if not mine:
            return PENDING
        at, rng = self.rng.below(len(mine))
        op = Op(context.time_ns, mine[at], STEP, -1, detail=CALM if self.calm else None)
        return op, replace(self, rng=rng)

    def update(self, completed: Completed) -> Generator:
        """Nothing depends on completions."""
        return self


def load(plan: Plan) -> Generator:
    """The main phase."""
    workload, partitions, rng = plan.workload, plan.topic.partitions, Rng(plan.seed_drawn)
    threads = threads_of(plan)
    sends = Sends(rng.split(1), Spread(0, threads.producers, partitions), workload.records_per_send)
    polls = Polls(rng.split(7), Spread(threads.producers, threads.first_member, partitions), ASK_END)
    steps = Steps(rng.split(2), threads.first_member, threads.count)
    mixed = Mix(rng.split(3), (sends, polls, steps), (threads.producers, threads.readers, threads.members))
    paced = Stagger(rng.split(4), 1e9 / workload.rate, mixed)
    return TimeLimit(int(workload.time_limit_s * 1e9), paced)


def settling(plan: Plan, seconds: float) -> Generator:
    """Members alone, without disturbances: groups come together, read on and commit."""
    threads = threads_of(plan)
    steps = Steps(Rng(plan.seed_drawn).split(5), threads.first_member, threads.count, calm=True)
    paced = Stagger(Rng(plan.seed_drawn).split(6), 1e9 / plan.workload.rate, steps)
    return TimeLimit(int(seconds * 1e9), paced)
