"""Latency: at fixed loads, and with one record in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.clients.lean import LeanResult
from benchmarks.measure.guard import VoidRun
from benchmarks.report.metrics import Target, at_most
from benchmarks.rows.base import Bench, acks_text, produced, size_text

HELD_SLACK_S = 0.5
"""A load was held when the last record was acknowledged this soon after it was due."""


@dataclass(frozen=True, slots=True)
class FixedLoad:
    """Records due at a fixed rate; a record's latency runs from when it was due. linger_us: 0 sends at once."""

    acks: int
    rate: int
    record_bytes: int
    seconds: float
    linger_us: int = 0
    partitions: int = 6
    batch_bytes: int = 16384
    group: str = "Produce at a fixed load"
    metrics: tuple[str, ...] = ("p50_ms", "p99_ms", "p999_ms", "broker_cores", "client_cores")
    targets: tuple[Target, ...] = (at_most("p99_ms", 0.33),)

    @property
    def name(self) -> str:
        linger = f"{self.linger_us / 1000:g} ms linger" if self.linger_us else "no linger"
        return f"{self.rate:,} records/s of {size_text(self.record_bytes)}, acks={acks_text(self.acks)}, {linger}"

    def run(self, bench: Bench) -> Mapping[str, float]:
        def produce(topic: str) -> LeanResult:
            return bench.lean.produce(
                topic,
                acks=self.acks,
                rate=self.rate,
                record_bytes=self.record_bytes,
                batch_bytes=self.batch_bytes,
                linger_us=self.linger_us,
                skip_ms=int(self.seconds * 200),
                records=int(self.rate * self.seconds),
            )

        result, _, used = produced(bench, self.partitions, produce)
        if result.seconds > self.seconds + HELD_SLACK_S:
            raise VoidRun(f"the load was not held: {result.seconds:.1f} s for {self.seconds:g} s of records")
        found = result.latency_us
        return {
            "p50_ms": found.p50 / 1e3,
            "p99_ms": found.p99 / 1e3,
            "p999_ms": found.p999 / 1e3,
            "broker_cores": used / result.seconds,
            "client_cores": result.cpu_s / result.seconds,
        }


@dataclass(frozen=True, slots=True)
class OneInFlight:
    """One 100-byte record at a time on one partition: from sent to acknowledged."""

    acks: int
    records: int
    record_bytes: int = 100
    group: str = "One record in flight"
    metrics: tuple[str, ...] = ("p50_us", "p99_us", "p999_us")

    @property
    def name(self) -> str:
        return f"acks={acks_text(self.acks)}, {size_text(self.record_bytes)}"

    @property
    def targets(self) -> tuple[Target, ...]:
        return (at_most("p50_us", 0.6),) if self.acks == -1 else ()

    def run(self, bench: Bench) -> Mapping[str, float]:
        def produce(topic: str) -> LeanResult:
            return bench.lean.produce(
                topic,
                acks=self.acks,
                record_bytes=self.record_bytes,
                batch_bytes=1,
                in_flight=1,
                skip_ms=300,
                records=self.records,
            )

        result = produced(bench, 1, produce).result
        found = result.latency_us
        if found.count == 0:
            raise VoidRun(f"{result.records} records took less than the 300 ms that are left out")
        return {"p50_us": found.p50, "p99_us": found.p99, "p999_us": found.p999}
