"""Records of a batch without their values taken out: key, whether there is a value, and where each lies.

For whoever has to know keys (compaction, and produce to a compacted topic) and copies the rest as it is.
Source: org.apache.kafka.common.record.DefaultRecord (readPartiallyFrom).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker.wire.compression import Compression, CompressionError, decompress
from broker.wire.record_batch import HEADER_SIZE, BatchHeader, CorruptBatch, ImpossibleTimestamp

LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1


class RawRecord(NamedTuple):
    """A record and where it lies in its batch's payload, its length prefix included: [start, end).

    rest: where what follows the timestamp delta begins.
    """

    offset: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool
    start: int
    rest: int
    end: int


def payload_of(header: BatchHeader, batch: memoryview, inflated_max: int | None = None) -> bytes | memoryview:
    """The records' bytes, inflated. Raises CorruptBatch, also for a codec that is not installed.

    inflated_max: more bytes than this are not inflated, and refused in the same way.
    """
    try:
        return inflated(header, batch, inflated_max)
    except CompressionError as error:
        raise CorruptBatch(0, f"batch at offset {header.base_offset}: {error}") from error


def inflated(header: BatchHeader, batch: memoryview, inflated_max: int | None = None) -> bytes | memoryview:
    """As payload_of, with the reasons told apart by their types: raises CompressionError, among it CodecMissing and
    InflatesTooFar.
    """
    payload = batch[HEADER_SIZE : header.size]
    if not header.compression or not header.record_count:
        return payload
    try:
        codec = Compression(header.compression)
    except ValueError as error:
        raise CompressionError(str(error)) from error
    return decompress(codec, payload, inflated_max)


def raw_records(header: BatchHeader, payload: bytes | memoryview) -> Iterator[RawRecord]:
    """All records, in order. Raises CorruptBatch where the bytes are no records or contradict the header, among it
    ImpossibleTimestamp.
    """
    position = 0
    last = -1
    earliest, latest = LONG_MIN - header.base_timestamp, LONG_MAX - header.base_timestamp
    size = len(payload)
    try:
        for _ in range(header.record_count):
            start = position
            length, position = read_varint(payload, position)
            end = position + length
            if length < 0 or end > size:
                raise CorruptBatch(0, f"a record of {length} bytes with {size - position} left")
            timestamp_delta, rest = read_varint(payload, position + 1)
            offset_delta, position = read_varint(payload, rest)
            key_length, position = read_varint(payload, position)
            key: bytes | None = None
            if key_length >= 0:
                key = bytes(payload[position : position + key_length])
                position += key_length
            value_length, position = read_varint(payload, position)
            if position + max(value_length, 0) > end or not last < offset_delta <= header.last_offset_delta:
                raise CorruptBatch(0, f"record with offset delta {offset_delta} after {last} does not fit its batch")
            if not earliest <= timestamp_delta <= latest:
                raise ImpossibleTimestamp(0, f"a record with timestamp {header.base_timestamp} + {timestamp_delta} ms")
            last = offset_delta
            yield RawRecord(
                header.base_offset + offset_delta, timestamp_delta, key, value_length >= 0, start, rest, end
            )
            position = end
    except IndexError:
        raise CorruptBatch(0, f"batch at offset {header.base_offset}: the records end too early") from None
    if position != size:
        raise CorruptBatch(0, f"batch at offset {header.base_offset}: {size - position} bytes after the last record")


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """A zigzag number of up to 10 bytes and where it ends. IndexError past the end, CorruptBatch when longer."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise CorruptBatch(0, "a number of more than 10 bytes")
