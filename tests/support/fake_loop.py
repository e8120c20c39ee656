"""A loop for unit tests: a clock that moves when told, timers and callbacks that run when told."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable


class FakeLoop:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._soon: deque[Callable[[], None]] = deque()
        self._sequence = 0

    def now_ms(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    call_soon_threadsafe = call_soon

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(callback)
        self._sequence += 1
        heapq.heappush(self._timers, (self.now + delay_ms, self._sequence, timer))
        return timer

    def run_soon(self) -> bool:
        """What was asked for soon; True when there was anything."""
        ran = False
        for _ in range(len(self._soon)):
            self._soon.popleft()()
            ran = True
        return ran

    def run_due(self, until: float) -> bool:
        """Fire the next timer due by `until`."""
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            if not timer.cancelled:
                timer.cancelled = True
                timer.callback()
                return True
        return False

    def advance(self, by_ms: float) -> None:
        """Let time pass, with all that is due in it."""
        until = self.now + by_ms
        while self.run_due(until):
            pass
        # A callback may have let time pass as well.
        self.now = max(self.now, until)


class FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
