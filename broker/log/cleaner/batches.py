"""One batch through compaction: which of its records stay, and the batch that holds only them.

Records that stay keep their bytes: they are copied, not decoded into values, and a batch that loses no record is
written unchanged. A rewritten batch has the original's base offset, last offset, producer id, epoch and base sequence,
so that a producer's last sequence and a follower's next offset can still be read from it. Touches no file, and does not
decide which records stay.
Source: MemoryRecords.filterTo, DefaultRecordBatch; KIP-98, KIP-534 (delete horizon).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.wire.compression import Compression, CompressionError, compress
from broker.wire.raw_records import LONG_MAX, LONG_MIN, RawRecord, payload_of, raw_records, read_varint
from broker.wire.record_batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    BatchHeader,
    CorruptBatch,
    seal,
)

DELETE_HORIZON_BIT = 0x40
_NO_TIMESTAMP = -1

Keeps = Callable[[RawRecord], bool]


class Filtered(NamedTuple):
    """data: what is written in the batch's place, None for nothing. records: how many are in it."""

    data: bytes | memoryview | None
    records: int
    max_timestamp: int


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """Time in ms from which tombstones of this batch may be removed; None when no cleaning has set it yet."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None


def without_records(header: BatchHeader, keep_empty: bool) -> Filtered:
    """The batch when none of its records stays. keep_empty: its header does."""
    return Filtered(_empty(header) if keep_empty else None, 0, header.max_timestamp)


def filter_batch(
    header: BatchHeader,
    batch: memoryview,
    keeps: Keeps,
    keep_empty: bool,
    new_horizon_ms: int,
    *,
    removable_marker: bool = False,
) -> Filtered:
    """The batch without the records that `keeps` refuses.

    keep_empty: where no record stays, a batch header without records does. new_horizon_ms: the delete horizon that a
    batch with tombstones gets when it has none yet, provided that its timestamps then fit into 64 bits; tombstones of a
    batch without a horizon are kept. removable_marker: this is a marker that may go, and gets one like a tombstone. The
    caller has checked the batch's CRC. Raises CorruptBatch.
    """
    payload = payload_of(header, batch)
    count = 0
    kept: list[RawRecord] = []
    tombstones = removable_marker
    for record in raw_records(header, payload):
        count += 1
        if keeps(record):
            kept.append(record)
            tombstones = tombstones or not record.has_value
    if not kept:
        return without_records(header, keep_empty)
    old_horizon = delete_horizon_ms(header)
    sets_horizon = tombstones and old_horizon is None and _fits(header, kept, new_horizon_ms)
    if len(kept) == count and not sets_horizon:
        return Filtered(batch, count, header.max_timestamp)
    base_timestamp = new_horizon_ms if sets_horizon else header.base_timestamp
    # The horizon replaces the base timestamp, so timestamp deltas are now relative to the horizon.
    shift = header.base_timestamp - base_timestamp
    body = bytearray()
    for record in kept:
        if shift:
            _rewrite(body, payload, record, record.timestamp_delta + shift)
        else:
            body += payload[record.start : record.end]
    newest = header.max_timestamp
    if not header.is_log_append_time:
        newest = header.base_timestamp + max(record.timestamp_delta for record in kept)
    attributes = header.attributes | (DELETE_HORIZON_BIT if sets_horizon else 0)
    return Filtered(_build(header, attributes, base_timestamp, newest, len(kept), body), len(kept), newest)


def _fits(header: BatchHeader, kept: list[RawRecord], horizon_ms: int) -> bool:
    """Whether the horizon, and the timestamp deltas relative to it, fit into the batch's fields."""
    shift = header.base_timestamp - horizon_ms
    return horizon_ms <= LONG_MAX and all(LONG_MIN <= record.timestamp_delta + shift <= LONG_MAX for record in kept)


def _empty(header: BatchHeader) -> bytes:
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
    return _build(header, attributes, _NO_TIMESTAMP, header.max_timestamp, 0, bytearray())


def _build(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, body: bytearray
) -> bytes:
    codec = attributes & COMPRESSION_MASK
    try:
        payload = compress(Compression(codec), body) if codec else bytes(body)
    except CompressionError as error:
        raise CorruptBatch(0, str(error)) from error
    changed = header._replace(
        batch_length=HEADER_SIZE - LENGTH_PREFIX_SIZE + len(payload),
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=count,
    )
    batch = bytearray(HEADER_SIZE)
    batch += payload
    seal(changed, memoryview(batch))
    return bytes(batch)


def _rewrite(out: bytearray, payload: bytes | memoryview, record: RawRecord, timestamp_delta: int) -> None:
    """Append the record with another timestamp delta."""
    _, attributes_at = read_varint(payload, record.start)
    body = bytearray(payload[attributes_at : attributes_at + 1])
    _put_varint(body, timestamp_delta)
    body += payload[record.rest : record.end]
    _put_varint(out, len(body))
    out += body


def _put_varint(out: bytearray, number: int) -> None:
    value = ((number << 1) ^ (number >> 63)) & 0xFFFFFFFFFFFFFFFF
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
