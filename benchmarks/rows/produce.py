"""Produce as fast as it goes: with the lean client, librdkafka and Kafka's own tool, and one record a request."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.clients.lean import LeanResult
from benchmarks.report.metrics import Target, at_least, at_most
from benchmarks.rows import pace
from benchmarks.rows.base import Found, Row, acks_text, batch_text, partitions_text, size_text
from benchmarks.rows.measured import Produced, per_request, produced, throughput

_TARGETS = (at_least("mb_per_s", 2), at_most("cpu_s_per_gb", 0.33))
_LARGE = 1_000_000


@dataclass(frozen=True, slots=True)
class LeanProduce(Row):
    """record_bytes: of the value. Time runs until the last replica holds the last record."""

    acks: int
    record_bytes: int
    partitions: int
    batch_bytes: int
    total_bytes: int
    group: str = "Produce, lean client"
    metrics: tuple[str, ...] = (
        "mb_per_s",
        "krecords_per_s",
        "cpu_s_per_gb",
        "cpu_ms_per_1000_requests",
        "client_cores",
    )
    targets: tuple[Target, ...] = _TARGETS
    client_threads: int = 1

    @property
    def name(self) -> str:
        return produce_name(self.acks, self.record_bytes, self.partitions, self.batch_bytes)

    @property
    def estimate_s(self) -> float:
        return 2 * pace.AROUND_S + pace.both(self.total_bytes, pace.produce(self.acks, self.batch_bytes))

    def run(self, bench: Bench, found: Found) -> None:
        def produce(topic: str) -> LeanResult:
            return bench.lean.produce(
                topic,
                acks=self.acks,
                record_bytes=self.record_bytes,
                batch_bytes=self.batch_bytes,
                records=max(self.total_bytes // self.record_bytes, 1),
            )

        with produced(bench, found, self.partitions, self.total_bytes, produce) as run:
            found.update(_throughput(run, self.record_bytes))


@dataclass(frozen=True, slots=True)
class SmallRequests(Row):
    """One 100-byte record a request, five requests in flight a broker: what a request costs."""

    acks: int
    records: int
    partitions: int = 6
    record_bytes: int = 100
    group: str = "One record a request"
    metrics: tuple[str, ...] = ("krecords_per_s", "cpu_ms_per_1000_requests", "client_cores")
    targets: tuple[Target, ...] = (at_most("cpu_ms_per_1000_requests", 0.33),)
    client_threads: int = 1

    @property
    def name(self) -> str:
        return f"acks={acks_text(self.acks)}, {self.record_bytes} B, five in flight a broker"

    @property
    def estimate_s(self) -> float:
        theirs, ours = (5_000, 10_000) if self.acks == -1 else (15_000, 40_000)
        return 2 * pace.AROUND_S + self.records / theirs + self.records / ours

    def run(self, bench: Bench, found: Found) -> None:
        def produce(topic: str) -> LeanResult:
            return bench.lean.produce(
                topic,
                acks=self.acks,
                record_bytes=self.record_bytes,
                batch_bytes=1,
                request_max_bytes=1,
                records=self.records,
            )

        with produced(bench, found, self.partitions, self.records * 2 * self.record_bytes, produce) as run:
            found["krecords_per_s"] = run.result.records / run.seconds / 1e3
            found["client_cores"] = run.result.cpu_s / run.seconds
            found.update(per_request(run.used, run.result.requests))


@dataclass(frozen=True, slots=True)
class LibraryProduce(Row):
    """The same by librdkafka, which builds every record: the application's thread and one a broker."""

    acks: int
    record_bytes: int
    partitions: int
    batch_bytes: int
    total_bytes: int
    group: str = "Produce, librdkafka"
    metrics: tuple[str, ...] = ("mb_per_s", "krecords_per_s", "cpu_s_per_gb", "client_cores")
    targets: tuple[Target, ...] = _TARGETS
    client_threads: int = 4

    @property
    def name(self) -> str:
        return produce_name(self.acks, self.record_bytes, self.partitions, self.batch_bytes)

    @property
    def estimate_s(self) -> float:
        found = pace.LIBRARY if self.batch_bytes >= _LARGE else pace.LIBRARY_SMALL
        return 2 * pace.AROUND_S + pace.both(self.total_bytes, found)

    def run(self, bench: Bench, found: Found) -> None:
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

        with produced(bench, found, self.partitions, self.total_bytes, produce) as run:
            found.update(_throughput(run, self.record_bytes))


@dataclass(frozen=True, slots=True)
class ToolProduce(Row):
    """kafka-producer-perf-test with its defaults but for acks, batch size and what goes with large batches."""

    acks: int
    record_bytes: int
    partitions: int
    batch_bytes: int
    total_bytes: int
    group: str = "Produce, kafka-producer-perf-test"
    metrics: tuple[str, ...] = ("mb_per_s", "krecords_per_s", "cpu_s_per_gb", "client_cores")
    targets: tuple[Target, ...] = (at_most("cpu_s_per_gb", 0.33),)
    client_threads: int = 2

    @property
    def name(self) -> str:
        return produce_name(self.acks, self.record_bytes, self.partitions, self.batch_bytes)

    @property
    def estimate_s(self) -> float:
        found = pace.TOOL_LARGE if self.batch_bytes >= _LARGE else pace.TOOL
        return 2 * (pace.AROUND_S + pace.JVM_S) + pace.both(self.total_bytes, found)

    def run(self, bench: Bench, found: Found) -> None:
        records = max(self.total_bytes // self.record_bytes, 1)
        properties = {"acks": acks_text(self.acks), "batch.size": str(self.batch_bytes)}
        if self.batch_bytes >= _LARGE:
            # The largest request must hold the largest batch, and the memory a window of batches for each partition.
            properties |= {"max.request.size": "2097152", "buffer.memory": "134217728", "linger.ms": "5"}
        with bench.topic(self.partitions) as topic:
            guard = bench.guard(topic, self.partitions)
            with bench.room(self.total_bytes):
                window = bench.window()
                result = bench.java.produce(topic, records, self.record_bytes, properties)
                end_ns = guard.await_replicas()
                used = window.close()
            found.update(used.facts())
            seconds = result.seconds + max(end_ns - result.exited_ns, 0) / 1e9
            found.update(throughput(result.records, self.record_bytes, seconds, used, result.cpu_s))
            guard.check(result.records)


def _throughput(run: Produced, record_bytes: int) -> Found:
    of = throughput(run.result.records, record_bytes, run.seconds, run.used, run.result.cpu_s)
    return {**of, **per_request(run.used, run.result.requests)}


def produce_name(acks: int, record_bytes: int, partitions: int, batch_bytes: int) -> str:
    size, batch = size_text(record_bytes), batch_text(batch_bytes)
    return f"acks={acks_text(acks)}, {size}, {partitions_text(partitions)}, {batch} batches"
