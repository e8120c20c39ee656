"""Many batches of an internal topic's log → its records, keys and values as they lie there.

A coordinator that takes a partition over reads millions of records, most of them in batches of one, before it serves
anybody. `scan` goes over the usual batches without a call or an object for anything but what is found. It stops at a
batch that is compressed, unusual or damaged: that one goes to `read_batch`, which reads all and says what is wrong.
Source: DefaultRecordBatch, DefaultRecord.
"""

from __future__ import annotations

import struct
from typing import Final

from broker.wire.raw_records import inflated, raw_records, read_varint
from broker.wire.record_batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
)

Found = tuple[int, int, int, bytes | None, bytes | None]
"""(offset, kind, producer id, key, value) of a record. kind: `PLAIN`, or the bits of a transaction's batch."""

PLAIN: Final = 0
CONTROL: Final = CONTROL_BIT
_KIND: Final = TRANSACTIONAL_BIT | CONTROL_BIT

# base offset, batch length, magic, attributes, last offset delta, producer id, record count
_HEAD: Final = struct.Struct(">qi4xb4xhi16xq6xi")


def scan(data: bytes, at: int, found: list[Found]) -> tuple[int, int]:
    """Append to found the records of whole usual batches from position `at` on.

    Returns (where the first batch begins that is not taken, len(data) where all are; offset after the last batch that
    was taken, −1 without any).
    """
    end, next_offset = len(data), -1
    while end - at >= HEADER_SIZE:
        base, length, magic, attributes, last_delta, producer_id, count = _HEAD.unpack_from(data, at)
        stop = at + length + LENGTH_PREFIX_SIZE
        if magic != MAGIC or stop < at + HEADER_SIZE or stop > end or attributes & COMPRESSION_MASK or count < 0:
            break
        before = len(found)
        if not _records(data, at + HEADER_SIZE, stop, count, base, attributes & _KIND, producer_id, found):
            del found[before:]
            break
        at = stop
        next_offset = base + last_delta + 1
    return at, next_offset


def _records(
    data: bytes, at: int, stop: int, count: int, base: int, kind: int, producer_id: int, found: list[Found]
) -> bool:
    """Whether all of data[at:stop] is that many records without headers, with numbers of at most two bytes.

    Lengths are believed until the record's end, where all of them have to agree.
    """
    try:
        for _ in range(count):
            number = data[at]
            at += 1
            if number > 0x7F:
                if data[at] > 0x7F:
                    return False
                number = number & 0x7F | data[at] << 7
                at += 1
            end = at + (number >> 1)
            if number & 1 or end > stop:
                return False
            at += 1  # attributes, unused
            if data[at] > 0x7F and data[at + 1] > 0x7F:
                return False
            at += 1 if data[at] <= 0x7F else 2  # timestamp
            delta = data[at]
            at += 1
            if delta > 0x7F:
                if data[at] > 0x7F:
                    return False
                delta = delta & 0x7F | data[at] << 7
                at += 1
            number = data[at]
            at += 1
            if number > 0x7F:
                if data[at] > 0x7F:
                    return False
                number = number & 0x7F | data[at] << 7
                at += 1
            if (delta | number) & 1:
                return False
            key = data[at : at + (number >> 1)]
            at += number >> 1
            number = data[at]
            at += 1
            if number > 0x7F:
                if data[at] > 0x7F:
                    return False
                number = number & 0x7F | data[at] << 7
                at += 1
            value: bytes | None = None
            if not number & 1:
                value = data[at : at + (number >> 1)]
                at += number >> 1
            elif number != 1:
                return False
            if data[at] or at + 1 != end:  # headers
                return False
            at = end
            found.append((base + (delta >> 1), kind, producer_id, key, value))
    except IndexError:
        return False
    return at == stop


def read_batch(header: BatchHeader, batch: memoryview) -> list[Found]:
    """The records of any batch. Raises CorruptBatch, or CompressionError where they cannot be inflated, among it
    CodecMissing.

    Their headers say nothing to a coordinator, and may be anything: nobody has looked at a producer's.
    """
    kind, producer_id = header.attributes & _KIND, header.producer_id
    payload = inflated(header, batch)
    found: list[Found] = []
    for raw in raw_records(header, payload):
        value: bytes | None = None
        if raw.has_value:
            _, at = read_varint(payload, raw.rest)  # offset delta
            length, at = read_varint(payload, at)
            length, at = read_varint(payload, at + max(length, 0))
            value = bytes(payload[at : at + length])
        found.append((raw.offset, kind, producer_id, raw.key, value))
    return found
