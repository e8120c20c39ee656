"""Cleanings carried out on the spot, background work that waits until it is told to go on, and logs as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker.log.cleaner.cleaner import CleaningJob, LogCleaning
from broker.log.cleaner.process import OnEvent, Stop, perform
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.cleaner.throttle import unlimited
from broker.log.environment import Done, Environment, Job, run_inline
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from broker.wire.compression import Compression
from broker.wire.record_batch import BatchHeader
from broker.wire.records import NewRecord, Record, decode_records, encode_batch
from tests.property.log.log_tools import Clock, read_batches

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "700",
    "index.interval.bytes": "100",
    "file.delete.delay.ms": "10",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "1000",
}


class HereRunner:
    """Does the whole job inside of `start`."""

    def __init__(self) -> None:
        self.jobs: list[CleaningJob] = []

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        self.jobs.append(job)
        perform(LogCleaning(job, unlimited()), on_event)
        return lambda: None


@dataclass
class Replicas:
    """stable: last stable offset, None for that of the log as if all of it were replicated."""

    logs: Callable[[], Mapping[TopicPartition, PartitionLog]]
    stable: int | None = None
    producers: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    def last_stable_offset(self, topic_partition: TopicPartition) -> int | None:
        log = self.logs()[topic_partition]
        return log.last_stable_offset(log.log_end_offset) if self.stable is None else self.stable

    def active_producers(self, topic_partition: TopicPartition) -> Mapping[int, int]:
        return self.producers

    def marked_producers(self, topic_partition: TopicPartition) -> Mapping[int, int]:
        return self.epochs


class Bench(NamedTuple):
    cleaner: LogCleaner
    replicas: Replicas
    runner: HereRunner


def cleaner_for(store: LogManager, clock: Clock, settings: CleanerSettings | None = None) -> Bench:
    """A cleaner whose wall clock is the virtual one."""
    settings = settings or CleanerSettings()
    replicas, runner = Replicas(store.logs), HereRunner()
    return Bench(LogCleaner(store, replicas, runner, settings, lambda: clock.now), replicas, runner)


@dataclass
class PatientClock(Clock):
    """Background jobs run when `work` is called, one at a time."""

    waiting: list[tuple[Job, Done]] = field(default_factory=list)

    def environment(self) -> Environment:
        return Environment(lambda: self.now, self._schedule, lambda job, done: self.waiting.append((job, done)))

    def work(self, steps: int = 1 << 30) -> bool:
        """Whether there was so much to do."""
        for _ in range(steps):
            if not self.waiting:
                return False
            run_inline(*self.waiting.pop(0))
        return True


def keyed(
    records: Sequence[tuple[bytes | None, bytes | None]],
    timestamp: int = 1000,
    codec: Compression = Compression.NONE,
    **producer: Any,
) -> memoryview:
    """A writable batch of (key, value)."""
    new = [NewRecord(key, value) for key, value in records]
    return memoryview(bytearray(encode_batch(new, timestamps=timestamp, compression=codec, **producer)))


def append_overwriting(
    log: PartitionLog, batches: int, codec: Compression = Compression.NONE, of_an_epoch: int | None = None
) -> None:
    """Batches of one record each, values of three keys in turn; a new leader epoch after so many, else one, 0."""
    for n in range(batches):
        epoch = n // (of_an_epoch or batches)
        log.append_as_leader(keyed([(b"k%d" % (n % 3), b"v%d" % n * 8)], codec=codec), epoch)
        log.write()


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    """Headers of all batches that a reader sees from the log start on, CRCs checked."""
    return [header for header, _ in _batches(log)]


def records_of(log: PartitionLog) -> list[Record]:
    """All records, read fetch by fetch from the log start; offsets rise."""
    records = [record for _, batch in _batches(log) for record in batch if record.offset >= log.log_start_offset]
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    return records


def _batches(log: PartitionLog) -> list[tuple[BatchHeader, list[Record]]]:
    return [(header, decode_records(data)) for header, data in read_batches(log, holes=True)]


def last_values(records: Sequence[Record]) -> dict[bytes, bytes]:
    """What a consumer's table holds after reading these; a tombstone takes its key away."""
    table: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table
