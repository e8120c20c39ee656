"""The place of a phase among all of a run: `phase 3 of 9`.

Decides how a run that goes another way than expected is counted: what was passed over will not come, what comes
unexpectedly is one more. Must not know what a phase does.
"""

from __future__ import annotations

from collections.abc import Sequence


class Phases:
    """expected: names in their order; None where they are not known beforehand."""

    def __init__(self, expected: Sequence[str] | None) -> None:
        self._known = expected is not None
        self._to_come = list(expected or ())
        self.number = 0
        """Of the phase at hand, from 1; 0 before the first."""

    @property
    def of(self) -> int | None:
        """How many there will be in all; None where that is not known."""
        return self.number + len(self._to_come) if self._known else None

    def begin(self, name: str) -> None:
        """The next phase began."""
        self.number += 1
        if name in self._to_come:
            del self._to_come[: self._to_come.index(name) + 1]
