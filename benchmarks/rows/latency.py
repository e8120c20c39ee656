"""Latency: at fixed loads, and with one record in flight."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.clients.lean import LeanResult
from benchmarks.measure.guard import NotHeld, VoidRun
from benchmarks.report.metrics import Target, at_most
from benchmarks.rows import pace
from benchmarks.rows.base import Found, Row, acks_text, linger_text, size_text
from benchmarks.rows.measured import per_request, percentiles, produced, throughput

SKIP_MS = 300
HELD_SLACK_S = 0.5
"""A load was held when the last record was acknowledged this soon after it was due."""


def require_held(seconds: float, wanted_s: float) -> None:
    """Raises NotHeld when it took longer than it should."""
    if seconds > wanted_s + HELD_SLACK_S:
        raise NotHeld(f"the load was not held: {seconds:.1f} s for {wanted_s:.1f} s of records")


@dataclass(frozen=True, slots=True)
class FixedLoad(Row):
    """Records due at a fixed rate; a record's latency runs from when it was due. linger_us: 0 sends at once.

    bulk: so much comes in that what a GB costs is told, and judged.
    """

    acks: int
    rate: int
    record_bytes: int
    seconds: float
    linger_us: int = 0
    partitions: int = 6
    batch_bytes: int = 16384
    bulk: bool = False
    group: str = "Produce at a fixed load"
    client_threads: int = 1

    @property
    def metrics(self) -> tuple[str, ...]:
        bulk = ("krecords_per_s", "cpu_s_per_gb") if self.bulk else ()
        latencies = ("p50_ms", "p99_ms", "p999_ms")
        return (*latencies, *bulk, "broker_cores", "cpu_ms_per_1000_requests", "client_cores")

    @property
    def targets(self) -> tuple[Target, ...]:
        bulk = (at_most("cpu_s_per_gb", 0.33),) if self.bulk else ()
        return (at_most("p99_ms", 0.33), *bulk)

    @property
    def name(self) -> str:
        size, linger = size_text(self.record_bytes), linger_text(self.linger_us)
        return f"{self.rate:,} records/s of {size}, acks={acks_text(self.acks)}, {linger}"

    @property
    def estimate_s(self) -> float:
        return 2 * (pace.AROUND_S + self.seconds)

    def run(self, bench: Bench, found: Found) -> None:
        records = int(self.rate * self.seconds)

        def produce(topic: str) -> LeanResult:
            return bench.lean.produce(
                topic,
                acks=self.acks,
                rate=self.rate,
                record_bytes=self.record_bytes,
                batch_bytes=self.batch_bytes,
                linger_us=self.linger_us,
                skip_ms=int(self.seconds * 200),
                records=records,
            )

        with produced(bench, found, self.partitions, records * self.record_bytes, produce) as run:
            result = run.result
            found.update(throughput(result.records, self.record_bytes, run.seconds, run.used, result.cpu_s))
            found.update(per_request(run.used, result.requests))
            found.update(percentiles(result.latency_us, "ms"))
            found["broker_cores"] = run.used.broker_cpu_s / run.seconds
            require_held(result.seconds, self.seconds)


@dataclass(frozen=True, slots=True)
class OneInFlight(Row):
    """One 100-byte record at a time on one partition: from sent to acknowledged."""

    acks: int
    records: int
    record_bytes: int = 100
    group: str = "One record in flight"
    metrics: tuple[str, ...] = ("p50_us", "p99_us", "p999_us", "max_us", "cpu_ms_per_1000_requests")

    @property
    def name(self) -> str:
        return f"acks={acks_text(self.acks)}, {size_text(self.record_bytes)}"

    @property
    def targets(self) -> tuple[Target, ...]:
        return (at_most("p50_us", 0.6),) if self.acks == -1 else ()

    @property
    def estimate_s(self) -> float:
        theirs, ours = (0.0006, 0.0004) if self.acks == -1 else (0.0002, 0.0001)
        return 2 * pace.AROUND_S + self.records * (theirs + ours)

    def run(self, bench: Bench, found: Found) -> None:
        def produce(topic: str) -> LeanResult:
            return bench.lean.produce(
                topic,
                acks=self.acks,
                record_bytes=self.record_bytes,
                batch_bytes=1,
                in_flight=1,
                skip_ms=SKIP_MS,
                records=self.records,
            )

        with produced(bench, found, 1, self.records * 2 * self.record_bytes, produce) as run:
            found.update(percentiles(run.result.latency_us, "us"))
            found.update(per_request(run.used, run.result.requests))
            if run.result.latency_us.count == 0:
                raise VoidRun(f"{run.result.records} records took less than the {SKIP_MS} ms that are left out")
