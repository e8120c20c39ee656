"""Segment files of a replica, decoded by code that shares nothing with the broker.

Kafka's record batch v2 (org.apache.kafka.common.record.DefaultRecordBatch): every batch of every `.log` file of a
partition folder becomes one row: offsets, epoch, producer, CRC verdict, a digest of its bytes, the values of its
records where they can be read. What cannot be decoded is a row with `problem`, never silence. A torn tail (an append
cut by kill -9 before recovery, or by a power failure) lies at the end of the last file: of a batch that is longer, or
of nothing but zeros. What else is no batch there is damage, as elsewhere.
"""

from __future__ import annotations

import hashlib
import mmap
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import crc32c

# base offset, length | leader epoch, magic, crc | attributes, last offset delta, timestamps, producer id, epoch,
# sequence, count
# As text: a compiled layout cannot be sent to a worker.
_PREFIX = ">qi"
_BODY = ">ibIhiqqqhii"
_PREFIX_BYTES = struct.calcsize(_PREFIX)
HEADER_BYTES = _PREFIX_BYTES + struct.calcsize(_BODY)
_KEY = ">hh"
"""Of a control record: version and type."""
_CRC_FROM = 21
_SHORTEST = HEADER_BYTES - _PREFIX_BYTES
_LONGEST = 1 << 30
_ZEROS = 1 << 20
_GZIP = 1
_TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20
_MARKERS = {0: "abort", 1: "commit"}
_VALUE = re.compile(rb"0|[1-9][0-9]{0,18}")
_MOST_VALUE = (1 << 63) - 1
MOST_OFFSET = 1 << 62
"""No log reaches there, and rules reckon with offsets in 64 bits."""


@contextmanager
def opened(path: str | Path) -> Iterator[memoryview]:
    """A file's bytes, read as they are looked at."""
    with open(path, "rb") as file:
        if file.seek(0, 2) == 0:
            yield memoryview(b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
            yield data


def read_segment(node: str, partition: str, file: str, data: memoryview, last_file: bool) -> Iterator[dict[str, Any]]:
    """Rows of schema.BATCH: the batches of one file, in its order, up to the first that is not whole."""
    at = 0
    while at < len(data):
        row = _empty_row(node, partition, file, at)
        problem, size = _measure(data, at)
        if problem is None:
            _decode(row, data[at : at + size])
        elif last_file and _is_torn(data, at):
            row["problem"] = f"torn tail: {problem}"
        else:
            row["problem"] = problem
        yield row
        if problem is not None:
            return
        at += size


def _measure(data: memoryview, at: int) -> tuple[str | None, int]:
    if len(data) - at < HEADER_BYTES:
        return f"{len(data) - at} bytes at {at} are no batch", 0
    length = struct.unpack_from(_PREFIX, data, at)[1]
    if not _SHORTEST <= length <= _LONGEST:
        return f"batch length {length} at {at}", 0
    size = _PREFIX_BYTES + length
    if at + size > len(data):
        return f"batch of {size} bytes at {at} has only {len(data) - at}", 0
    return None, size


def _is_torn(data: memoryview, at: int) -> bool:
    """Of what is no whole batch: a write that was cut short is less than its header says, or has left zeros."""
    if len(data) - at < HEADER_BYTES or _SHORTEST <= struct.unpack_from(_PREFIX, data, at)[1] <= _LONGEST:
        return True
    rest = range(at + _PREFIX_BYTES, len(data), _ZEROS)
    return not any(bytes(data[begin : begin + _ZEROS]).strip(b"\0") for begin in rest)


def _empty_row(node: str, partition: str, file: str, at: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(
        (
            "base",
            "last",
            "epoch",
            "producer_id",
            "producer_epoch",
            "base_sequence",
            "transactional",
            "control",
            "marker",
            "records",
            "crc_ok",
            "digest",
            "values",
            "problem",
        )
    )
    row.update(node=node, p=partition, file=file, file_position=at)
    return row


def _decode(row: dict[str, Any], batch: memoryview) -> None:
    base, _length = struct.unpack_from(_PREFIX, batch, 0)
    epoch, magic, crc, attributes, last_delta, _first_ts, _max_ts, producer, producer_epoch, sequence, count = (
        struct.unpack_from(_BODY, batch, _PREFIX_BYTES)
    )
    row.update(
        base=base,
        last=base + last_delta,
        epoch=epoch,
        producer_id=producer,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=bool(attributes & _TRANSACTIONAL_BIT),
        control=bool(attributes & _CONTROL_BIT),
        records=count,
        crc_ok=crc32c.crc32c(batch[_CRC_FROM:]) == crc,
        digest=hashlib.blake2b(batch, digest_size=12).hexdigest(),
    )
    if not -MOST_OFFSET <= base <= MOST_OFFSET + min(0, -last_delta):
        row.update(base=None, last=None, problem=f"offsets from {base} on, which no log has")
        return
    if magic != 2:
        row["problem"] = f"magic {magic}, should be 2"
        return
    if row["control"]:
        row["values"] = []
        row["marker"] = marker(bytes(batch[HEADER_BYTES:])) if count else None
        return
    try:
        row["values"] = record_values(bytes(batch[HEADER_BYTES:]), attributes & 7, count)
    except (ValueError, IndexError, zlib.error) as error:
        row["problem"] = f"records cannot be read: {error}"


def marker(payload: bytes) -> str | None:
    """What the record of a control batch says of a transaction: `commit`, `abort`; None where it says something else.

    Source: org.apache.kafka.common.record.ControlRecordType.
    """
    try:
        _length, at = _varint(payload, 0)
        _timestamp, at = _varint(payload, at + 1)
        _offset, at = _varint(payload, at)
        key_length, at = _varint(payload, at)
        return _MARKERS.get(struct.unpack_from(_KEY, payload, at)[1]) if key_length >= struct.calcsize(_KEY) else None
    except (ValueError, IndexError, struct.error):
        return None


def record_values(payload: bytes, codec: int, count: int) -> list[int | None] | None:
    """The harness's value of each record (None where it is no such record); None for codecs this reader has not."""
    if codec == _GZIP:
        payload = zlib.decompress(payload, 31)
    elif codec:
        return None
    values: list[int | None] = []
    at = 0
    for _ in range(count):
        length, at = _varint(payload, at)
        end = at + length
        if length < 0 or end > len(payload):
            raise ValueError(f"record of {length} bytes runs past its batch")
        at += 1
        _timestamp, at = _varint(payload, at)
        _offset, at = _varint(payload, at)
        key_length, at = _varint(payload, at)
        at += max(0, key_length)
        value_length, at = _varint(payload, at)
        digits, bar, _rest = payload[at : at + max(0, value_length)].partition(b"|")
        number = int(digits) if bar and _VALUE.fullmatch(digits) else None
        values.append(number if number is not None and number <= _MOST_VALUE else None)
        at = end
    if at != len(payload):
        raise ValueError(f"{len(payload) - at} bytes after the last record")
    return values


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and the position after it."""
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("varint of more than ten bytes")
