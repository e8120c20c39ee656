"""A store on real files under a virtual clock, and batches to put in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from broker.log.environment import Environment
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from broker.wire.record_batch import BatchHeader, iter_batches
from broker.wire.records import NewRecord, encode_batch
from tests.support.chunks import chunk_view

TP = TopicPartition("t", 0)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where tests that fsync some ten thousand times put their files: durability against power is not what they test."""

TINY = {"segment.bytes": "700", "index.interval.bytes": "100", "file.delete.delay.ms": "10"}


def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="highwater-log-", dir=MEMORY)


@dataclass
class Clock:
    """Virtual time with the calls that are due in it."""

    now: float = 0.0
    calls: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def environment(self) -> Environment:
        return Environment(lambda: self.now, self._schedule)

    def _schedule(self, delay_ms: float, call: Callable[[], None]) -> None:
        self.calls.append((self.now + delay_ms, call))

    def advance(self, by_ms: float) -> None:
        self.now += by_ms
        due = [call for at, call in self.calls if at <= self.now]
        self.calls = [(at, call) for at, call in self.calls if at > self.now]
        for call in due:
            call()


def open_store(path: str, clock: Clock, config: Mapping[str, str] = TINY, **more: object) -> LogManager:
    return LogManager([path], clock.environment(), defaults=config, **more)  # type: ignore[arg-type]


def open_log(store: LogManager) -> PartitionLog:
    return store.create(TP, TOPIC_ID, {})


def kill(store: LogManager) -> None:
    """What kill -9 leaves: files as they are, locks gone, no last words."""
    store.close(clean=False)
    for log_dir in store._dirs:
        log_dir.unlock()


def batch(value: int, records: int = 1, timestamp: int = 1000, size: int = 40) -> memoryview:
    """A writable produced batch of `records` records whose bytes no other value has."""
    body = value.to_bytes(8, "big") + bytes(size)
    return memoryview(bytearray(encode_batch([NewRecord(None, body)] * records, timestamps=timestamp)))


def fetch(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, limit: int = 1 << 62, one: bool = True) -> bytes:
    return bytes(chunk_view(log.read(offset, max_bytes, limit, one)))


def read_batches(log: PartitionLog, holes: bool = False) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch from the log start to the LEO, CRC checked, one fetch after the other. holes: compaction may have
    left some between them.
    """
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = fetch(log, offset, 500)
        assert data, f"nothing at {offset}, log ends at {log.log_end_offset}"
        for position, header in iter_batches(memoryview(data), verify_crc=True):
            assert holes or header.base_offset <= offset
            assert header.last_offset >= offset
            yield header, data[position : position + header.size]
            offset = header.last_offset + 1


def read_all(log: PartitionLog, holes: bool = False) -> list[bytes]:
    """The bytes of those."""
    return [data for _, data in read_batches(log, holes)]


def append(log: PartitionLog, *batches: memoryview) -> None:
    """As their leader of epoch 0, written."""
    for data in batches:
        log.append_as_leader(data, 0)
    log.write()


def append_values(store: LogManager, values: range, epoch: int = 0, records: int = 1) -> None:
    """Batches of that many records, one per value, written."""
    log = open_log(store)
    for value in values:
        log.append_as_leader(batch(value, records, 1000 + value), epoch)
    log.write()
