"""What a system is when nothing or little happens: time to start, memory, idle CPU; and its memory under load."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.report.metrics import Target, at_most
from benchmarks.rows.base import Found, Row, require_all_taken
from benchmarks.systems import Cluster, Kind

SETTLE_S = 3.0
IDLE_S = 2.0
SAMPLE_S = 0.1
_MB = 1e6
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Start(Row):
    """Three new brokers over a ZooKeeper that runs: from the first process until all are registered and answer; then
    what they hold and use without any load.
    """

    folder: Path
    name: str = "three new brokers, before any load"
    group: str = "Footprint"
    metrics: tuple[str, ...] = ("start_s", "rss_mb", "idle_cores")
    targets: tuple[Target, ...] = (at_most("start_s", 0.2), at_most("rss_mb", 0.2))
    needs_warm_up: bool = False
    estimate_s: float = 20.0
    make: Callable[[Kind, Path], Cluster] = Cluster

    def run(self, bench: Bench, found: Found) -> None:
        cluster = self.make(bench.kind, self.folder / f"start-{next(_numbers)}")
        try:
            found["start_s"] = cluster.start()
            time.sleep(SETTLE_S)
            idle(bench.at(cluster), found)
        finally:
            cluster.close()


@dataclass(frozen=True, slots=True)
class LoadedMemory(Row):
    """Mean resident memory of the three brokers after loads of its own, its maximum during them, idle CPU after them.

    total_bytes: as large batches; a fifth of it as small ones; and a record for each 10,000 bytes, one a request.
    """

    total_bytes: int
    name: str = "after large and small batches and single records"
    group: str = "Footprint"
    metrics: tuple[str, ...] = ("rss_mb", "rss_max_mb", "idle_cores")
    targets: tuple[Target, ...] = (at_most("rss_mb", 0.2), at_most("rss_max_mb", 0.2))

    @property
    def estimate_s(self) -> float:
        return 8 + self.total_bytes / 20e6

    def run(self, bench: Bench, found: Found) -> None:
        with bench.topic(6) as topic:
            guard = bench.guard(topic, 6)
            records = 0
            large, small, single = self.total_bytes // 1024, self.total_bytes // 5120, self.total_bytes // 10_000
            loads = ((1024, 1_000_000, large), (1024, 16384, small), (100, 1, single))
            with bench.room(self.total_bytes * 6 // 5), _Peak(bench.cluster) as peak:
                for size, batch, count in loads:
                    request = 1 if batch == 1 else 1 << 20
                    result = bench.lean.produce(
                        topic, acks=-1, record_bytes=size, batch_bytes=batch, records=count, request_max_bytes=request
                    )
                    require_all_taken(result)
                    records += result.records
                guard.await_replicas()
            found["rss_max_mb"] = peak.mean_max_bytes / _MB
            idle(bench, found)
            guard.check(records)


def idle(bench: Bench, found: Found) -> None:
    """Memory now, and CPU used in a few seconds without load."""
    window = bench.window()
    time.sleep(IDLE_S)
    used = window.close()
    found.update(used.facts())
    found["rss_mb"] = statistics.fmean(bench.cluster.rss_bytes()) / _MB
    found["idle_cores"] = used.broker_cpu_s / used.seconds


class _Peak:
    """Looks at the brokers' memory again and again while it is open."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.mean_max_bytes = 0.0
        """The largest mean of the three."""

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            try:
                self.mean_max_bytes = max(self.mean_max_bytes, statistics.fmean(self._cluster.rss_bytes()))
            except Exception:  # a broker that ends is the row's to tell
                return
            if self._over.wait(SAMPLE_S):
                return
