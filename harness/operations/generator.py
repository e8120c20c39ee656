"""Generators: pure values that say which operation comes next, and when.

Decides operation, thread and time, from a seed and from what has completed. Must not know sockets, clocks or
threads: time is a value in the context. Invariants: `next` and `update` change nothing and return what follows, so
asking twice with the same context gives the same draw; a draw names a thread that is free in the context.
After Jepsen's jepsen.generator: one pure generator, one impure interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

from harness.operations.op import F, Outcome

_MASK = (1 << 64) - 1


class Rng(NamedTuple):
    """A stream of random numbers as a value (splitmix64): each draw returns the stream that follows.

    Source: Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014.
    """

    state: int

    def bits(self) -> tuple[int, Rng]:
        """64 random bits."""
        state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31), Rng(state)

    def below(self, end: int) -> tuple[int, Rng]:
        """A whole number in [0, end)."""
        bits, rng = self.bits()
        return (bits * end) >> 64, rng

    def unit(self) -> tuple[float, Rng]:
        """A number in [0, 1)."""
        bits, rng = self.bits()
        return (bits >> 11) * (1.0 / (1 << 53)), rng

    def split(self, name: int) -> Rng:
        """An independent stream; the same for the same stream and name."""
        bits, _ = Rng((self.state ^ (name * 0xD1342543DE82EF95)) & _MASK).bits()
        return Rng(bits)


@dataclass(frozen=True, slots=True)
class Context:
    """What a generator may look at. time_ns: since the interpreter began; free: idle threads, ascending; threads:
    all of them.
    """

    time_ns: int
    free: tuple[int, ...]
    threads: int


@dataclass(frozen=True, slots=True)
class Draw:
    """An operation that some thread is to do at a time. values and sentinel are for sends."""

    time_ns: int
    thread: int
    f: F
    partition: int
    values: tuple[int, ...] = ()
    sentinel: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """A draw that came out."""

    draw: Draw
    outcome: Outcome


Pending = Literal["pending"]
PENDING: Pending = "pending"


class Generator(Protocol):
    """`next`: a draw and what follows it, PENDING when nothing can be drawn in this context, None when exhausted."""

    def next(self, context: Context) -> tuple[Draw, Generator] | Pending | None: ...

    def update(self, done: Done) -> Generator: ...


def within(free: tuple[int, ...], first: int, end: int) -> tuple[int, ...]:
    """Those of the threads that are in [first, end)."""
    return tuple(thread for thread in free if first <= thread < end)


@dataclass(frozen=True, slots=True)
class Mix:
    """Draws from one of several at random, by weight; from another where that one has nothing now. Ends when all
    have.
    """

    rng: Rng
    parts: tuple[Generator, ...]
    weights: tuple[int, ...]

    def next(self, context: Context) -> tuple[Draw, Generator] | Pending | None:
        at, rng = self.rng.below(sum(self.weights))
        first = 0
        while at >= self.weights[first]:
            at -= self.weights[first]
            first += 1
        exhausted = True
        for step in range(len(self.parts)):
            index = (first + step) % len(self.parts)
            drawn = self.parts[index].next(context)
            if drawn is None:
                continue
            exhausted = False
            if drawn != PENDING:
                draw, after = drawn
                return draw, Mix(rng, (*self.parts[:index], after, *self.parts[index + 1 :]), self.weights)
        return None if exhausted else PENDING

    def update(self, done: Done) -> Generator:
        return Mix(self.rng, tuple(part.update(done) for part in self.parts), self.weights)


@dataclass(frozen=True, slots=True)
class Stagger:
    """Spaces draws by random, exponentially distributed gaps, so that the mean rate is 1 / gap_ns.

    A late draw does not shift the next ones, so the rate holds on average; but no more than burst_ns are ever caught
    up.
    """

    rng: Rng
    gap_ns: float
    inner: Generator
    due_ns: int = 0
    burst_ns: int = 100_000_000

    def next(self, context: Context) -> tuple[Draw, Generator] | Pending | None:
        due_ns = max(self.due_ns, context.time_ns - self.burst_ns)
        drawn = self.inner.next(context)
        if drawn is None or drawn == PENDING:
            return drawn
        draw, after = drawn
        unit, rng = self.rng.unit()
        gap = int(-self.gap_ns * math.log(1.0 - unit))
        at = max(draw.time_ns, due_ns)
        return replace(draw, time_ns=at), Stagger(rng, self.gap_ns, after, due_ns + gap, self.burst_ns)

    def update(self, done: Done) -> Generator:
        return replace(self, inner=self.inner.update(done))


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Ends with the first draw that would be at or after length_ns from when it was first asked."""

    length_ns: int
    inner: Generator
    end_ns: int | None = None

    def next(self, context: Context) -> tuple[Draw, Generator] | Pending | None:
        end_ns = self.end_ns if self.end_ns is not None else context.time_ns + self.length_ns
        if context.time_ns >= end_ns:
            return None
        drawn = self.inner.next(context)
        if drawn is None or drawn == PENDING:
            return drawn
        draw, after = drawn
        if draw.time_ns >= end_ns:
            return None
        return draw, TimeLimit(self.length_ns, after, end_ns)

    def update(self, done: Done) -> Generator:
        return replace(self, inner=self.inner.update(done))


