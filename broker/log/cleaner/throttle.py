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
        """So many bytes were read or written; wait if that was too many for the time since the last look."""
        self._bytes += count
        now = self._clock()
        elapsed = now - self._since
        due = self._bytes / self._rate
        # Looked at now and then, and whenever much more went through than the time allows.
        if elapsed < _CHECK_SECONDS and due < elapsed + _CHECK_SECONDS:
            return
        if due > elapsed:
            self._sleep(due - elapsed)
            now = self._clock()
        self._since = now
        self._bytes = 0


def unlimited() -> Throttle:
    """For cleanings that nobody waits behind, as a test's: never sleeps and reads no clock."""
    return Throttle(float("inf"), lambda: 0.0, lambda _: None)
