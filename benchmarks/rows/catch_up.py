"""How fast a follower that was away gets what it lacks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import logs
from benchmarks.measure.guard import Guard, VoidRun
from benchmarks.process import wait_for
from benchmarks.report.metrics import Target
from benchmarks.rows.base import Bench, require_all_taken
from benchmarks.systems import BROKERS, is_full

LIMIT_S = 120.0
_PARTITIONS = 6
_RECORD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Broker 3 stops, total_bytes are written with the other two in the ISR, broker 3 starts again.

    Time and CPU run from the first byte that it gets until it lacks none.
    """

    total_bytes: int
    group: str = "Follower that was away"
    name: str = "1 KB records, 6 partitions, 1 MB batches"
    metrics: tuple[str, ...] = ("mb_per_s", "cpu_s_per_gb")
    targets: tuple[Target, ...] = ()

    def run(self, bench: Bench) -> Mapping[str, float]:
        cluster = bench.cluster
        away = cluster.brokers[BROKERS[-1]]
        with bench.topic(_PARTITIONS) as topic:
            away.daemon.stop()
            try:
                result = bench.lean.produce(
                    topic,
                    acks=-1,
                    record_bytes=_RECORD_BYTES,
                    batch_bytes=1_000_000,
                    records=self.total_bytes // _RECORD_BYTES,
                )
                require_all_taken(result)
            finally:
                away.daemon.start()
            behind = _length(topic, away.data)
            wanted = _length(topic, cluster.brokers[BROKERS[0]].data)
            wait_for("the first bytes", lambda: _length(topic, away.data) > behind, LIMIT_S, 0.002)
            first, before = time.monotonic(), cluster.cpu_seconds()
            wait_for("the last byte", lambda: _length(topic, away.data) >= wanted, LIMIT_S, 0.002)
            seconds, used = time.monotonic() - first, cluster.cpu_seconds() - before
            cluster.await_serving(BROKERS)
            wait_for("full ISRs", lambda: all(map(is_full, cluster.zookeeper.partitions(topic, _PARTITIONS))), LIMIT_S)
            Guard(cluster, topic, _PARTITIONS).check(result.records)
        if seconds <= 0:
            raise VoidRun("it had everything at the first look")
        gigabytes = (wanted - behind) / 1e9
        return {"mb_per_s": gigabytes * 1e3 / seconds, "cpu_s_per_gb": used / gigabytes}


def _length(topic: str, data: Path) -> int:
    return sum(lengths[0] for lengths in logs.sizes([data], topic, _PARTITIONS))
