"""Endless operations of a load, spread over all partitions.

Decides operation, thread and partition. Must not know pace or length: those are the combinators' of
`harness.operations.generator`. Invariant: while some partition is answered, it is asked, however many others hang.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.operations.generator import PENDING, Context, Done, Draw, Generator, Pending, Rng, within
from harness.operations.op import F

_A_GROUP = 3
"""Of fewer threads none is held back: two that never met on a partition would leave its concurrency untested."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Which of the threads [first, end) asks which partition: any, at random.

    But the last idle thread takes a partition that no other waits for. Where three of four leaders hang, all
    threads would else be with them within moments, and the fourth, which would have answered, is not asked until
    they time out: such a run says nothing about what was available under its fault.
    """

    first: int
    end: int
    partitions: int
    waiting: tuple[tuple[int, int], ...] = ()
    """(thread, partition) of what has not come out."""

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
        """That thread waits no more."""
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

    def next(self, context: Context) -> tuple[Draw, Generator] | Pending | None:
        drawn = self.spread.next(self.rng, context.free)
        if drawn is None:
            return PENDING
        thread, partition, rng, spread = drawn
        after = self.next_value + self.records
        draw = Draw(context.time_ns, thread, "send", partition, tuple(range(self.next_value, after)))
        return draw, Sends(rng, spread, self.records, after)

    def update(self, done: Done) -> Generator:
        return Sends(self.rng, self.spread.over(done.draw.thread), self.records, self.next_value)


@dataclass(frozen=True, slots=True)
class Polls:
    """Endless polls, and now and then a list_offsets."""

    rng: Rng
    spread: Spread
    list_offsets_share: float = 0.05

    def next(self, context: Context) -> tuple[Draw, Generator] | Pending | None:
        drawn = self.spread.next(self.rng, context.free)
        if drawn is None:
            return PENDING
        thread, partition, rng, spread = drawn
        chance, rng = rng.unit()
        f: F = "list_offsets" if chance < self.list_offsets_share else "poll"
        return Draw(context.time_ns, thread, f, partition), Polls(rng, spread, self.list_offsets_share)

    def update(self, done: Done) -> Generator:
        return Polls(self.rng, self.spread.over(done.draw.thread), self.list_offsets_share)
