"""The quantities of the table: unit and digits; and what is to be reached.

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


METRICS = {
    "mb_per_s": Metric("MB/s", 0),
    "krecords_per_s": Metric("1,000 records/s", 0),
    "out_krecords_per_s": Metric("1,000 records/s out", 0),
    "cpu_s_per_gb": Metric("broker CPU-s per GB", 2),
    "cpu_ms_per_1000_requests": Metric("broker CPU-ms per 1,000 requests", 1),
    "broker_cores": Metric("broker CPU, cores", 2),
    "client_cores": Metric("client CPU, cores", 2),
    "p50_us": Metric("p50 µs", 0),
    "p99_us": Metric("p99 µs", 0),
    "p999_us": Metric("p99.9 µs", 0),
    "max_us": Metric("longest µs", 0),
    "p50_ms": Metric("p50 ms", 2),
    "p99_ms": Metric("p99 ms", 2),
    "p999_ms": Metric("p99.9 ms", 2),
    "lag_ms": Metric("lag at the end, ms", 1),
    "rss_mb": Metric("RSS a broker, MB", 0),
    "rss_max_mb": Metric("RSS a broker, at most, MB", 0),
    "start_s": Metric("seconds until all serve", 2),
    "unavailable_s": Metric("seconds without success", 3),
    "idle_cores": Metric("broker CPU without load, cores", 4),
    "restart_s": Metric("seconds to full ISRs, after a clean stop", 2),
    "recovery_s": Metric("seconds to full ISRs, after SIGKILL", 2),
    "create_s": Metric("seconds to create", 2),
    "commits_per_s": Metric("commits/s", 0),
    "commit_krecords_per_s": Metric("1,000 offsets/s before", 1),
    "tx_per_s": Metric("transactions/s", 0),
    "cpu_ms_per_1000_tx": Metric("broker CPU-ms per 1,000 transactions", 1),
    "load_s": Metric("seconds to load", 3),
    "settle_s": Metric("seconds until all have their part", 3),
    "settle_cpu_ms": Metric("broker CPU-ms until then", 0),
    "rejoin_s": Metric("seconds after one is another", 3),
    "rejoin_cpu_ms": Metric("broker CPU-ms until then again", 0),
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
