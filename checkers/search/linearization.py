"""The search for a linearization: Wing and Gong's, with Lowe's memory and just-in-time order.

Pure. The history is gone through by time. An operation opens when it may first take effect, and has to have taken
effect when it returns. Only then, where it has not, open writes are put in order until it has; each order is tried,
one that suffices first. A read is put in order as soon as the state allows it.

Why that finds an order where there is one. Take any. Its writes are put in order no earlier than it says, so what it
has between two of them has opened by the time of the second. A read changes nothing, so it may stand as early as the
state allows it and what its session answered before stands before it. Of a `forgetful` object a write that never
completes, and that nobody reads before the next one, may be left out.

Memory: configurations are the same whose state is the same, and whose open operations that stand in order. One that has
used more writes that never complete than another, and is the same otherwise, can do nothing that the other cannot.

Sources: Wing and Gong, *Testing and Verifying Concurrent Objects* (1993); Lowe, *Testing for Linearizability* (2017).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from checkers.search.operations import Operation, Outcome, Specification, State, Verdict
from checkers.search.timeline import OPENS, timeline_of


def search(spec: Specification, operations: Sequence[Operation], budget: int) -> Outcome:
    """Whether all operations have one order.

    budget: how many configurations may be looked at, beyond one for each operation; where they do not suffice, the
    outcome is `out-of-budget`. Raises ValueError for an operation that is over before it begins.
    """
    # A read that never completed says nothing.
    used = [op for op in operations if op.complete_ns is not None or not spec.is_read(op)]
    return _Search(spec, used).run(budget + len(used))


class _Path(NamedTuple):
    """The operations that stand in order, by number, the last one first."""

    number: int
    before: _Path | None


class _Configuration(NamedTuple):
    """at: the next event. taken: bits of the open operations that stand in order."""

    at: int
    state: State
    taken: int
    path: _Path | None


class _Search:
    """One search; what is open is kept for the one event at which the search stands."""

    def __init__(self, spec: Specification, operations: Sequence[Operation]) -> None:
        self._spec = spec
        self._line = timeline_of(operations)
        self._is_read = [spec.is_read(op) for op in self._line.ops]
        self._never_complete = sum(
            bit for bit, op in zip(self._line.bits, self._line.ops, strict=True) if op.complete_ns is None
        )
        self._at = 0
        self._open_writes: dict[int, None] = {}
        self._open_reads: dict[int, None] = {}
        self._seen: defaultdict[tuple[int, State, int], list[int]] = defaultdict(list)

    def run(self, most: int) -> Outcome:
        """most: configurations."""
        waiting = [_Configuration(0, self._spec.initial, 0, None)]
        looked_at = 0
        furthest: list[_Configuration] = []
        while waiting:
            here = self._advanced(waiting.pop())
            if not furthest or here.at > furthest[0].at:
                furthest = []
            if not furthest or here.at == furthest[0].at:
                furthest.append(here)
            if here.at == len(self._line.events):
                return self._outcome("linearizable", [here], looked_at)
            if self._known(here):
                continue
            if looked_at == most:
                return self._outcome("out-of-budget", furthest, looked_at)
            looked_at += 1
            waiting += self._next(here)
        return self._outcome("not-linearizable", furthest, looked_at)

    def _advanced(self, here: _Configuration) -> _Configuration:
        """As far as the events go without a choice: to the return of what does not stand in order."""
        at, state, taken, path = here
        self._stand_at(at)
        while at < len(self._line.events):
            kind, n = self._line.events[at]
            if kind != OPENS:
                if not taken & self._line.bits[n]:
                    break
                taken &= ~self._line.bits[n]
            at += 1
            self._stand_at(at)
            if kind == OPENS and self._is_read[n]:
                taken, path = self._with_reads(state, taken, path)
        return _Configuration(at, state, taken, path)

    def _stand_at(self, at: int) -> None:
        """Before the event of that place."""
        while self._at != at:
            forth = self._at < at
            kind, n = self._line.events[self._at if forth else self._at - 1]
            still_open = self._open_reads if self._is_read[n] else self._open_writes
            if forth == (kind == OPENS):
                still_open[n] = None
            else:
                del still_open[n]
            self._at += 1 if forth else -1

    def _known(self, here: _Configuration) -> bool:
        """Whether the same, or one that has used less, was looked at before; if not, it is from now on."""
        used = here.taken & self._never_complete
        seen = self._seen[here.at, here.state, here.taken & ~used]
        if any(less & ~used == 0 for less in seen):
            return True
        seen.append(used)
        return False

    def _next(self, here: _Configuration) -> list[_Configuration]:
        """With one more write in order; last those in which what is to return stands in order then."""
        _, returning = self._line.events[here.at]
        found = []
        for n in self._open_writes:
            op, bit = self._line.ops[n], self._line.bits[n]
            if here.taken & bit or not self._spec.allows(here.state, op):
                continue
            state = self._spec.after(here.state, op)
            taken, path = self._with_reads(state, here.taken | bit, _Path(n, here.path))
            if op.complete_ns is None and self._spec.forgetful and taken == here.taken | bit:
                continue
            found.append(_Configuration(here.at, state, taken, path))
        found.sort(key=lambda one: bool(one.taken & self._line.bits[returning]))
        return found

    def _with_reads(self, state: State, taken: int, path: _Path | None) -> tuple[int, _Path | None]:
        """(taken, path) with the open reads that the state allows."""
        more = True
        while more:
            more = False
            for n in self._open_reads:
                bit = self._line.bits[n]
                if not taken & bit and self._spec.allows(state, self._line.ops[n]) and self._may_stand(n, taken):
                    taken, path, more = taken | bit, _Path(n, path), True
        return taken, path

    def _may_stand(self, number: int, taken: int) -> bool:
        """Whether what its session answered before stands in order."""
        line = self._line
        return all(
            line.returned_at[n] < self._at or (line.opened_at[n] < self._at and taken & line.bits[n])
            for n in line.before[number]
        )

    def _outcome(self, verdict: Verdict, furthest: Sequence[_Configuration], looked_at: int) -> Outcome:
        at, path = furthest[0].at, furthest[0].path
        order = []
        while path is not None:
            order.append(self._line.ops[path.number].index)
            path = path.before
        ends = at == len(self._line.events)
        return Outcome(
            verdict,
            completed=sum(kind != OPENS for kind, _ in self._line.events[:at]),
            order=tuple(reversed(order)),
            blocking=None if ends else self._line.ops[self._line.events[at][1]].index,
            states=tuple(dict.fromkeys(one.state for one in furthest)),
            configurations=looked_at,
        )
