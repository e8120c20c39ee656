"""The quantities of the table: unit, digits, and which way is better; and what is to be reached.

Pure. A target is a limit on the ratio highwater / Kafka, or on highwater's own median.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """label: as the table prints it, with its unit."""

    label: str
    digits: int
    better: Literal["more", "less", "neither"]


METRICS = {
    "mb_per_s": Metric("MB/s", 0, "more"),
    "krecords_per_s": Metric("1,000 records/s", 0, "more"),
    "out_krecords_per_s": Metric("1,000 records/s out", 0, "more"),
    "cpu_s_per_gb": Metric("broker CPU-s per GB", 2, "less"),
    "cpu_ms_per_1000_requests": Metric("broker CPU-ms per 1,000 requests", 1, "less"),
    "broker_cores": Metric("broker CPU, cores", 2, "less"),
    "client_cores": Metric("client CPU, cores", 2, "neither"),
    "p50_us": Metric("p50 µs", 0, "less"),
    "p99_us": Metric("p99 µs", 0, "less"),
    "p999_us": Metric("p99.9 µs", 0, "less"),
    "max_us": Metric("longest µs", 0, "less"),
    "p50_ms": Metric("p50 ms", 2, "less"),
    "p99_ms": Metric("p99 ms", 2, "less"),
    "p999_ms": Metric("p99.9 ms", 2, "less"),
    "lag_ms": Metric("lag at the end, ms", 1, "less"),
    "rss_mb": Metric("RSS a broker, MB", 0, "less"),
    "rss_max_mb": Metric("RSS a broker, at most, MB", 0, "less"),
    "start_s": Metric("seconds until all serve", 2, "less"),
    "unavailable_s": Metric("seconds without success", 3, "less"),
    "idle_cores": Metric("broker CPU without load, cores", 4, "less"),
    "restart_s": Metric("seconds to full ISRs, after a clean stop", 2, "less"),
    "recovery_s": Metric("seconds to full ISRs, after SIGKILL", 2, "less"),
    "create_s": Metric("seconds to create", 2, "less"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """metric must be at least or at most `limit`: times Kafka's median (ratio), or in its own unit."""

    metric: str
    bound: Literal["at least", "at most"]
    limit: float
    of: Literal["ratio", "value"] = "ratio"

    def met(self, value: float, ratio: float | None) -> bool | None:
        """None when there is no ratio to judge."""
        judged = value if self.of == "value" else ratio
        if judged is None:
            return None
        return judged >= self.limit if self.bound == "at least" else judged <= self.limit

    @property
    def text(self) -> str:
        sign = "≥" if self.bound == "at least" else "≤"
        return f"{sign} {self.limit:g}" if self.of == "ratio" else f"{sign} {self.limit:g} here"


def at_least(metric: str, ratio: float) -> Target:
    return Target(metric, "at least", ratio)


def at_most(metric: str, ratio: float) -> Target:
    return Target(metric, "at most", ratio)
