"""A number that only grows, as a topic's partitions do: `grow` raises it, and is refused where it is as large.

A reader may see a growth while it is made: some of what is new, and not yet all of it. So the state is what was there
before the last growth, and what is there since, and a `count` returns anything above the first, up to the second.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from checkers.search.operations import Operation, State

GROW, REFUSED, COUNT = "grow", "refused", "count"


@dataclass(frozen=True, slots=True)
class Growing:
    """Implements `checkers.search.operations.Specification`; a state is (before, now). begins_at: whole from the first
    moment on.
    """

    begins_at: int
    forgetful: bool = False

    @property
    def initial(self) -> Hashable:
        """Nothing of it is new."""
        return self.begins_at - 1, self.begins_at

    def is_read(self, op: Operation) -> bool:
        """A growth that is refused changes nothing."""
        return op.f != GROW

    def allows(self, state: State, op: Operation) -> bool:
        """It grows by one at least; it is refused where it is as large."""
        before, now = _numbers(state)
        match op.f:
            case "grow":
                return bool(op.value > now)
            case "refused":
                return bool(op.value <= now)
        return bool(before < op.value <= now)

    def after(self, state: State, op: Operation) -> State:
        """What it grew from, and to."""
        return (_numbers(state)[1], op.value) if op.f == GROW else state


def _numbers(state: State) -> tuple[int, int]:
    assert isinstance(state, tuple)
    before, now = state
    return before, now
