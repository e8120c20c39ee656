"""Keeps a cleaning's reads and writes together below log.cleaner.io.max.bytes.per.second. Source: kafka Throttler."""

from __future__ import annotations

from collections.abc import Callable

_CHECK_SECONDS = 0.3


class Throttle:
    """Sleeps its caller. clock: monotonic seconds."""

    def __init__(self, bytes_per_second: float, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._since = clock()
        self._bytes = 0

    def used(self, count: int) -> None:
        """Count bytes that were read or written; sleeps when they exceed the rate since the last check."""
        self._bytes += count
        now = self._clock()
        elapsed = now - self._since
        due = self._bytes / self._rate
        # Checked from time to time, and whenever far more bytes went through than the rate allows.
        if elapsed < _CHECK_SECONDS and due < elapsed + _CHECK_SECONDS:
            return
        if due > elapsed:
            self._sleep(due - elapsed)
            now = self._clock()
        self._since = now
        self._bytes = 0


def unlimited() -> Throttle:
    """A throttle without a limit, for tests: never sleeps and reads no clock."""
    return Throttle(float("inf"), lambda: 0.0, lambda _: None)
