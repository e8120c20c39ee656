"""A log of which some offsets are known: `append`s one after the other, at rising offsets.

The value of an append is its offset, None where it is not known. Where it may be then, is where nothing is known to be,
and nobody has seen that nothing is. The lowest such place is as good as any: whatever may follow a higher one may
follow it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from checkers.search.operations import Operation, State

APPEND = "append"
NOWHERE = -1
"""The state before the first append: the offset of the last one."""


@dataclass(frozen=True, slots=True)
class Places:
    """Implements `checkers.search.operations.Specification`. known: offsets of records, ascending. taken: from each
    start to each end no place is free; both ascending, ranges apart.
    """

    known: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    initial: int = NOWHERE
    forgetful: bool = False

    def is_read(self, _op: Operation) -> bool:
        """There are none."""
        return False

    def allows(self, state: State, op: Operation) -> bool:
        """What stands at a known offset follows all that stands below it."""
        assert isinstance(state, int)
        if op.value is None:
            return True
        below = bisect_left(self.known, op.value)
        return state < op.value and (not below or state >= self.known[below - 1])

    def after(self, state: State, op: Operation) -> int:
        """Its offset, or the lowest that is free."""
        assert isinstance(state, int)
        if op.value is not None:
            return int(op.value)
        at = bisect_right(self.starts, state + 1) - 1
        return self.ends[at] if at >= 0 and self.ends[at] > state + 1 else state + 1


def places(offsets: Iterable[int], passed_over: Iterable[tuple[int, int]]) -> Places:
    """offsets: of records. passed_over: ranges [start, end) in which nothing else was."""
    known = sorted(set(offsets))
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted([*((offset, offset + 1) for offset in known), *passed_over]):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return Places(known, starts, ends)
