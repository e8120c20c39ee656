"""Consume what was just written, what is on the disk only, and at a fixed rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from benchmarks.clients.lean import LeanResult
from benchmarks.measure import logs
from benchmarks.measure.guard import VoidRun
from benchmarks.report.metrics import Target, at_least, at_most
from benchmarks.rows.base import Bench, batch_text, require_all_taken, size_text, throughput
from benchmarks.rows.latency import HELD_SLACK_S

_BATCH_BYTES = 1_000_000
Source = Literal["cached", "cold"]


@dataclass(frozen=True, slots=True)
class LeanConsume:
    """A whole topic from its start by the lean client. rate: records/s, 0 for no limit. passes: so many times over.

    What is cached is read again and again, since once takes a tenth of a second and CPU time is told in hundredths.
    """

    record_bytes: int
    partitions: int
    total_bytes: int
    source: Source = "cached"
    rate: int = 0
    batch_bytes: int = _BATCH_BYTES
    passes: int = 1
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
        return consume_name(self.record_bytes, self.partitions, self.batch_bytes, self.source) + rate

    def run(self, bench: Bench) -> Mapping[str, float]:
        records = self.total_bytes // self.record_bytes
        results: list[LeanResult] = []
        with filled_topic(bench, self.partitions, records, self.record_bytes, self.batch_bytes, self.source) as topic:
            before = bench.cluster.cpu_seconds()
            for _ in range(self.passes):
                result = bench.lean.consume(topic, records=records, rate=self.rate)
                require_all_taken(result)
                if result.records != records:
                    raise VoidRun(f"{result.records} records came, {records} are there")
                results.append(result)
            used = bench.cluster.cpu_seconds() - before
        seconds = sum(result.seconds for result in results)
        taken = records * self.passes
        if self.rate and seconds > taken / self.rate + HELD_SLACK_S:
            raise VoidRun(f"the rate was not held: {seconds:.1f} s instead of {taken / self.rate:.1f}")
        found = throughput(taken, self.record_bytes, seconds, used, sum(result.cpu_s for result in results))
        return {**found, "broker_cores": used / seconds}


@dataclass(frozen=True, slots=True)
class LibraryConsume:
    """The same by librdkafka, which makes a message of every record."""

    record_bytes: int
    partitions: int
    total_bytes: int
    source: Source = "cached"
    group: str = "Consume, librdkafka"
    metrics: tuple[str, ...] = ("mb_per_s", "krecords_per_s", "cpu_s_per_gb", "client_cores")
    targets: tuple[Target, ...] = (at_most("cpu_s_per_gb", 0.5),)

    @property
    def name(self) -> str:
        return consume_name(self.record_bytes, self.partitions, _BATCH_BYTES, self.source)

    def run(self, bench: Bench) -> Mapping[str, float]:
        records = self.total_bytes // self.record_bytes
        with filled_topic(bench, self.partitions, records, self.record_bytes, _BATCH_BYTES, self.source) as topic:
            before = bench.cluster.cpu_seconds()
            result = bench.rdkafka.run("consume", topic, partitions=self.partitions, records=records)
            used = bench.cluster.cpu_seconds() - before
            require_all_taken(result)
        return throughput(records, self.record_bytes, result.seconds, used, result.cpu_s)


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
        with filled_topic(bench, partitions, records, self.record_bytes, _BATCH_BYTES, self.source) as topic:
            before = bench.cluster.cpu_seconds()
            consume = bench.java.consume if partitions > 1 else bench.java.consume_partition
            result = consume(topic, records)
            used = bench.cluster.cpu_seconds() - before
            if result.records < records:
                raise VoidRun(f"{result.records} of {records} records came")
        return throughput(records, self.record_bytes, result.seconds, used, result.cpu_s)


def consume_name(record_bytes: int, partitions: int, batch_bytes: int, source: Source) -> str:
    plural = "s" if partitions > 1 else ""
    return f"{size_text(record_bytes)}, {partitions} partition{plural}, {batch_text(batch_bytes)} batches, {source}"


@contextmanager
def filled_topic(
    bench: Bench, partitions: int, records: int, record_bytes: int, batch_bytes: int, source: Source
) -> Iterator[str]:
    """A topic that every replica holds, in the page cache or not; checked when it was read. Raises VoidRun."""
    with bench.topic(partitions) as topic:
        guard = bench.guard(topic, partitions)
        require_all_taken(
            bench.lean.produce(topic, acks=-1, record_bytes=record_bytes, batch_bytes=batch_bytes, records=records)
        )
        guard.await_replicas()
        if source == "cold":
            logs.drop_from_cache([broker.data for broker in bench.cluster.brokers.values()], topic)
        yield topic
        guard.check(records)
