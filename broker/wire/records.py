"""Single records: building a batch of them, and reading them out of one.

For coordinators, clients, tests and tools; elsewhere the broker leaves records unread.
Source: org.apache.kafka.common.record.DefaultRecord.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from broker.wire.compression import Compression, compress
from broker.wire.primitives import MalformedFrame, Reader, Writer
from broker.wire.raw_records import payload_of
from broker.wire.record_batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    check_crc,
    read_header,
    seal,
)

Headers = Sequence[tuple[str, bytes | None]]
_RECORD_SIZE_MIN = 7


class NewRecord(NamedTuple):
    """A record to be written. Its offset and timestamp come from the batch."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Record(NamedTuple):
    """A record as it lies in a log. timestamp: ms since 1970."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode_batch(
    records: Iterable[NewRecord],
    *,
    timestamps: int | Sequence[int],
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    compression: Compression | None = None,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """One batch of consecutive records. timestamps: ms, one for all or one per record; raises ValueError if empty."""
    new = list(records)
    if not new:
        raise ValueError("a batch holds at least one record")
    times = [timestamps] * len(new) if isinstance(timestamps, int) else list(timestamps)
    if len(times) != len(new):
        raise ValueError(f"{len(times)} timestamps for {len(new)} records")
    body = Writer()
    for delta, (record, timestamp) in enumerate(zip(new, times, strict=True)):
        _write_record(body, delta, timestamp - times[0], record)
    codec = compression or Compression.NONE
    payload = compress(codec, body.buffer) if codec else bytes(body.buffer)
    attributes = int(codec) | (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
    batch = bytearray(HEADER_SIZE)
    values = (attributes, len(new) - 1, times[0], max(times), producer_id, producer_epoch, base_sequence, len(new))
    length = HEADER_SIZE - LENGTH_PREFIX_SIZE + len(payload)
    batch += payload
    seal(BatchHeader(base_offset, length, leader_epoch, MAGIC, 0, *values), memoryview(batch))
    return bytes(batch)


def _write_record(out: Writer, offset_delta: int, timestamp_delta: int, record: NewRecord) -> None:
    body = Writer()
    body.int8(0)  # attributes, unused
    body.varlong(timestamp_delta)
    body.varint(offset_delta)
    _write_blob(body, record.key)
    _write_blob(body, record.value)
    body.varint(len(record.headers))
    for name, value in record.headers:
        _write_blob(body, name.encode("utf-8"))
        _write_blob(body, value)
    out.varint(len(body.buffer))
    out.raw(body.buffer)


def _write_blob(out: Writer, blob: bytes | None) -> None:
    if blob is None:
        out.varint(-1)
    else:
        out.varint(len(blob))
        out.raw(blob)


def decode_records(batch: memoryview | bytes, *, verify_crc: bool = False) -> list[Record]:
    """The records of the batch that starts `batch`; raises CorruptBatch, also when they cannot be inflated."""
    view = memoryview(batch)
    header = read_header(view)
    if verify_crc:
        check_crc(view, 0, header)
    return list(iter_records(header, view))


def iter_records(header: BatchHeader, batch: memoryview) -> Iterator[Record]:
    """The records of one batch, one at a time: those before a damaged one come out before CorruptBatch is raised."""
    payload = payload_of(header, batch)
    reader = Reader(payload)
    count = header.record_count
    if count < 0 or count * _RECORD_SIZE_MIN > reader.remaining:
        raise CorruptBatch(0, f"{count} records in {reader.remaining} bytes")
    append_time = header.max_timestamp if header.is_log_append_time else None
    try:
        for _ in range(count):
            inner = Reader(reader.take(reader.varint("record length"), "record"))
            record = _read_record(inner, header.base_offset, header.base_timestamp, append_time)
            inner.expect_end("record")
            yield record
        reader.expect_end("records")
    except (MalformedFrame, UnicodeDecodeError) as error:
        raise CorruptBatch(0, str(error)) from error


def _read_record(reader: Reader, base_offset: int, base_timestamp: int, append_time: int | None) -> Record:
    reader.int8("record attributes")
    timestamp = base_timestamp + reader.varlong("timestamp delta")
    offset = base_offset + reader.varint("offset delta")
    key = _read_blob(reader, "key")
    value = _read_blob(reader, "value")
    count = reader.varint("header count")
    if count < 0 or count * 2 > reader.remaining:
        reader.fail("header count", count, "more headers than the record can hold")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name = _read_blob(reader, "header key")
        if name is None:
            reader.fail("header key", None, "null where a name is required")
        headers.append((name.decode("utf-8"), _read_blob(reader, "header value")))
    return Record(offset, timestamp if append_time is None else append_time, key, value, tuple(headers))


def _read_blob(reader: Reader, field: str) -> bytes | None:
    length = reader.varint(field)
    if length == -1:
        return None
    return bytes(reader.take(length, field))
