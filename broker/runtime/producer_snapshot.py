"""Bytes of a `.snapshot` file: the idempotent producers of one log, as Kafka writes them.

int16 version 1, uint32 CRC32C of what follows, int32 count, then per producer: id, epoch, last sequence, last offset,
offset delta, timestamp, coordinator epoch, first offset of an open transaction. Only the newest batch of a producer is
in it; damaged bytes are None, so that the caller replays the log instead.
Source: org.apache.kafka.storage.internals.log.ProducerStateManager (writeSnapshot, readSnapshot).
"""

from __future__ import annotations

import struct

import crc32c

from broker.core.producer_state import SEQUENCE_MAX, KnownBatch, ProducerStates

_VERSION = 1
_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6


def encode(states: ProducerStates, timestamp_ms: int) -> bytes:
    """timestamp_ms: wall time, which Kafka's tools print; nothing here decides by it."""
    body = bytearray(struct.pack(">i", 0))
    count = 0
    for producer_id, entry in states:
        if not entry.batches:
            continue
        last = entry.batches[-1]
        delta = last.last_offset - last.base_offset
        body += _ENTRY.pack(producer_id, entry.epoch, last.last_sequence, last.last_offset, delta, timestamp_ms, -1, -1)
        count += 1
    struct.pack_into(">i", body, 0, count)
    return struct.pack(">hI", _VERSION, crc32c.crc32c(bytes(body))) + bytes(body)


def decode(data: bytes) -> list[tuple[int, int, KnownBatch]] | None:
    """(producer id, epoch, newest batch) each; None for anything but a whole, undamaged snapshot."""
    if len(data) < _HEADER.size:
        return None
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION or crc32c.crc32c(data[_CRC_FROM:]) != crc:
        return None
    if len(data) != _HEADER.size + count * _ENTRY.size:
        return None
    found: list[tuple[int, int, KnownBatch]] = []
    for row in _ENTRY.iter_unpack(data[_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, _, _, _ = row
        first_sequence = (last_sequence - delta) & SEQUENCE_MAX
        found.append((producer_id, epoch, KnownBatch(first_sequence, last_sequence, last_offset - delta, last_offset)))
    return found
