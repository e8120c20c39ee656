"""Consume while it is produced: what comes in at a rate is read at once, by some consumers."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.clients.lean import LeanResult, LeanRun
from benchmarks.measure.guard import VoidRun
from benchmarks.report.metrics import Target
from benchmarks.rows import pace
from benchmarks.rows.base import GB, Found, Row, linger_text, require_all_taken, size_text
from benchmarks.rows.latency import require_held
from benchmarks.rows.measured import per_request, percentiles

_BEFORE_START_NS = 1_000_000_000
"""Until the first record is due all clients have connected."""


@dataclass(frozen=True, slots=True)
class TailRead(Row):
    """acks=all, records due at a fixed rate; `consumers` read all of them as they come, and another one as much of them
    as behind_rate says, from the start of the topic.

    A latency runs from when a record was due at the producer until it was at a consumer. Lag: how long after the last
    acknowledgement the last record came.
    """

    rate: int
    record_bytes: int
    seconds: float
    linger_us: int = 0
    batch_bytes: int = 16384
    consumers: int = 1
    behind_rate: int = 0
    partitions: int = 6
    group: str = "Tail read"
    metrics: tuple[str, ...] = (
        "krecords_per_s",
        "out_krecords_per_s",
        "p50_ms",
        "p99_ms",
        "p999_ms",
        "lag_ms",
        "broker_cores",
        "cpu_s_per_gb",
        "cpu_ms_per_1000_requests",
        "client_cores",
    )
    targets: tuple[Target, ...] = ()

    @property
    def name(self) -> str:
        out = self.consumers * self.rate + self.behind_rate
        size, linger = size_text(self.record_bytes), linger_text(self.linger_us)
        return f"{self.rate:,} records/s of {size} in, {out:,} out, acks=all, {linger}"

    @property
    def estimate_s(self) -> float:
        return 2 * (pace.AROUND_S + self.seconds + 1.5)

    def run(self, bench: Bench, found: Found) -> None:
        records = int(self.rate * self.seconds)
        with bench.topic(self.partitions) as topic:
            guard = bench.guard(topic, self.partitions)
            with bench.room(records * self.record_bytes):
                window = bench.window()
                produced, consumed = self._clients(bench, topic, records)
                guard.await_replicas()
                used = window.close()
            clients = (produced, *consumed)
            seconds = (max(result.last_ack_ns for result in clients) - produced.first_send_ns) / 1e9
            slowest = max(consumed[: self.consumers], key=lambda result: result.latency_us.p99)
            taken = sum(result.records for result in consumed)
            found.update(used.facts())
            found.update(percentiles(slowest.latency_us, "ms"))
            found.update(per_request(used, sum(result.requests for result in clients)))
            found["krecords_per_s"] = produced.records / produced.seconds / 1e3
            found["out_krecords_per_s"] = taken / seconds / 1e3
            found["lag_ms"] = max(slowest.last_ack_ns - produced.last_ack_ns, 0) / 1e6
            found["broker_cores"] = used.broker_cpu_s / seconds
            found["cpu_s_per_gb"] = used.broker_cpu_s / (records * self.record_bytes / GB)
            found["client_cores"] = sum(result.cpu_s for result in clients) / seconds
            for result in clients:
                require_all_taken(result)
            if any(result.records < records for result in consumed[: self.consumers]):
                raise VoidRun(f"{[result.records for result in consumed]} records came, {records} were acknowledged")
            require_held(produced.seconds, self.seconds)
            require_held(seconds, self.seconds)
            guard.check(produced.records)

    def _clients(self, bench: Bench, topic: str, records: int) -> tuple[LeanResult, list[LeanResult]]:
        """What the producer and the consumers found; those that read the tail come first."""
        start_ns = time.monotonic_ns() + _BEFORE_START_NS
        shared = {"records": records, "start_ns": start_ns, "skip_ms": int(self.seconds * 200)}
        running: list[LeanRun] = []
        try:
            # Not a list: those that have begun are ended where a later one cannot begin.
            running += (bench.lean.begin("consume", topic, due_rate=self.rate, **shared) for _ in range(self.consumers))
            if self.behind_rate:
                behind = int(self.behind_rate * self.seconds)
                slow = {"records": behind, "rate": self.behind_rate, "start_ns": start_ns}
                running.append(bench.lean.begin("consume", topic, **slow))
            produced = bench.lean.produce(
                topic,
                acks=-1,
                rate=self.rate,
                record_bytes=self.record_bytes,
                batch_bytes=self.batch_bytes,
                linger_us=self.linger_us,
                **shared,
            )
            return produced, [run.finish() for run in running]
        finally:
            for run in running:
                run.kill()
