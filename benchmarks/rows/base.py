"""What a row is, and the words that rows have in common."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.bench import Bench
from benchmarks.clients.lean import LeanResult
from benchmarks.measure.guard import VoidRun
from benchmarks.report.metrics import Target

GB = 1e9
Found = dict[str, float]
"""What a run found, by quantity."""
EVERYBODY: Mapping[str, str] = MappingProxyType({})


class Row:
    """One line of the table. Rows are frozen dataclasses; what stands here is for those that say nothing else."""

    __slots__ = ()

    @property
    def group(self) -> str:
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Its own within the group."""
        raise NotImplementedError

    @property
    def metrics(self) -> tuple[str, ...]:
        """Keys of report.metrics.METRICS that the table shows; `run` may find more."""
        raise NotImplementedError

    @property
    def targets(self) -> tuple[Target, ...]:
        raise NotImplementedError

    @property
    def needs_warm_up(self) -> bool:
        """Whether the cluster that is up is measured, and that when it is warm."""
        return True

    @property
    def client_threads(self) -> int:
        """Threads that the client has for its work; 0 where it is not asked how busy they are."""
        return 0

    @property
    def not_served(self) -> Mapping[str, str]:
        """Why a system, by its name, cannot do this at all: it is not tried there."""
        return EVERYBODY

    @property
    def estimate_s(self) -> float:
        """How long one run on each system takes, roughly, on two processors."""
        raise NotImplementedError

    def run(self, bench: Bench, found: Found) -> None:
        """Measure once, into `found`, which is kept whatever comes after. Raises VoidRun when the run may not be
        counted, BenchmarkFailed when it could not be made.
        """
        raise NotImplementedError


def size_text(record_bytes: int) -> str:
    return "1 KB" if record_bytes == 1024 else f"{record_bytes} B"


def acks_text(acks: int) -> str:
    return "all" if acks == -1 else str(acks)


def batch_text(batch_bytes: int) -> str:
    return "1 MB" if batch_bytes >= 1_000_000 else f"{batch_bytes // 1024} KB"


def linger_text(linger_us: int) -> str:
    return f"{linger_us / 1000:g} ms linger" if linger_us else "no linger"


def partitions_text(partitions: int) -> str:
    return f"{partitions} partition{'s' if partitions > 1 else ''}"


def require_all_taken(result: LeanResult) -> None:
    """Raises VoidRun when the brokers refused anything."""
    if result.failed_records or result.first_error:
        raise VoidRun(f"{result.failed_records} records failed, first with error code {result.first_error}")
