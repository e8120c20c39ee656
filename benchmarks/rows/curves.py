"""What grows with the number of partitions, and with the length of a log: on clusters of their own.

Nothing else is up meanwhile but the brokers and the ZooKeeper of the row.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.measure.guard import VoidRun
from benchmarks.measure.logs import size_bytes
from benchmarks.measure.sparse import BATCH_BYTES, set_checkpoints, write_sparse_log
from benchmarks.process import STOP_TIMEOUT_S, wait_for
from benchmarks.report.metrics import Target
from benchmarks.rows.base import Found, Row, require_all_taken
from benchmarks.rows.latency import SKIP_MS
from benchmarks.rows.measured import percentiles, throughput
from benchmarks.systems import BROKERS, Cluster
from benchmarks.topics import await_full, await_known, create_topic, timeout_s
from benchmarks.warm_up import BRIEF, warm_up

LIMIT_S = 300.0
LEADER_TRIES = 3
IDLE_WINDOW_S = 2.0
IDLE_LIMIT_S = 60.0
IDLE_FLAT_CORES = 0.02
IDLE_FLAT_WINDOWS = 8
ONE_IN_FLIGHT = 3000
_RECORD_BYTES = 1024
_BATCH_RECORDS = 15
"""Of 1 KB in a batch of 16 KB."""
_MB = 1e6
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Partitions(Row):
    """A topic of that many partitions: making it, holding it, writing to all of it, starting with it."""

    count: int
    folder: Path
    group: str = "Cost over the number of partitions"
    targets: tuple[Target, ...] = ()
    needs_warm_up: bool = False
    metrics: tuple[str, ...] = (
        "create_s",
        "idle_cores",
        "rss_mb",
        "p50_us",
        "p99_us",
        "max_us",
        "mb_per_s",
        "cpu_s_per_gb",
        "restart_s",
    )

    @property
    def name(self) -> str:
        return f"{self.count:,} partitions"

    @property
    def total_bytes(self) -> int:
        """Three full batches a partition, in case that one broker is faster than others; 100 MB at least."""
        return max(3 * self.count * _BATCH_RECORDS * _RECORD_BYTES, 100_000_000)

    @property
    def estimate_s(self) -> float:
        return 170 + self.count * 0.06

    def run(self, bench: Bench, found: Found) -> None:
        with own_cluster(bench, self.folder) as own:
            cluster = own.cluster
            found.update(warm_up(own, BRIEF).facts())
            begun = time.monotonic()
            create_topic(cluster, "many", self.count)
            found["create_s"] = time.monotonic() - begun
            create_topic(cluster, "one", 1)
            found["idle_cores"] = _flat_idle_cores(cluster)
            _one_in_flight(own, "one", found)
            self._write_to_all(own, found)
            found["rss_mb"] = statistics.fmean(cluster.rss_bytes()) / _MB
            _stop(cluster, self.count)
            found["restart_s"] = _start_until_full(cluster, "many", self.count)

    def _write_to_all(self, own: Bench, found: Found) -> None:
        own.pretouch()
        guard = own.guard("many", self.count)
        with own.room(self.total_bytes):
            window = own.window()
            result = own.lean.produce(
                "many", acks=-1, record_bytes=_RECORD_BYTES, records=self.total_bytes // _RECORD_BYTES
            )
            end_ns = guard.await_replicas()
            used = window.close()
        seconds = (end_ns - result.first_send_ns) / 1e9
        found.update(used.facts())
        found.update(throughput(result.records, _RECORD_BYTES, seconds, used, result.cpu_s))
        require_all_taken(result)
        guard.check(result.records)
        data = own.cluster.brokers[BROKERS[0]].data
        empty = sum(size_bytes(data / f"many-{partition}") == 0 for partition in range(self.count))
        if empty:
            raise VoidRun(f"{empty} of {self.count} partitions got no record")


@dataclass(frozen=True, slots=True)
class LogSize(Row):
    """One partition whose log is that long, sparse on the disk: starting with it and appending to it.

    The log counts as flushed up to its end, as it is after a clean stop, so that what a start after SIGKILL recovers is
    the segment that was written to; how long a log is must not matter then either.
    """

    gigabytes: int
    folder: Path
    group: str = "Cost over the length of a log (sparse)"
    targets: tuple[Target, ...] = ()
    needs_warm_up: bool = False
    metrics: tuple[str, ...] = ("restart_s", "recovery_s", "rss_mb", "p50_us", "p99_us", "max_us")

    @property
    def name(self) -> str:
        return f"{self.gigabytes:,} GB a replica"

    @property
    def estimate_s(self) -> float:
        return 150.0

    def run(self, bench: Bench, found: Found) -> None:
        with own_cluster(bench, self.folder) as own:
            cluster = own.cluster
            create_topic(cluster, "long", 1)
            _stop(cluster, 1)
            for broker in cluster.brokers.values():
                end = write_sparse_log(broker.data / "long-0", self.gigabytes * 10**9 // BATCH_BYTES)
                set_checkpoints(broker.data, "long", 0, end)
            found["restart_s"] = _start_until_full(cluster, "long", 1)
            found.update(warm_up(own, BRIEF).facts())
            _one_in_flight(own, "long", found)
            found["rss_mb"] = statistics.fmean(cluster.rss_bytes()) / _MB
            for broker in cluster.brokers.values():
                broker.daemon.kill()
            # Kafka refuses to start while the session of its former life is open.
            wait_for("the old sessions' end", lambda: not cluster.zookeeper.live_brokers(), LIMIT_S)
            found["recovery_s"] = _start_until_full(cluster, "long", 1)


@contextmanager
def own_cluster(bench: Bench, folder: Path) -> Iterator[Bench]:
    """The same system on a cluster that nothing else uses; gone afterwards with its files."""
    bench.pretouch()
    home = folder / f"curve-{next(_numbers)}"
    cluster = Cluster(bench.kind, home)
    try:
        cluster.start()
        yield bench.at(cluster)
    finally:
        cluster.close()
        shutil.rmtree(home, ignore_errors=True)


def _flat_idle_cores(cluster: Cluster) -> float:
    """CPU without load, once it has not fallen for a while: what a new topic gives to do takes its time, in steps."""
    deadline, least, flat = time.monotonic() + IDLE_LIMIT_S, float("inf"), 0
    while flat < IDLE_FLAT_WINDOWS and time.monotonic() < deadline:
        begun, cpu = time.monotonic(), cluster.cpu_time()
        time.sleep(IDLE_WINDOW_S)
        cores = cluster.cpu_time().since(cpu).total_s / (time.monotonic() - begun)
        flat = flat + 1 if cores > least - IDLE_FLAT_CORES else 0
        least = min(cores, least)
    return least


def _one_in_flight(own: Bench, topic: str, found: Found) -> None:
    """Measured again when the leader changed meanwhile: after a start, leaders go back to where they are preferred."""
    for _ in range(LEADER_TRIES):
        guard = own.guard(topic, 1)
        result = own.lean.produce(topic, acks=-1, batch_bytes=1, in_flight=1, skip_ms=SKIP_MS, records=ONE_IN_FLIGHT)
        if not result.failed_records:
            break
        time.sleep(1)
    found.update(percentiles(result.latency_us, "us"))
    require_all_taken(result)
    guard.await_replicas()
    guard.check_isr()


def _stop(cluster: Cluster, partitions: int) -> None:
    """A clean stop of all. Raises VoidRun when a broker had to be killed: what follows would be no start after it."""
    killed = cluster.stop_brokers(STOP_TIMEOUT_S + timeout_s(partitions))
    if killed:
        raise VoidRun(f"brokers {killed} did not stop and were killed")


def _start_until_full(cluster: Cluster, topic: str, partitions: int) -> float:
    """Start stopped brokers; seconds until they serve and every partition is led with a full ISR, and all know that.

    What ZooKeeper says alone may be of before: brokers that were killed left it full.
    """
    begun = time.monotonic()
    cluster.start_brokers()
    await_known(cluster, topic, partitions)
    await_full(cluster, topic, partitions)
    return time.monotonic() - begun
