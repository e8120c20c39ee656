"""How many bytes a second a throttled replication has moved, over a sliding window. Pure: the time is the caller's.

Source: kafka.server.ReplicationQuotaManager, org.apache.kafka.common.metrics.stats.SimpleRate; KIP-73.
"""

from __future__ import annotations

from collections import deque


class RateWindow:
    """Bytes per second over the last `samples` windows of `window_ms`; a beginning counts as one whole window."""

    __slots__ = ("_samples", "_samples_max", "_total", "_window_ms")

    def __init__(self, samples: int = 11, window_ms: float = 1000.0) -> None:
        assert samples >= 1
        assert window_ms > 0
        self._samples: deque[list[float]] = deque()
        """[start in ms, bytes], oldest first."""
        self._samples_max = samples
        self._window_ms = window_ms
        self._total = 0.0

    def record(self, count_bytes: int, now_ms: float) -> None:
        """Count bytes that were moved now. Calls come with times that do not fall."""
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, 0.0])
        self._samples[-1][1] += count_bytes
        self._total += count_bytes

    def bytes_per_s(self, now_ms: float) -> float:
        """Mean over the samples that still count; 0 when there is none."""
        self._forget(now_ms)
        if not self._samples:
            return 0.0
        return self._total * 1000 / max(now_ms - self._samples[0][0], self._window_ms)

    def _forget(self, now_ms: float) -> None:
        """A sample counts for as long as the whole window lasts."""
        while self._samples and now_ms - self._samples[0][0] >= self._samples_max * self._window_ms:
            self._total -= self._samples.popleft()[1]
