"""Bytes of a `.snapshot` file: the idempotent producers of one log, as Kafka writes them.

int16 version 1, uint32 CRC32C of what follows, int32 count, then per producer: id, epoch, last sequence, last offset,
offset delta, timestamp, coordinator epoch, first offset of an open transaction. Only the newest batch of a producer is
in it; damaged bytes are None, so that the caller replays the log instead. The timestamp says when the producer was last
seen, by the wall clock, the only one that goes on while no broker runs: a restart does not begin its expiry anew.
Source: org.apache.kafka.storage.internals.log.ProducerStateManager (writeSnapshot, readSnapshot).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c

from broker.core.producer_state import SEQUENCE_MAX, KnownBatch, ProducerStates

_VERSION = 1
_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6


class KnownProducer(NamedTuple):
    """One producer as its snapshot has it. seen_ms: wall clock."""

    producer_id: int
    epoch: int
    batch: KnownBatch
    seen_ms: int


def encode(states: ProducerStates, wall_ms: int, now_ms: float) -> bytes:
    """wall_ms, now_ms: the same moment by the wall clock and by the clock that the states' times are of."""
    body = bytearray(struct.pack(">i", 0))
    count = 0
    for producer_id, entry in states:
        if not entry.batches:
            continue
        last = entry.batches[-1]
        delta = last.last_offset - last.base_offset
        seen_ms = wall_ms - int(max(0.0, now_ms - entry.seen_ms))
        body += _ENTRY.pack(producer_id, entry.epoch, last.last_sequence, last.last_offset, delta, seen_ms, -1, -1)
        count += 1
    struct.pack_into(">i", body, 0, count)
    return struct.pack(">hI", _VERSION, crc32c.crc32c(bytes(body))) + bytes(body)


def decode(data: bytes) -> list[KnownProducer] | None:
    """None for anything but a whole, undamaged snapshot."""
    if len(data) < _HEADER.size:
        return None
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION or crc32c.crc32c(data[_CRC_FROM:]) != crc:
        return None
    if len(data) != _HEADER.size + count * _ENTRY.size:
        return None
    found: list[KnownProducer] = []
    for row in _ENTRY.iter_unpack(data[_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, seen_ms, _, _ = row
        first_sequence = (last_sequence - delta) & SEQUENCE_MAX
        batch = KnownBatch(first_sequence, last_sequence, last_offset - delta, last_offset)
        found.append(KnownProducer(producer_id, epoch, batch, seen_ms))
    return found