@dataclass(frozen=True, slots=True)
class Phases:
    """One after the other; the next begins once the one before is exhausted and every thread is free."""

    parts: tuple[Generator, ...]

    def next(self, context: Context) -> tuple[Draw, Generator] | Pending | None:
        parts = self.parts
        while parts:
            drawn = parts[0].next(context)
            if drawn == PENDING:
                return PENDING
            if drawn is not None:
                return drawn[0], Phases((drawn[1], *parts[1:]))
            if len(context.free) < context.threads:
                return PENDING
            parts = parts[1:]
        return None

    def update(self, done: Done) -> Generator:
        if not self.parts:
            return self
        return Phases((self.parts[0].update(done), *self.parts[1:]))


@dataclass(frozen=True, slots=True)
class Sentinels:
    """One acknowledged sentinel per partition: tried again, each time with a new value, until one comes out ok.

    open: partitions still without one and not being tried. A retry waits pause_ns.
    """

    open: tuple[int, ...]
    next_value: int
    first: int
    end: int
    trying: tuple[int, ...] = ()
    not_before_ns: int = 0
    pause_ns: int = 100_000_000

    def next(self, context: Context) -> tuple[Draw, Generator] | Pending | None:
        if not self.open:
            return PENDING if self.trying else None
        free = within(context.free, self.first, self.end)
        if not free:
            return PENDING
        partition = self.open[0]
        at = max(context.time_ns, self.not_before_ns)
        draw = Draw(at, free[0], "send", partition, (self.next_value,), sentinel=True)
        return draw, replace(self, open=self.open[1:], trying=(*self.trying, partition), next_value=self.next_value + 1)

    def update(self, done: Done) -> Generator:
        if not done.draw.sentinel or done.draw.partition not in self.trying:
            return self
        trying = tuple(partition for partition in self.trying if partition != done.draw.partition)
        if done.outcome == "ok":
            return replace(self, trying=trying)
        return replace(
            self,
            trying=trying,
            open=(*self.open, done.draw.partition),
            not_before_ns=done.draw.time_ns + self.pause_ns,
        )


@dataclass(frozen=True, slots=True)
class Fixed:
    """The given draws, in order, each no earlier than its time."""

    draws: tuple[Draw, ...]

    def next(self, context: Context) -> tuple[Draw, Generator] | Pending | None:
        if not self.draws:
            return None
        draw = self.draws[0]
        if draw.thread not in context.free:
            return PENDING
        return replace(draw, time_ns=max(draw.time_ns, context.time_ns)), Fixed(self.draws[1:])

    def update(self, done: Done) -> Generator:
        return self


def fixed(draws: Sequence[Draw]) -> Fixed:
    return Fixed(tuple(draws))
