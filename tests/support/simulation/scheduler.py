"""Virtual time: what happens next, in which order, and by what chance. A seed decides all of it."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Final

START_MS: Final = 1_000_000.0
_EVENTS_MAX: Final = 3_000_000


class Scheduler:
    """Calls what is due, one call at a time; nothing else makes time pass."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_ms = START_MS
        self.trace: list[str] = []
        """What happened, for whoever reads a failure; equal for equal seeds."""
        self.failures: list[str] = []
        """What nobody raised to the test: errors in callbacks, errors that the broker logged."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0
        self.events = 0

    def note(self, text: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{self.now_ms - START_MS:10.3f} {text}")

    def at(self, delay_ms: float, call: Callable[[], None]) -> None:
        """Once, delay_ms from now; of equal times, first come first."""
        self._scheduled += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._scheduled, call))

    def run(self, ms: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let so much time pass, or less where `until` says so; True where it did."""
        end_ms = self.now_ms + ms
        while not until():
            if not self._heap or self._heap[0][0] > end_ms:
                self.now_ms = end_ms
                return False
            due_ms, _, call = heapq.heappop(self._heap)
            self.now_ms = max(self.now_ms, due_ms)
            self.events += 1
            assert self.events < _EVENTS_MAX, "the simulation does not come to an end"
            call()
        return True
