"""Lines of a dump, made of values: the fields of Kafka's tool, in its order and with its names.

Pure. Optional numbers look as Java prints them, booleans are small letters, so that what reads the one tool's lines
reads the other's. Source: kafka DumpLogSegments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.core.producers.snapshot import SnapshotRow
from broker.log.cleaner.batches import delete_horizon_ms
from broker.wire.compression import Compression
from broker.wire.control_records import control_type, end_of_transaction
from broker.wire.record_batch import BatchHeader
from broker.wire.records import Record

Contents = Callable[[Record], tuple[str | None, str | None]]
"""Key and payload of a record as text, None for what is not there."""

_SEQUENCE_MASK = 0x7FFFFFFF
_CONTROL_TYPES = {
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
_CODECS = {int(codec): codec.name.lower() for codec in Compression}


class AbortedTransaction(NamedTuple):
    """An entry of a `.txnindex`."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def batch_line(header: BatchHeader, position: int, valid: bool) -> str:
    """position: bytes before the batch in its file. valid: whether its CRC is right."""
    horizon = delete_horizon_ms(header)
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {_bool(header.is_transactional)} "
        f"isControl: {_bool(header.is_control)} deleteHorizonMs: {_optional(horizon)} position: {position} "
        f"{_timestamp_type(header)}: {header.max_timestamp} size: {header.size} magic: {header.magic} "
        f"compresscodec: {codec_name(header.compression)} crc: {header.crc} isvalid: {_bool(valid)}"
    )


def codec_name(compression: int) -> str:
    """As Kafka's tool prints it; the number itself for bits that no codec has."""
    return _CODECS.get(compression, str(compression))


def record_line(header: BatchHeader, record: Record, metadata: bool, contents: Contents | None) -> str:
    """metadata: offset, time, sizes and names of headers. contents: None leaves key and value out."""
    parts: list[str] = []
    if metadata:
        parts.append(_metadata(header, record))
    if contents is not None and not header.is_control:
        key, payload = contents(record)
        if key is not None:
            parts.append(f"key: {key}")
        if payload is not None:
            parts.append(f"payload: {payload}")
    return "| " + " ".join(parts)


def _metadata(header: BatchHeader, record: Record) -> str:
    names = ",".join(name for name, _ in record.headers)
    line = (
        f"offset: {record.offset} {_timestamp_type(header)}: {record.timestamp} keySize: {_size(record.key)} "
        f"valueSize: {_size(record.value)} sequence: {_sequence(header, record)} headerKeys: [{names}]"
    )
    return f"{line} {_control(record)}" if header.is_control else line


def _sequence(header: BatchHeader, record: Record) -> int:
    if header.base_sequence < 0:
        return -1
    return (header.base_sequence + record.offset - header.base_offset) & _SEQUENCE_MASK


def _control(record: Record) -> str:
    end = end_of_transaction(record)
    if end is not None:
        return f"endTxnMarker: {'COMMIT' if end.committed else 'ABORT'} coordinatorEpoch: {end.coordinator_epoch}"
    kind = control_type(record)
    return f"controlType: {_CONTROL_TYPES.get(kind, 'UNKNOWN')}({kind})"


def producer_line(row: SnapshotRow) -> str:
    """A producer of a `.snapshot`; its newest batch only if it has one."""
    transaction = row.transaction_first_offset
    line = (
        f"producerId: {row.producer_id} producerEpoch: {row.producer_epoch} coordinatorEpoch: {row.coordinator_epoch} "
        f"currentTxnFirstOffset: {_optional(transaction if transaction >= 0 else None)} "
        f"lastTimestamp: {row.timestamp} "
    )
    if row.last_offset < 0:
        return line
    return (
        f"{line}firstSequence: {row.first_sequence} lastSequence: {row.last_sequence} "
        f"lastOffset: {row.last_offset} offsetDelta: {row.offset_delta} timestamp: {row.timestamp}"
    )


def transaction_line(entry: AbortedTransaction) -> str:
    """One entry of a `.txnindex` file, as Kafka's DumpLogSegments prints it."""
    return (
        f"version: {entry.version} producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
        f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
    )


def _timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _optional(number: int | None) -> str:
    return "OptionalLong.empty" if number is None else f"OptionalLong[{number}]"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
