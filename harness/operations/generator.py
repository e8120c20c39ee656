"""Generators: pure values that say which operation comes next, and when.

Decides operation, thread and time, from a seed and from what has completed. Must not know sockets, clocks or
threads: time is a value in the context. Invariants: `next` and `update` change nothing and return what follows, so two
calls with the same context give the same op; an op names a thread that is free in the context. After Jepsen's
jepsen.generator: one pure generator, one impure interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
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
class Op:
    """An operation that a thread is to begin at time_ns or later. values and sentinel are for sends.

    partition: -1 for operations of no single partition. detail: what else the workload's own client needs, a frozen
    value.
    """

    time_ns: int
    thread: int
    f: F
    partition: int
    values: tuple[int, ...] = ()
    sentinel: bool = False
    detail: Hashable = None


@dataclass(frozen=True, slots=True)
class Completed:
    """An op and how it came out. The client's own account of it is `harness.operations.op.Completion`.

    error: as in the completion. index: of its invocation in the history, which an op that repeats this one names.
    """

    op: Op
    outcome: Outcome
    error: str | None = None
    index: int = -1


Pending = Literal["pending"]
PENDING: Pending = "pending"


class Generator(Protocol):
    """A pure value that says which op comes next."""

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """(op, the generator that follows), PENDING when there is no op in this context, None when exhausted."""
        ...

    def update(self, completed: Completed) -> Generator:
        """The generator that knows of this completion."""
        ...


def within(free: tuple[int, ...], first: int, end: int) -> tuple[int, ...]:
    """Those of the threads that are in [first, end)."""
    return tuple(thread for thread in free if first <= thread < end)


@dataclass(frozen=True, slots=True)
class Mix:
    """Takes each op from one of several generators, chosen at random by weight; from another one where the chosen one
    is pending. Ends when all have ended.
    """

    rng: Rng
    parts: tuple[Generator, ...]
    weights: tuple[int, ...]

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """An op of the part that the weights choose, or of the next part that has one."""
        at, rng = self.rng.below(sum(self.weights))
        first = 0
        while at >= self.weights[first]:
            at -= self.weights[first]
            first += 1
        exhausted = True
        for step in range(len(self.parts)):
            index = (first + step) % len(self.parts)
            found = self.parts[index].next(context)
            if found is None:
                continue
            exhausted = False
            if found != PENDING:
                op, after = found
                return op, Mix(rng, (*self.parts[:index], after, *self.parts[index + 1 :]), self.weights)
        return None if exhausted else PENDING

    def update(self, completed: Completed) -> Generator:
        """Passes the completion on to every part."""
        return Mix(self.rng, tuple(part.update(completed) for part in self.parts), self.weights)


@dataclass(frozen=True, slots=True)
class Stagger:
    """Spaces ops by random, exponentially distributed gaps, so that the mean rate is 1 / gap_ns.

    A late op does not shift the next ones, so the rate holds on average; a delay of more than burst_ns is not made up
    for.
    """

    rng: Rng
    gap_ns: float
    inner: Generator
    due_ns: int = 0
    burst_ns: int = 100_000_000

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """The inner generator's op, at its own time or when it is due, whichever is later."""
        due_ns = max(self.due_ns, context.time_ns - self.burst_ns)
        found = self.inner.next(context)
        if found is None or found == PENDING:
            return found
        op, after = found
        unit, rng = self.rng.unit()
        gap = int(-self.gap_ns * math.log(1.0 - unit))
        at = max(op.time_ns, due_ns)
        return replace(op, time_ns=at), Stagger(rng, self.gap_ns, after, due_ns + gap, self.burst_ns)

    def update(self, completed: Completed) -> Generator:
        """Hands the completion on."""
        return replace(self, inner=self.inner.update(completed))


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Ends with the first op that would be at or after length_ns from the first call."""

    length_ns: int
    inner: Generator
    end_ns: int | None = None

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """The inner generator's op while its time lies before the end."""
        end_ns = self.end_ns if self.end_ns is not None else context.time_ns + self.length_ns
        if context.time_ns >= end_ns:
            return None
        found = self.inner.next(context)
        if found is None or found == PENDING:
            return found
        op, after = found
        if op.time_ns >= end_ns:
            return None
        return op, TimeLimit(self.length_ns, after, end_ns)

    def update(self, completed: Completed) -> Generator:
        """Hands the completion on."""
        return replace(self, inner=self.inner.update(completed))


@dataclass(frozen=True, slots=True)
class Phases:
    """One after the other; the next begins once the one before is exhausted and every thread is free."""

    parts: tuple[Generator, ...]

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """The op of the first part that is not exhausted."""
        parts = self.parts
        while parts:
            found = parts[0].next(context)
            if found == PENDING:
                return PENDING
            if found is not None:
                return found[0], Phases((found[1], *parts[1:]))
            if len(context.free) < context.threads:
                return PENDING
            parts = parts[1:]
        return None

    def update(self, completed: Completed) -> Generator:
        """Passes the completion on to the part under way."""
        if not self.parts:
            return self
        return Phases((self.parts[0].update(completed), *self.parts[1:]))


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

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """A sentinel for the first partition that has none; PENDING while one is being tried."""
        if not self.open:
            return PENDING if self.trying else None
        free = within(context.free, self.first, self.end)
        if not free:
            return PENDING
        partition = self.open[0]
        at = max(context.time_ns, self.not_before_ns)
        op = Op(at, free[0], "send", partition, (self.next_value,), sentinel=True)
        return op, replace(self, open=self.open[1:], trying=(*self.trying, partition), next_value=self.next_value + 1)

    def update(self, completed: Completed) -> Generator:
        """A sentinel that did not come out ok is tried again, with another value."""
        if not completed.op.sentinel or completed.op.partition not in self.trying:
            return self
        trying = tuple(partition for partition in self.trying if partition != completed.op.partition)
        if completed.outcome == "ok":
            return replace(self, trying=trying)
        return replace(
            self,
            trying=trying,
            open=(*self.open, completed.op.partition),
            not_before_ns=completed.op.time_ns + self.pause_ns,
        )


@dataclass(frozen=True, slots=True)
class Fixed:
    """The given ops, in order, each no earlier than its time."""

    ops: tuple[Op, ...]

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """The next op, PENDING while its thread is busy."""
        if not self.ops:
            return None
        op = self.ops[0]
        if op.thread not in context.free:
            return PENDING
        return replace(op, time_ns=max(op.time_ns, context.time_ns)), Fixed(self.ops[1:])

    def update(self, completed: Completed) -> Generator:
        """Nothing depends on completions."""
        return self


def fixed(ops: Sequence[Op]) -> Fixed:
    """The given ops as a generator."""
    return Fixed(tuple(ops))
