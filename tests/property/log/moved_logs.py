"""A partition with transactions, several epochs and a start inside of a batch, and its moves between two log dirs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, encode_batch
from tests.property.log.log_tools import TINY, TOPIC_ID, TP, Clock, read_all
from tests.support.transactions import end_marker, transactional

SLICE = 400


def opened(dirs: list[str], clock: Clock, config: Mapping[str, str] = TINY) -> LogManager:
    """A store whose logs know their producers, as a broker's do."""
    store = LogManager(dirs, clock.environment(), defaults=config)
    for log in store.logs().values():
        log.restore_producers()
    return store


def copies(path: str) -> list[str]:
    """Folders of copies in the dir with this path."""
    return [name for name in os.listdir(path) if name.endswith("-future")]


@dataclass
class Life:
    """What is done to one partition's log. written: batches that were acknowledged."""

    store: LogManager
    written: list[bytes] = field(default_factory=list)
    before_cut: list[bytes] = field(default_factory=list)
    """As `written` was, where nothing has been written since the log was cut."""
    value: int = 0

    @property
    def log(self) -> PartitionLog:
        return self.store.logs()[TP]

    @property
    def home(self) -> str:
        """The dir that it is in."""
        return self.log.directory

    def create(self) -> None:
        self.store.create(TP, TOPIC_ID, {}).restore_producers()

    def append(self, count: int, epoch: int) -> None:
        """Idempotent batches of two records, and transactions, every second of which is aborted."""
        for _ in range(count):
            value = self.value
            self.value += 1
            if value % 3:
                body = [NewRecord(b"k", value.to_bytes(8, "big") + bytes(40))] * 2
                sequence = 2 * (value - value // 3 - 1)
                data = encode_batch(
                    body, timestamps=1000 + value, producer_id=7, producer_epoch=0, base_sequence=sequence
                )
                self._append(memoryview(bytearray(data)), epoch)
            else:
                self._append(transactional(str(value), 9, value // 3), epoch)
                if value % 4:
                    self._append(end_marker(9, committed=value % 2 == 0), epoch)

    def _append(self, data: memoryview, epoch: int) -> None:
        self.log.append_as_leader(data, epoch, read_header(data))
        self.log.write()
        self.written.append(bytes(data))
        self.before_cut = []

    def cut(self, batches: int) -> None:
        """Take the last ones away."""
        self.before_cut = list(self.written)
        end = read_header(memoryview(self.written[-batches])).base_offset
        del self.written[-batches:]
        self.log.truncate_to(end)

    def copy(self) -> None:
        """As far as the disk keeps up."""
        stalled = 0
        while stalled < 100 and (copied := self.store.moving.copy(TP, SLICE)):
            stalled = stalled + 1 if copied < 0 else 0

    def change_over(self) -> bool:
        """Whether the copy has the log's place."""
        self.copy()
        self.store.moving.prepare(TP, self.log.log_end_offset, lambda: None)
        self.copy()
        return TP in self.store.moving.targets and self.store.moving.replace(TP) is not None


def told(log: PartitionLog) -> dict[str, object]:
    """All that a log says of itself, but where it is and when it met its producers. Of their batches the newest: a
    snapshot holds no more.
    """
    end = log.log_end_offset
    start = log.log_start_offset
    whole = log.read(start, 1 << 20, end, True)
    return {
        "batches": read_all(log),
        "start": start,
        "epochs": log.epochs,
        "producers": {
            pid: (entry.epoch, entry.batches[-1:], entry.transaction_first_offset) for pid, entry in log.producers
        },
        "stable": log.last_stable_offset(end),
        # A copy does not know where a transaction began whose beginning is deleted.
        "aborted": [(pid, max(first, start)) for pid, first in log.aborted_transactions(start, whole)] if whole else [],
        "id": log.topic_id,
    }
