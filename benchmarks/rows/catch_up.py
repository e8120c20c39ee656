"""How fast a follower that was away gets what it lacks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.clients.lean import LeanResult
from benchmarks.measure import logs
from benchmarks.measure.guard import Guard, VoidRun
from benchmarks.process import wait_for
from benchmarks.report.metrics import Target
from benchmarks.rows.base import Found, Row, require_all_taken
from benchmarks.systems import BROKERS
from benchmarks.topics import await_full

LIMIT_S = 120.0
_AWAY = BROKERS[-1]
_PARTITIONS = 6
_RECORD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class CatchUp(Row):
    """Broker 3 stops, total_bytes are written with the other two in the ISR, broker 3 starts again.

    Time and CPU run from the first byte that it gets until it lacks none: its start is not in them.
    """

    total_bytes: int
    group: str = "Follower that was away"
    name: str = "1 KB records, 6 partitions, 1 MB batches"
    metrics: tuple[str, ...] = ("mb_per_s", "cpu_s_per_gb")
    targets: tuple[Target, ...] = ()
    estimate_s: float = 35.0

    def run(self, bench: Bench, found: Found) -> None:
        cluster = bench.cluster
        away = cluster.brokers[_AWAY]
        with bench.topic(_PARTITIONS) as topic:
            if not away.daemon.stop():
                away.daemon.start()
                raise VoidRun(f"broker {_AWAY} did not stop and was killed")
            with bench.room(self.total_bytes, copies=3):
                try:
                    result = self._without_it(bench, topic)
                finally:
                    away.daemon.start()
                behind = _length(topic, away.data)
                wanted = _length(topic, cluster.brokers[BROKERS[0]].data)
                wait_for("the first bytes", lambda: _length(topic, away.data) > behind, LIMIT_S, 0.002)
                first, window = time.monotonic(), bench.window()
                wait_for("the last byte", lambda: _length(topic, away.data) >= wanted, LIMIT_S, 0.002)
                seconds, used = time.monotonic() - first, window.close()
            gigabytes = (wanted - behind) / 1e9
            found.update(used.facts())
            found["cpu_s_per_gb"] = used.broker_cpu_s / gigabytes
            if seconds > 0:
                found["mb_per_s"] = gigabytes * 1e3 / seconds
            cluster.await_serving(BROKERS)
            await_full(cluster, topic, _PARTITIONS)
            bench.guard(topic, _PARTITIONS).check(result.records)
            if seconds <= 0:
                raise VoidRun("it had everything at the first look")

    def _without_it(self, bench: Bench, topic: str) -> LeanResult:
        """Write while nothing changes: the two that are left are the ISR, before and after."""
        rest = len(BROKERS) - 1
        wait_for(
            f"an ISR without broker {_AWAY}",
            lambda: all(
                state is not None and state.leader not in (-1, _AWAY) and len(state.isr) == rest
                for state in bench.cluster.zookeeper.partitions(topic, _PARTITIONS)
            ),
            LIMIT_S,
        )
        guard = Guard(bench.cluster, topic, _PARTITIONS, away=(_AWAY,))
        result = bench.lean.produce(
            topic,
            acks=-1,
            record_bytes=_RECORD_BYTES,
            batch_bytes=1_000_000,
            records=self.total_bytes // _RECORD_BYTES,
        )
        require_all_taken(result)
        guard.await_replicas()
        guard.check(result.records)
        return result


def _length(topic: str, data: Path) -> int:
    return sum(lengths[0] for lengths in logs.sizes([data], topic, _PARTITIONS))
