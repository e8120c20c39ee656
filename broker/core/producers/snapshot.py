"""Bytes of a `.snapshot` file: the idempotent producers of one log and their transactions, as Kafka writes them.

int16 version 1, uint32 CRC32C of what follows, int32 count, then per producer: id, epoch, last sequence, last offset,
offset delta, timestamp, coordinator epoch, first offset of an open transaction. Only the newest batch of a producer is
in it, −1 and a delta of 0 where there is none; damaged bytes are None, so that the caller replays the log instead. The
timestamp says when the producer was last seen, by the wall clock, the only one that goes on while no broker runs: a
restart does not begin its expiry anew.
Source: org.apache.kafka.storage.internals.log.ProducerStateManager (writeSnapshot, readSnapshot).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c

from broker.core.producers.state import NONE, SEQUENCE_MAX, KnownBatch, ProducerStates

_VERSION = 1
_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6
_NO_BATCH = KnownBatch(NONE, NONE, NONE, NONE)


class KnownProducer(NamedTuple):
    """One producer as its snapshot has it. batch: the newest. seen_ms: wall clock. −1: no marker, nothing open."""

    producer_id: int
    epoch: int
    batch: KnownBatch | None
    seen_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


class BadSnapshot(ValueError):
    """Bytes that are no whole, undamaged snapshot, and why."""


class SnapshotRow(NamedTuple):
    """One producer with every field of the file."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int

    @property
    def first_sequence(self) -> int:
        """Sequences wrap from 2^31 − 1 to 0."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


def encode(states: ProducerStates, wall_ms: int, now_ms: float) -> bytes:
    """wall_ms, now_ms: the same moment by the wall clock and by the clock that the states' times are of."""
    body = bytearray(struct.pack(">i", 0))
    for producer_id, entry in states:
        last = entry.batches[-1] if entry.batches else _NO_BATCH
        delta = last.last_offset - last.base_offset
        seen_ms = wall_ms - int(max(0.0, now_ms - entry.seen_ms))
        body += _ENTRY.pack(
            producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            delta,
            seen_ms,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
    struct.pack_into(">i", body, 0, len(states))
    return struct.pack(">hI", _VERSION, crc32c.crc32c(bytes(body))) + bytes(body)


def decode(data: bytes) -> list[KnownProducer] | None:
    """None for anything but a whole, undamaged snapshot."""
    try:
        rows = read_rows(data)
    except BadSnapshot:
        return None
    found: list[KnownProducer] = []
    for row in rows:
        batch = None
        if row.last_offset >= 0:
            first_offset = row.last_offset - row.offset_delta
            batch = KnownBatch(row.first_sequence, row.last_sequence, first_offset, row.last_offset)
        found.append(
            KnownProducer(
                row.producer_id,
                row.producer_epoch,
                batch,
                row.timestamp,
                row.coordinator_epoch,
                row.transaction_first_offset,
            )
        )
    return found


def read_rows(data: bytes) -> list[SnapshotRow]:
    """What stands in the file, row by row. Raises BadSnapshot."""
    if len(data) < _HEADER.size:
        raise BadSnapshot(f"{len(data)} bytes, a producer snapshot has {_HEADER.size} or more")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise BadSnapshot(f"version {version}, only {_VERSION} is known")
    computed = crc32c.crc32c(data[_CRC_FROM:])
    if computed != crc:
        raise BadSnapshot(f"CRC32C is {computed:#010x}, the file says {crc:#010x}")
    size = _HEADER.size + count * _ENTRY.size
    if len(data) != size:
        raise BadSnapshot(f"{len(data)} bytes, {size} are right for {count} producers")
    return [SnapshotRow(*row) for row in _ENTRY.iter_unpack(data[_HEADER.size :])]
