"""What grows with the number of partitions, and with the length of a log: on clusters of their own."""

from __future__ import annotations

import itertools
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.clients.lean import Lean
from benchmarks.measure.sparse import BATCH_BYTES, set_checkpoints, write_sparse_log
from benchmarks.process import wait_for
from benchmarks.report.metrics import Target
from benchmarks.rows.base import GB, Bench, require_all_taken
from benchmarks.systems import Cluster, is_full
from benchmarks.topics import create_topic

IDLE_S = 3.0
LIMIT_S = 300.0
LEADER_TRIES = 3
_MB = 1e6
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Partitions:
    """A topic of that many partitions: making it, holding it, writing to all of it, starting with it."""

    count: int
    folder: Path
    total_bytes: int = 100_000_000
    group: str = "Cost over the number of partitions"
    targets: tuple[Target, ...] = ()
    metrics: tuple[str, ...] = (
        "create_s",
        "idle_cores",
        "rss_mb",
        "p50_us",
        "p99_us",
        "mb_per_s",
        "cpu_s_per_gb",
        "restart_s",
    )

    @property
    def name(self) -> str:
        return f"{self.count:,} partitions"

    def run(self, bench: Bench) -> Mapping[str, float]:
        with _own_cluster(bench, self.folder) as (cluster, lean):
            begun = time.monotonic()
            create_topic(cluster, "many", self.count)
            created = time.monotonic() - begun
            create_topic(cluster, "one", 1)
            before = cluster.cpu_seconds()
            time.sleep(IDLE_S)
            idle = (cluster.cpu_seconds() - before) / IDLE_S
            latency = _one_in_flight(lean, "one", 3000)
            before = cluster.cpu_seconds()
            result = lean.produce("many", acks=-1, record_bytes=1024, records=self.total_bytes // 1024)
            require_all_taken(result)
            used = cluster.cpu_seconds() - before
            rss = statistics.fmean(cluster.rss_bytes()) / _MB
            cluster.stop_brokers()
            return {
                "create_s": created,
                "idle_cores": idle,
                "rss_mb": rss,
                "mb_per_s": self.total_bytes / result.seconds / _MB,
                "cpu_s_per_gb": used / (self.total_bytes / GB),
                "restart_s": _start_until_full(cluster, "many", self.count),
                **latency,
            }


@dataclass(frozen=True, slots=True)
class LogSize:
    """One partition whose log is that long, sparse on the disk: starting with it and appending to it."""

    gigabytes: int
    folder: Path
    group: str = "Cost over the length of a log (sparse)"
    targets: tuple[Target, ...] = ()
    metrics: tuple[str, ...] = ("restart_s", "recovery_s", "rss_mb", "p50_us", "p99_us")

    @property
    def name(self) -> str:
        return f"{self.gigabytes:,} GB a replica"

    def run(self, bench: Bench) -> Mapping[str, float]:
        with _own_cluster(bench, self.folder) as (cluster, lean):
            create_topic(cluster, "long", 1)
            cluster.stop_brokers()
            for broker in cluster.brokers.values():
                end = write_sparse_log(broker.data / "long-0", self.gigabytes * 10**9 // BATCH_BYTES)
                set_checkpoints(broker.data, "long", 0, end)
            restarted = _start_until_full(cluster, "long", 1)
            latency = _one_in_flight(lean, "long", 3000)
            rss = statistics.fmean(cluster.rss_bytes()) / _MB
            for broker in cluster.brokers.values():
                broker.daemon.kill()
            # Kafka refuses to start while the session of its former life is open.
            wait_for("the old sessions' end", lambda: not cluster.zookeeper.live_brokers(), LIMIT_S)
            return {
                "restart_s": restarted,
                "recovery_s": _start_until_full(cluster, "long", 1),
                "rss_mb": rss,
                **latency,
            }


@contextmanager
def _own_cluster(bench: Bench, folder: Path) -> Iterator[tuple[Cluster, Lean]]:
    """A cluster of the bench's kind that nothing else uses; gone afterwards with its files."""
    bench.ballast.pretouch()
    home = folder / f"curve-{next(_numbers)}"
    cluster = Cluster(bench.cluster.kind, home)
    try:
        cluster.start()
        yield cluster, bench.lean.at(cluster.bootstrap)
    finally:
        cluster.close()
        shutil.rmtree(home, ignore_errors=True)


def _one_in_flight(lean: Lean, topic: str, records: int) -> Mapping[str, float]:
    """Measured again when the leader changed meanwhile: after a start, leaders go back to where they are preferred."""
    for _ in range(LEADER_TRIES):
        result = lean.produce(topic, acks=-1, batch_bytes=1, in_flight=1, skip_ms=300, records=records)
        if not result.failed_records:
            break
        time.sleep(1)
    require_all_taken(result)
    return {"p50_us": result.latency_us.p50, "p99_us": result.latency_us.p99}


def _start_until_full(cluster: Cluster, topic: str, partitions: int) -> float:
    """Start stopped brokers; seconds until they serve and every partition is led with a full ISR."""
    begun = time.monotonic()
    cluster.start_brokers()
    wait_for(
        f"{cluster.name}: full ISRs of {topic}",
        lambda: all(map(is_full, cluster.zookeeper.partitions(topic, partitions))),
        LIMIT_S,
    )
    return time.monotonic() - begun
