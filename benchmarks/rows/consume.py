"""Consume what was just written, what is on the disk only, and at a fixed rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.measure import logs
from benchmarks.measure.guard import VoidRun
from benchmarks.report.metrics import Target, at_least, at_most
from benchmarks.rows.base import GB, Bench, batch_text, require_all_taken, size_text

_BATCH_BYTES = 1_000_000
Source = Literal["cached", "cold"]


@dataclass(frozen=True, slots=True)
class LeanConsume:
    """A whole topic from its start by the lean client. rate: records/s, 0 for no limit."""

    record_bytes: int
    partitions: int
    total_bytes: int
    source: Source = "cached"
    rate: int = 0
    batch_bytes: int = _BATCH_BYTES
    group: str = "Consume, lean client"

    @property
    def metrics(self) -> tuple[str, ...]:
        if self.rate:
            return ("krecords_per_s", "cpu_s_per_gb", "broker_cores")
        return ("mb_per_s", "krecords_per_s", "cpu_s_per_gb", "client_cores")

    @property
    def targets(self) -> tuple[Target, ...]:
        cost = at_most("cpu_s_per_gb", 0.5)
        return (cost,) if self.rate else (at_least("mb_per_s", 1), cost)

    @property
    def name(self) -> str:
        rate = f", {self.rate:,} records/s" if self.rate else ""
        partitions = f"{self.partitions} partition{'s' if self.partitions > 1 else ''}"
        return (
            f"{size_text(self.record_bytes)}, {partitions}, {batch_text(self.batch_bytes)} batches, {self.source}{rate}"
        )

    def run(self, bench: Bench) -> Mapping[str, float]:
        records = self.total_bytes // self.record_bytes
        with bench.topic(self.partitions) as topic:
            fill(bench, topic, self.partitions, records, self.record_bytes, self.batch_bytes)
            guard = bench.guard(topic, self.partitions)
            if self.source == "cold":
                logs.drop_from_cache([broker.data for broker in bench.cluster.brokers.values()], topic)
            before = bench.cluster.cpu_seconds()
            result = bench.lean.consume(topic, records=records, rate=self.rate)
            used = bench.cluster.cpu_seconds() - before
            require_all_taken(result)
            if result.records != records:
                raise VoidRun(f"{result.records} records came, {records} are there")
            guard.check(records)
        if self.rate and result.seconds > records / self.rate + 0.5:
            raise VoidRun(f"the rate was not held: {result.seconds:.1f} s instead of {records / self.rate:.1f}")
        value_bytes = records * self.record_bytes
        return {
            "mb_per_s": value_bytes / result.seconds / 1e6,
            "krecords_per_s": records / result.seconds / 1e3,
            "cpu_s_per_gb": used / (value_bytes / GB),
            "broker_cores": used / result.seconds,
            "client_cores": result.cpu_s / result.seconds,
        }


@dataclass(frozen=True, slots=True)
class ToolConsume:
    """tool: kafka-consumer-perf-test (which needs consumer groups), or kafka-console-consumer of one partition."""

    tool: Literal["kafka-consumer-perf-test", "kafka-console-consumer"]
    record_bytes: int
    total_bytes: int
    source: Source = "cached"
    group: str = "Consume, Kafka's tools"
    metrics: tuple[str, ...] = ("mb_per_s", "krecords_per_s", "cpu_s_per_gb", "client_cores")
    targets: tuple[Target, ...] = (at_least("mb_per_s", 1), at_most("cpu_s_per_gb", 0.5))

    @property
    def name(self) -> str:
        return f"{self.tool}, {size_text(self.record_bytes)}, {self.source}"

    def run(self, bench: Bench) -> Mapping[str, float]:
        partitions = 6 if self.tool == "kafka-consumer-perf-test" else 1
        records = self.total_bytes // self.record_bytes
        with bench.topic(partitions) as topic:
            fill(bench, topic, partitions, records, self.record_bytes, _BATCH_BYTES)
            guard = bench.guard(topic, partitions)
            if self.source == "cold":
                logs.drop_from_cache([broker.data for broker in bench.cluster.brokers.values()], topic)
            before = bench.cluster.cpu_seconds()
            consume = bench.java.consume if partitions > 1 else bench.java.consume_partition
            result = consume(topic, records)
            used = bench.cluster.cpu_seconds() - before
            if result.records < records:
                raise VoidRun(f"{result.records} of {records} records came: this tool needs consumer groups")
            guard.check(records)
        value_bytes = records * self.record_bytes
        return {
            "mb_per_s": value_bytes / result.seconds / 1e6,
            "krecords_per_s": records / result.seconds / 1e3,
            "cpu_s_per_gb": used / (value_bytes / GB),
            "client_cores": result.cpu_s / result.seconds,
        }


def fill(bench: Bench, topic: str, partitions: int, records: int, record_bytes: int, batch_bytes: int) -> None:
    """Write that many records, and wait until every replica holds them. Raises VoidRun."""
    guard = bench.guard(topic, partitions)
    result = bench.lean.produce(topic, acks=-1, record_bytes=record_bytes, batch_bytes=batch_bytes, records=records)
    guard.await_replicas()
    require_all_taken(result)
