"""Consume what was just written, what is on the disk only, and at a fixed rate."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.clients.lean import LeanResult
from benchmarks.measure.guard import VoidRun
from benchmarks.report.metrics import Target, at_least, at_most
from benchmarks.rows import pace
from benchmarks.rows.base import Found, Row, batch_text, partitions_text, require_all_taken, size_text
from benchmarks.rows.latency import require_held
from benchmarks.rows.measured import Source, filled_topic, per_request, throughput

_BATCH_BYTES = 1_000_000
_TARGETS = (at_least("mb_per_s", 1), at_most("cpu_s_per_gb", 0.5))


@dataclass(frozen=True, slots=True)
class LeanConsume(Row):
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
    client_threads: int = 1

    @property
    def metrics(self) -> tuple[str, ...]:
        speed = ("krecords_per_s", "broker_cores") if self.rate else ("mb_per_s", "krecords_per_s")
        return (*speed, "cpu_s_per_gb", "cpu_ms_per_1000_requests", "client_cores")

    @property
    def targets(self) -> tuple[Target, ...]:
        return _TARGETS[1:] if self.rate else _TARGETS

    @property
    def name(self) -> str:
        rate = f", {self.rate:,} records/s" if self.rate else ""
        return consume_name(self.record_bytes, self.partitions, self.batch_bytes, self.source) + rate

    @property
    def estimate_s(self) -> float:
        taken = self.total_bytes * self.passes
        filling = pace.both(self.total_bytes, pace.produce(-1, self.batch_bytes))
        reading = pace.both(taken, pace.COLD if self.source == "cold" else pace.CONSUME)
        # Before it is cold, three copies go to the disk.
        writing = pace.both(3 * self.total_bytes, pace.COLD) if self.source == "cold" else 0.0
        if self.rate:
            reading = 2 * taken / self.record_bytes / self.rate
        return 2 * pace.AROUND_S + filling + writing + reading

    def run(self, bench: Bench, found: Found) -> None:
        records = self.total_bytes // self.record_bytes
        results: list[LeanResult] = []
        with filled_topic(bench, self.partitions, records, self.record_bytes, self.batch_bytes, self.source) as filled:
            window = bench.window()
            for _ in range(self.passes):
                result = bench.lean.consume(filled.topic, records=records, rate=self.rate)
                require_all_taken(result)
                if result.records != records:
                    raise VoidRun(f"{result.records} records came, {records} are there")
                results.append(result)
            used = window.close()
            seconds = sum(result.seconds for result in results)
            taken = records * self.passes
            found.update(used.facts())
            client_cpu_s = sum(result.cpu_s for result in results)
            found.update(throughput(taken, self.record_bytes, seconds, used, client_cpu_s))
            found.update(per_request(used, sum(result.requests for result in results)))
            found["broker_cores"] = used.broker_cpu_s / seconds
            filled.check_source(used, sum(result.bytes for result in results))
            if self.rate:
                require_held(seconds, taken / self.rate)


@dataclass(frozen=True, slots=True)
class LibraryConsume(Row):
    """The same by librdkafka, which makes a message of every record: the application's thread and one a broker."""

    record_bytes: int
    partitions: int
    total_bytes: int
    source: Source = "cached"
    group: str = "Consume, librdkafka"
    metrics: tuple[str, ...] = ("mb_per_s", "krecords_per_s", "cpu_s_per_gb", "client_cores")
    targets: tuple[Target, ...] = _TARGETS
    client_threads: int = 4

    @property
    def name(self) -> str:
        return consume_name(self.record_bytes, self.partitions, _BATCH_BYTES, self.source)

    @property
    def estimate_s(self) -> float:
        filling = pace.both(self.total_bytes, pace.produce(-1, _BATCH_BYTES))
        return 2 * pace.AROUND_S + filling + pace.both(self.total_bytes, pace.LIBRARY_CONSUME)

    def run(self, bench: Bench, found: Found) -> None:
        records = self.total_bytes // self.record_bytes
        with filled_topic(bench, self.partitions, records, self.record_bytes, _BATCH_BYTES, self.source) as filled:
            window = bench.window()
            result = bench.rdkafka.run("consume", filled.topic, partitions=self.partitions, records=records)
            used = window.close()
            found.update(used.facts())
            found.update(throughput(records, self.record_bytes, result.seconds, used, result.cpu_s))
            require_all_taken(result)
            filled.check_source(used, records * self.record_bytes)


def consume_name(record_bytes: int, partitions: int, batch_bytes: int, source: Source) -> str:
    size, batch = size_text(record_bytes), batch_text(batch_bytes)
    return f"{size}, {partitions_text(partitions)}, {batch} batches, {source}"
