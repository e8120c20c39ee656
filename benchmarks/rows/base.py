"""What a row is, and what it runs with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from benchmarks.clients.java_tools import JavaTools
from benchmarks.clients.lean import Lean, LeanResult
from benchmarks.clients.rdkafka import RdKafka
from benchmarks.measure.guard import Guard, VoidRun
from benchmarks.measure.memory import Ballast
from benchmarks.report.metrics import Target
from benchmarks.systems import BROKERS, Cluster
from benchmarks.topics import create_topic, delete_topic

GB = 1e9
_topic_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Bench:
    """One system, its clients, and the memory that is touched before each run."""

    cluster: Cluster
    lean: Lean
    java: JavaTools
    rdkafka: RdKafka
    ballast: Ballast

    @contextmanager
    def topic(self, partitions: int, first: int = BROKERS[0]) -> Iterator[str]:
        """A fresh topic, led by the brokers in turn from `first` on; deleted afterwards, files and all."""
        self.ballast.pretouch()
        name = f"row{next(_topic_numbers)}"
        create_topic(self.cluster, name, partitions, first=first)
        self.ballast.make_room()
        interrupted = False
        try:
            yield name
        except KeyboardInterrupt:
            # All of the cluster goes now.
            interrupted = True
            raise
        finally:
            if not interrupted:
                delete_topic(self.cluster, name)
                self.ballast.pretouch()

    def guard(self, topic: str, partitions: int) -> Guard:
        return Guard(self.cluster, topic, partitions)


class Row(Protocol):
    """metrics: keys of report.metrics.METRICS that `run` gives and the table shows."""

    @property
    def group(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def metrics(self) -> tuple[str, ...]: ...

    @property
    def targets(self) -> tuple[Target, ...]: ...

    def run(self, bench: Bench) -> Mapping[str, float]:
        """Measure once. Raises VoidRun when the run may not be counted, BenchmarkFailed when it could not be made."""
        ...


def size_text(record_bytes: int) -> str:
    return "1 KB" if record_bytes == 1024 else f"{record_bytes} B"


def acks_text(acks: int) -> str:
    return "all" if acks == -1 else str(acks)


def batch_text(batch_bytes: int) -> str:
    return "1 MB" if batch_bytes >= 1_000_000 else f"{batch_bytes // 1024} KB"


def require_all_taken(result: LeanResult) -> None:
    """Raises VoidRun when the brokers refused anything."""
    if result.failed_records or result.first_error:
        raise VoidRun(f"{result.failed_records} records failed, first with error code {result.first_error}")


class Produced(NamedTuple):
    """end_ns: CLOCK_MONOTONIC when the last replica held the last record. broker_cpu_s: of all brokers until then."""

    result: LeanResult
    end_ns: int
    broker_cpu_s: float

    @property
    def seconds(self) -> float:
        """From the first request until the last replica held the last record."""
        return (self.end_ns - self.result.first_send_ns) / 1e9


def produced(bench: Bench, partitions: int, produce: Callable[[str], LeanResult]) -> Produced:
    """`produce` fills a fresh topic of that name; the run counts only as the guard says. Raises VoidRun."""
    with bench.topic(partitions) as topic:
        guard = bench.guard(topic, partitions)
        before = bench.cluster.cpu_seconds()
        result = produce(topic)
        end_ns = guard.await_replicas()
        used = bench.cluster.cpu_seconds() - before
        require_all_taken(result)
        guard.check(result.records)
    return Produced(result, end_ns, used)


def throughput(
    records: int, record_bytes: int, seconds: float, broker_cpu_s: float, client_cpu_s: float
) -> Mapping[str, float]:
    """The quantities of a row without a limit on its rate."""
    return {
        "mb_per_s": records * record_bytes / seconds / 1e6,
        "krecords_per_s": records / seconds / 1e3,
        "cpu_s_per_gb": broker_cpu_s / (records * record_bytes / GB),
        "client_cores": client_cpu_s / seconds,
    }
