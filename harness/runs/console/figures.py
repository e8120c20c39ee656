"""Rates and latencies of the last seconds, in bounded memory however long the run and however fast.

Must not know what an operation means. Times are seconds of one monotonic clock. Not thread-safe.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from math import ceil

KEPT_S = 60
"""For how many whole seconds counts are kept."""
RATE_WINDOW_S = 5
LATENCY_WINDOW_S = 10.0
SAMPLES = 4096
"""So many latencies are kept: at a high rate they are of less than LATENCY_WINDOW_S."""
OPEN_MOST = 10_000
"""So many operations are followed from invocation to completion; of more, the oldest are not measured."""


class PerSecond:
    """How many things of each kind happened in each of the last KEPT_S whole seconds since origin_s."""

    def __init__(self, origin_s: float) -> None:
        self._origin_s = origin_s
        self._second = 0
        self._now: Counter[str] = Counter()
        self._past: deque[tuple[int, Counter[str]]] = deque(maxlen=KEPT_S)

    def add(self, now_s: float, kind: str) -> None:
        """One of that kind happened now."""
        second = int(now_s - self._origin_s)
        if second > self._second:
            self._turn(second)
        self._now[kind] += 1

    def _turn(self, second: int) -> None:
        self._past.append((self._second, self._now))
        self._second, self._now = second, Counter()

    def rate(self, now_s: float, kind: str) -> float:
        """Per second, over the last RATE_WINDOW_S whole seconds; 0 before the first is over."""
        series = self.series(now_s, kind)[-RATE_WINDOW_S:]
        return sum(series) / len(series) if series else 0.0

    def series(self, now_s: float, kind: str) -> list[int]:
        """One count for each of the last whole seconds, KEPT_S at most, the newest last."""
        second = int(now_s - self._origin_s)
        if second > self._second:
            self._turn(second)
        found = {at: counts[kind] for at, counts in self._past}
        return [found.get(at, 0) for at in range(max(0, self._second - KEPT_S), self._second)]


class Latencies:
    """How long operations took, from the times of their lines."""

    def __init__(self) -> None:
        self._open: dict[object, int] = {}
        self._done: deque[tuple[float, int]] = deque(maxlen=SAMPLES)

    def begin(self, index: object, at_ns: int) -> None:
        """Operation `index` was invoked."""
        self._open[index] = at_ns
        if len(self._open) > OPEN_MOST:
            del self._open[next(iter(self._open))]

    def end(self, index: object, at_ns: int, now_s: float, *, counts: bool) -> None:
        """It has come out; counts: its latency is one of those that are shown."""
        began_ns = self._open.pop(index, None)
        if began_ns is not None and counts:
            self._done.append((now_s, at_ns - began_ns))

    def samples(self) -> list[tuple[float, int]]:
        """(when it came out, what it took in ns) of the newest operations, SAMPLES at most."""
        return list(self._done)


def recent(samples: Sequence[tuple[float, int]], now_s: float) -> list[int]:
    """What those of the last LATENCY_WINDOW_S took, in ns, the quickest first."""
    return sorted(took_ns for at_s, took_ns in samples if now_s - at_s <= LATENCY_WINDOW_S)


def percentile(ordered: Sequence[int], share: float) -> int:
    """The smallest value that at least this share (above 0, at most 1) of all do not exceed. ordered: not empty."""
    return ordered[ceil(share * len(ordered)) - 1]
