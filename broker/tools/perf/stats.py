"""Figures of a performance run, and the lines that say them. No I/O, no clock.

Source: ProducerPerformance.Stats, ConsumerPerformance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from broker.tools.client.errors import ToolError

_MB: Final = 1024 * 1024
_SAMPLES: Final = 500_000
_PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)
_FIELD = re.compile(r"yyyy|MM|dd|HH|mm|ss|SSS|[A-Za-z]+|[^A-Za-z]+")
_STRFTIME: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
HEADER: Final = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
DETAILED_HEADER: Final = HEADER.replace("start.time, end.time", "time, threadId")


class _Window:
    def __init__(self, start: float) -> None:
        self.start = start
        self.count = self.bytes = self.latency_max = self.latency_sum = 0

    def add(self, latency: int, size: int) -> None:
        self.count += 1
        self.bytes += size
        self.latency_sum += latency
        self.latency_max = max(self.latency_max, latency)

    def rates(self, now: float) -> tuple[float, float]:
        """Records and MB per second."""
        elapsed = max(now - self.start, 0.001)
        return self.count / elapsed, self.bytes / elapsed / _MB

    @property
    def latency_mean(self) -> float:
        return self.latency_sum / self.count if self.count else 0.0


class ProducerStats:
    """Times in seconds, latencies in ms. interval: of the lines on the way."""

    def __init__(self, records: int, now: float, interval: float = 5.0) -> None:
        self._all, self._window = _Window(now), _Window(now)
        self._interval = interval
        self._sampling = max(records // min(max(records, 1), _SAMPLES), 1)
        self._latencies: list[int] = []

    def record(self, latency: int, size: int, now: float) -> str | None:
        """One record was acknowledged; the line of a window that is over."""
        if self._all.count % self._sampling == 0:
            self._latencies.append(latency)
        self._all.add(latency, size)
        self._window.add(latency, size)
        if now - self._window.start < self._interval:
            return None
        window, self._window = self._window, _Window(now)
        rate, megabytes = window.rates(now)
        return (
            f"{window.count} records sent, {rate:.1f} records/sec ({megabytes:.2f} MB/sec), "
            f"{window.latency_mean:.1f} ms avg latency, {window.latency_max:.1f} ms max latency."
        )

    def total(self, now: float) -> str:
        """The last line."""
        rate, megabytes = self._all.rates(now)
        p50, p95, p99, p999 = percentiles(self._latencies)
        return (
            f"{self._all.count} records sent, {rate:f} records/sec ({megabytes:.2f} MB/sec), "
            f"{self._all.latency_mean:.2f} ms avg latency, {self._all.latency_max:.2f} ms max latency, "
            f"{p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
        )


def percentiles(latencies: Sequence[int]) -> list[int]:
    """50, 95, 99 and 99.9 %, 0 without any."""
    ordered = sorted(latencies)
    return [ordered[int(part * len(ordered))] if ordered else 0 for part in _PERCENTILES]


class Consumed(NamedTuple):
    """Up to some moment. at: seconds since 1970; rebalance: seconds of joining groups."""

    at: float
    messages: int
    bytes: int
    rebalance: float


def consumed_total(start: Consumed, end: Consumed, date_format: str) -> str:
    """The only line of figures without --show-detailed-stats."""
    megabytes, elapsed = end.bytes / _MB, max(end.at - start.at, 0.001)
    rebalance = round(end.rebalance * 1000)
    fetching = round(elapsed * 1000) - rebalance
    per = max(fetching, 1) / 1000
    return (
        f"{formatted(start.at, date_format)}, {formatted(end.at, date_format)}, {megabytes:.4f}, "
        f"{megabytes / elapsed:.4f}, {end.messages}, {end.messages / elapsed:.4f}, {rebalance}, {fetching}, "
        f"{megabytes / per:.4f}, {end.messages / per:.4f}"
    )


def consumed_window(before: Consumed, now: Consumed, date_format: str) -> str:
    """One line of --show-detailed-stats."""
    elapsed = max(now.at - before.at, 0.001)
    rebalance = round((now.rebalance - before.rebalance) * 1000)
    fetching = round(elapsed * 1000) - rebalance
    megabytes, messages = (now.bytes - before.bytes) / _MB, now.messages - before.messages
    rates = (1000 * megabytes / fetching, 1000 * messages / fetching) if fetching > 0 else (0.0, 0.0)
    return (
        f"{formatted(now.at, date_format)}, 0, {now.bytes / _MB:.4f}, {megabytes / elapsed:.4f}, {now.messages}, "
        f"{messages / elapsed:.4f}, {rebalance}, {fetching}, {rates[0]:.4f}, {rates[1]:.4f}"
    )


def formatted(at: float, date_format: str) -> str:
    """Local time by a format of Java. Raises ToolError for letters other than y M d H m s S."""
    when = datetime.fromtimestamp(at)
    parts = []
    for field in _FIELD.findall(date_format):
        if field == "SSS":
            parts.append(f"{when.microsecond // 1000:03d}")
        elif field in _STRFTIME:
            parts.append(when.strftime(_STRFTIME[field]))
        elif field.isalpha():
            raise ToolError(f"--date-format {date_format}: {field} is none of yyyy, MM, dd, HH, mm, ss, SSS")
        else:
            parts.append(field)
    return "".join(parts)
