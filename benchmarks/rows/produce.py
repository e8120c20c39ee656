"""Produce as fast as it goes: with the lean client, with Kafka's own tool, and one small record a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.clients.lean import LeanResult
from benchmarks.report.metrics import Target, at_least, at_most
from benchmarks.rows.base import Bench, Produced, acks_text, batch_text, produced, size_text, throughput


@dataclass(frozen=True, slots=True)
class LeanProduce:
    """record_bytes: of the value. Time runs until the last replica holds the last record."""

    acks: int
    record_bytes: int
    partitions: int
    batch_bytes: int
    total_bytes: int
    group: str = "Produce, lean client"
    metrics: tuple[str, ...] = ("mb_per_s", "krecords_per_s", "cpu_s_per_gb", "client_cores")
    targets: tuple[Target, ...] = (at_least("mb_per_s", 2), at_most("cpu_s_per_gb", 0.33))

    @property
    def name(self) -> str:
        return produce_name(self.acks, self.record_bytes, self.partitions, self.batch_bytes)

    def run(self, bench: Bench) -> Mapping[str, float]:
        def produce(topic: str) -> LeanResult:
            return bench.lean.produce(
                topic,
                acks=self.acks,
                record_bytes=self.record_bytes,
                batch_bytes=self.batch_bytes,
                records=max(self.total_bytes // self.record_bytes, 1),
            )

        return _throughput(produced(bench, self.partitions, produce), self.record_bytes)


@dataclass(frozen=True, slots=True)
class SmallRequests:
    """One 100-byte record a request, five requests in flight a broker: what a request costs."""

    acks: int
    records: int
    partitions: int = 6
    record_bytes: int = 100
    group: str = "One record a request"
    metrics: tuple[str, ...] = ("krecords_per_s", "cpu_ms_per_1000_requests", "client_cores")
    targets: tuple[Target, ...] = (at_most("cpu_ms_per_1000_requests", 0.33),)

    @property
    def name(self) -> str:
        return f"acks={acks_text(self.acks)}, {self.record_bytes} B, five in flight a broker"

    def run(self, bench: Bench) -> Mapping[str, float]:
        def produce(topic: str) -> LeanResult:
            return bench.lean.produce(
                topic,
                acks=self.acks,
                record_bytes=self.record_bytes,
                batch_bytes=1,
                request_max_bytes=1,
                records=self.records,
            )

        run = produced(bench, self.partitions, produce)
        return {
            "krecords_per_s": run.result.records / run.seconds / 1e3,
            "cpu_ms_per_1000_requests": run.broker_cpu_s * 1e3 / (run.result.requests / 1e3),
            "client_cores": run.result.cpu_s / run.seconds,
        }


@dataclass(frozen=True, slots=True)
class LibraryProduce:
    """The same by librdkafka, which builds every record."""

    acks: int
    record_bytes: int
    partitions: int
    batch_bytes: int
    total_bytes: int
    group: str = "Produce, librdkafka"
    metrics: tuple[str, ...] = ("mb_per_s", "krecords_per_s", "cpu_s_per_gb", "client_cores")
    targets: tuple[Target, ...] = (at_most("cpu_s_per_gb", 0.33),)

    @property
    def name(self) -> str:
        return produce_name(self.acks, self.record_bytes, self.partitions, self.batch_bytes)

    def run(self, bench: Bench) -> Mapping[str, float]:
        def produce(topic: str) -> LeanResult:
            return bench.rdkafka.run(
                "produce",
                topic,
                acks=self.acks,
                record_bytes=self.record_bytes,
                partitions=self.partitions,
                batch_bytes=self.batch_bytes,
                records=max(self.total_bytes // self.record_bytes, 1),
            )

        return _throughput(produced(bench, self.partitions, produce), self.record_bytes)


@dataclass(frozen=True, slots=True)
class ToolProduce:
    """kafka-producer-perf-test with its defaults but for acks, batch size and what goes with large batches."""

    acks: int
    record_bytes: int
    partitions: int
    batch_bytes: int
    total_bytes: int
    group: str = "Produce, kafka-producer-perf-test"
    metrics: tuple[str, ...] = ("mb_per_s", "krecords_per_s", "cpu_s_per_gb", "client_cores")
    targets: tuple[Target, ...] = (at_most("cpu_s_per_gb", 0.33),)

    @property
    def name(self) -> str:
        return produce_name(self.acks, self.record_bytes, self.partitions, self.batch_bytes)

    def run(self, bench: Bench) -> Mapping[str, float]:
        records = max(self.total_bytes // self.record_bytes, 1)
        properties = {"acks": acks_text(self.acks), "batch.size": str(self.batch_bytes)}
        if self.batch_bytes >= 1_000_000:
            # The largest request must hold the largest batch, and the memory a window of batches for each partition.
            properties |= {"max.request.size": "2097152", "buffer.memory": "134217728", "linger.ms": "5"}
        with bench.topic(self.partitions) as topic:
            guard = bench.guard(topic, self.partitions)
            before = bench.cluster.cpu_seconds()
            result = bench.java.produce(topic, records, self.record_bytes, properties)
            end_ns = guard.await_replicas()
            used = bench.cluster.cpu_seconds() - before
            guard.check(result.records)
        seconds = result.seconds + max(end_ns - result.exited_ns, 0) / 1e9
        return throughput(result.records, self.record_bytes, seconds, used, result.cpu_s)


def _throughput(run: Produced, record_bytes: int) -> Mapping[str, float]:
    return throughput(run.result.records, record_bytes, run.seconds, run.broker_cpu_s, run.result.cpu_s)


def produce_name(acks: int, record_bytes: int, partitions: int, batch_bytes: int) -> str:
    plural = "s" if partitions > 1 else ""
    size, batch = size_text(record_bytes), batch_text(batch_bytes)
    return f"acks={acks_text(acks)}, {size}, {partitions} partition{plural}, {batch} batches"
