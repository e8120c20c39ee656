"""Markers: the records of control batches that end a transaction, as a coordinator has leaders write them.

Source: org.apache.kafka.common.record.ControlRecordType, EndTransactionMarker; KIP-98.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from broker.wire.record_batch import BatchHeader
from broker.wire.records import NewRecord, Record, iter_records

ABORT: Final = 0
COMMIT: Final = 1

_KEY: Final = struct.Struct(">hh")  # version, type
_VALUE: Final = struct.Struct(">hi")  # version, coordinator epoch
_VERSION: Final = 0


class EndOfTransaction(NamedTuple):
    """What a marker says. coordinator_epoch: of the leadership under which the coordinator decided."""

    committed: bool
    coordinator_epoch: int


def control_type(record: Record) -> int:
    """`ABORT`, `COMMIT`, one of the types that KRaft has, or −1 where the key is too short to tell."""
    return _type_of(record.key or b"")


def _type_of(key: bytes) -> int:
    return int(_KEY.unpack_from(key)[1]) if len(key) >= _KEY.size else -1


def end_of_transaction(record: Record) -> EndOfTransaction | None:
    """None where a control record is no marker. Fields that later versions put behind these are left unread."""
    return read_marker(record.key or b"", record.value or b"")


def read_marker(key: bytes, value: bytes) -> EndOfTransaction | None:
    """As `end_of_transaction`."""
    kind = _type_of(key)
    if kind not in (ABORT, COMMIT) or len(value) < _VALUE.size:
        return None
    return EndOfTransaction(kind == COMMIT, _VALUE.unpack_from(value)[1])


def marker_of(header: BatchHeader, batch: memoryview) -> EndOfTransaction | None:
    """What a control batch says; None where it is no marker, or a cleaning took the record.

    Raises CorruptBatch where the record cannot be read.
    """
    for record in iter_records(header, batch):
        return end_of_transaction(record)
    return None


def marker(end: EndOfTransaction) -> NewRecord:
    """The only record of a control batch."""
    key = _KEY.pack(_VERSION, COMMIT if end.committed else ABORT)
    return NewRecord(key, _VALUE.pack(_VERSION, end.coordinator_epoch))
