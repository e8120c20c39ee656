"""Consume with the tools that come with Kafka."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.measure.guard import VoidRun
from benchmarks.report.metrics import Target, at_least, at_most
from benchmarks.rows import pace
from benchmarks.rows.base import Found, Row, size_text
from benchmarks.rows.measured import Source, filled_topic, throughput

_BATCH_BYTES = 1_000_000
_GROUP = "Consume, Kafka's tools"
_METRICS = ("mb_per_s", "krecords_per_s", "cpu_s_per_gb", "client_cores")
_TARGETS = (at_least("mb_per_s", 1), at_most("cpu_s_per_gb", 0.5))


@dataclass(frozen=True, slots=True)
class ConsoleConsume(Row):
    """kafka-console-consumer of one partition. It tells no time of its own, so what it takes for one record, above all
    the JVM's start, is taken off its time and its CPU.
    """

    record_bytes: int
    total_bytes: int
    source: Source = "cached"
    group: str = _GROUP
    metrics: tuple[str, ...] = _METRICS
    targets: tuple[Target, ...] = _TARGETS
    client_threads: int = 2

    @property
    def name(self) -> str:
        return f"kafka-console-consumer, {size_text(self.record_bytes)}, {self.source}"

    @property
    def estimate_s(self) -> float:
        filling = pace.both(self.total_bytes, pace.produce(-1, _BATCH_BYTES))
        return 2 * (pace.AROUND_S + 2 * pace.JVM_S) + filling + pace.both(self.total_bytes, pace.LIBRARY_CONSUME)

    def run(self, bench: Bench, found: Found) -> None:
        records = self.total_bytes // self.record_bytes
        with filled_topic(bench, 1, records, self.record_bytes, _BATCH_BYTES, self.source) as filled:
            start = bench.java.consume_partition(filled.topic, 1)
            window = bench.window()
            result = bench.java.consume_partition(filled.topic, records)
            used = window.close()
            found.update(used.facts())
            found["tool_start_s"] = start.seconds
            seconds = result.seconds - start.seconds
            if seconds <= 0:
                raise VoidRun(f"all records took {result.seconds:.1f} s, one took {start.seconds:.1f} s")
            client_cpu_s = max(result.cpu_s - start.cpu_s, 0.0)
            found.update(throughput(records, self.record_bytes, seconds, used, client_cpu_s))
            filled.check_source(used, records * self.record_bytes)


@dataclass(frozen=True, slots=True)
class GroupConsume(Row):
    """kafka-consumer-perf-test: its own time of fetching, without joining its group."""

    record_bytes: int
    total_bytes: int
    group: str = _GROUP
    metrics: tuple[str, ...] = _METRICS
    targets: tuple[Target, ...] = _TARGETS
    client_threads: int = 2
    partitions: int = 6

    @property
    def name(self) -> str:
        return f"kafka-consumer-perf-test, {size_text(self.record_bytes)}, cached"

    @property
    def estimate_s(self) -> float:
        return 10 + self.total_bytes / 170e6 + self.total_bytes / 190e6

    def run(self, bench: Bench, found: Found) -> None:
        records = self.total_bytes // self.record_bytes
        with filled_topic(bench, self.partitions, records, self.record_bytes, _BATCH_BYTES, "cached") as filled:
            window = bench.window()
            result = bench.java.consume(filled.topic, records)
            used = window.close()
            found.update(used.facts())
            found.update(throughput(result.records, self.record_bytes, result.seconds, used, result.cpu_s))
            if result.records < records:
                raise VoidRun(f"{result.records} of {records} records came")
