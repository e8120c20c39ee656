"""What a system is when nothing or little happens: memory, idle CPU, time to start."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report.metrics import Target, at_most
from benchmarks.rows.base import Bench
from benchmarks.systems import Cluster, Kind

_MB = 1e6
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Memory:
    """Mean resident memory of the three brokers now, and CPU used in a few idle seconds."""

    name: str
    targets: tuple[Target, ...] = (at_most("rss_mb", 0.2),)
    idle_seconds: float = 2.0
    group: str = "Footprint"
    metrics: tuple[str, ...] = ("rss_mb", "idle_cores")

    def run(self, bench: Bench) -> Mapping[str, float]:
        before = bench.cluster.cpu_seconds()
        time.sleep(self.idle_seconds)
        used = bench.cluster.cpu_seconds() - before
        return {
            "rss_mb": statistics.fmean(bench.cluster.rss_bytes()) / _MB,
            "idle_cores": used / self.idle_seconds,
        }


@dataclass(frozen=True, slots=True)
class Start:
    """Three new brokers over a ZooKeeper that runs: from the first process until all are registered and answer."""

    folder: Path
    name: str = "start of three new brokers"
    group: str = "Footprint"
    metrics: tuple[str, ...] = ("start_s",)
    targets: tuple[Target, ...] = (at_most("start_s", 0.2),)
    make: Callable[[Kind, Path], Cluster] = Cluster

    def run(self, bench: Bench) -> Mapping[str, float]:
        cluster = self.make(bench.cluster.kind, self.folder / f"start-{next(_numbers)}")
        try:
            return {"start_s": cluster.start()}
        finally:
            cluster.close()
