"""The operations of append-poll: sends and polls spread over all partitions, and the sentinels at the end.

Decides the mix, the pace and the values, and for each operation its thread and partition. Must not know clients. Values
below `SENTINELS` are the load's, those from there on are sentinels; a script sends values of its own, and a run has a
script or this load. Invariant: while some partition responds, it gets requests, however many others hang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    Sentinels,
    Stagger,
    TimeLimit,
    within,
)
from harness.operations.op import F
from harness.plan.plan import Plan, WorkloadPlan

SENTINELS = 10**12
"""Values from here on are sentinels."""

_A_GROUP = 3
"""With fewer threads none is kept free: two threads that never used one partition at once would leave concurrency
untested.
"""


@dataclass(frozen=True, slots=True)
class Spread:
    """Which of the threads [first, end) sends to which partition: any, at random.

    The last idle thread takes a partition for which no other thread waits. Else, where three of four leaders hang, all
    threads would wait for these within moments, and the fourth leader, which responds, would get no request until they
    time out: such a run shows nothing about availability under its fault.
    """

    first: int
    end: int
    partitions: int
    waiting: tuple[tuple[int, int], ...] = ()
    """(thread, partition) of each operation that has not completed."""

    def next(self, rng: Rng, free: tuple[int, ...]) -> tuple[int, int, Rng, Spread] | None:
        """Thread, partition, and what follows; None where no thread is idle."""
        mine = within(free, self.first, self.end)
        if not mine:
            return None
        at, rng = rng.below(len(mine))
        thread = mine[at]
        open_ = self._open(thread) if len(mine) == 1 else tuple(range(self.partitions))
        at, rng = rng.below(len(open_))
        return thread, open_[at], rng, replace(self, waiting=(*self.over(thread).waiting, (thread, open_[at])))

    def over(self, thread: int) -> Spread:
        """The thread's operation has completed."""
        return replace(self, waiting=tuple(wait for wait in self.waiting if wait[0] != thread))

    def _open(self, thread: int) -> tuple[int, ...]:
        taken = {partition for other, partition in self.waiting if other != thread}
        every = tuple(range(self.partitions))
        if self.end - self.first < _A_GROUP:
            return every
        return tuple(partition for partition in every if partition not in taken) or every


@dataclass(frozen=True, slots=True)
class Sends:
    """Endless sends of fresh values."""

    rng: Rng
    spread: Spread
    records: int
    next_value: int = 0

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """A send of `records` fresh values by an idle thread of the spread."""
        found = self.spread.next(self.rng, context.free)
        if found is None:
            return PENDING
        thread, partition, rng, spread = found
        after = self.next_value + self.records
        op = Op(context.time_ns, thread, "send", partition, tuple(range(self.next_value, after)))
        return op, Sends(rng, spread, self.records, after)

    def update(self, completed: Completed) -> Generator:
        """The thread of the completion waits no more."""
        return Sends(self.rng, self.spread.over(completed.op.thread), self.records, self.next_value)


@dataclass(frozen=True, slots=True)
class Polls:
    """Endless polls, and now and then a list_offsets."""

    rng: Rng
    spread: Spread
    list_offsets_share: float = 0.05

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """A poll, or in a share of list_offsets_share a list_offsets, by an idle thread of the spread."""
        found = self.spread.next(self.rng, context.free)
        if found is None:
            return PENDING
        thread, partition, rng, spread = found
        chance, rng = rng.unit()
        f: F = "list_offsets" if chance < self.list_offsets_share else "poll"
        return Op(context.time_ns, thread, f, partition), Polls(rng, spread, self.list_offsets_share)

    def update(self, completed: Completed) -> Generator:
        """The thread of the completion waits no more."""
        return Polls(self.rng, self.spread.over(completed.op.thread), self.list_offsets_share)


def threads_of(workload: WorkloadPlan) -> int:
    """How many threads the load has: [0, producers) send, the rest poll."""
    return max(1, workload.producers + workload.consumers)


def load(plan: Plan) -> Generator:
    """The operations of the main phase: sends and polls mixed by their threads' share, at the plan's rate."""
    rng, records = Rng(plan.seed_drawn), plan.workload.records_per_send
    paced = mixed(
        plan, rng, lambda spread: Sends(rng.split(1), spread, records), lambda spread: Polls(rng.split(2), spread)
    )
    return TimeLimit(int(plan.workload.time_limit_s * 1e9), paced)


def mixed(
    plan: Plan,
    rng: Rng,
    sends: Callable[[Spread], Generator],
    reads: Callable[[Spread], Generator],
    further: Sequence[tuple[Generator, int]] = (),
) -> Generator:
    """What threads that send and threads that read do, by their share, at the plan's rate, without an end.

    further: generators with threads of their own, and their weights, where a thread of these has 1.
    """
    workload, partitions = plan.workload, plan.topic.partitions
    parts: list[Generator] = []
    weights: list[int] = []
    if workload.producers:
        parts.append(sends(Spread(0, workload.producers, partitions)))
        weights.append(workload.producers)
    if workload.consumers:
        parts.append(reads(Spread(workload.producers, threads_of(workload), partitions)))
        weights.append(workload.consumers)
    for generator, weight in further:
        parts.append(generator)
        weights.append(weight)
    return Stagger(rng.split(4), 1e9 / workload.rate, Mix(rng.split(3), tuple(parts), tuple(weights)))


def final_sends(plan: Plan, again: int = 0) -> Generator:
    """The acknowledged sentinels, one per partition; ends when each has come out ok, or after limits.drain_s.

    again: how often a run sent sentinels before; each time they have other values.
    """
    senders = plan.workload.producers or threads_of(plan.workload)
    partitions = tuple(range(plan.topic.partitions))
    sentinels = Sentinels(partitions, SENTINELS * (again + 1), 0, senders)
    return TimeLimit(int(plan.limits.drain_s * 1e9), sentinels)
