"""How long plans may take that share one limit.

Decides each one's share: by what it is estimated to take, of what is left when it begins, so that the first does not
use up all of it, and what one leaves falls to those after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


class Limit:
    """minutes: for all plans together; None for no limit."""

    def __init__(self, minutes: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun_s = clock()
        self._minutes = minutes
        self._end_s = float("inf")

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._begun_s

    def begin(self, estimates_s: Sequence[float]) -> None:
        """A plan begins. estimates_s: its own, then those of all that come after it."""
        if self._minutes is not None:
            left_s = max(self._minutes * 60 - self.elapsed_s, 0.0)
            self._end_s = self.elapsed_s + left_s * estimates_s[0] / sum(estimates_s)

    def why_over(self) -> str | None:
        """None while a run may begin."""
        return None if self.elapsed_s <= self._end_s else f"its share of {self._minutes:g} minutes is over"
