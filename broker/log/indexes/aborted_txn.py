"""The format of a `.txnindex`: the aborted transactions whose markers lie in one segment, by marker. No I/O.

Entries of 34 bytes: int16 version 0, then as int64 producer id, first offset, last offset (of the marker) and the last
stable offset that the log had once the marker was replicated. Readers of committed records are told of the ones that
overlap what they get. Source: org.apache.kafka.storage.internals.log.AbortedTxn, TransactionIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from broker.log.indexes.sparse_index import IndexDamaged
from broker.model.ids import Offset

ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_VERSION: Final = 0
ENTRY_SIZE: Final = ENTRY.size


class AbortedTxn(NamedTuple):
    """last_offset: of the marker. last_stable_offset: of the log, once all below and with the marker is replicated."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndexDamaged(IndexDamaged):
    """Bytes that no broker wrote as the index of a segment, or none. base: of that segment."""

    def __init__(self, base: Offset, reason: str) -> None:
        super().__init__(reason)
        self.base = base


def encode(entries: Iterable[AbortedTxn]) -> bytes:
    """Bytes of entries, which go behind those that are there."""
    return b"".join(ENTRY.pack(ENTRY_VERSION, *entry) for entry in entries)


def decode(base: Offset, data: bytes) -> Iterator[AbortedTxn]:
    """Entries of the index of the segment with this base, or of some of them. Raises TransactionIndexDamaged."""
    if len(data) % ENTRY_SIZE:
        raise TransactionIndexDamaged(base, f"{len(data)} bytes are no whole number of entries of {ENTRY_SIZE} bytes")
    before = base - 1
    for version, producer_id, first_offset, last_offset, last_stable_offset in ENTRY.iter_unpack(data):
        if version != ENTRY_VERSION:
            raise TransactionIndexDamaged(base, f"version {version} of an entry, only {ENTRY_VERSION} is known")
        if last_offset <= before or not 0 <= first_offset < last_offset or last_stable_offset < 0:
            raise TransactionIndexDamaged(
                base,
                f"from {first_offset} to {last_offset}, stable up to {last_stable_offset}, behind a marker at {before}",
            )
        before = last_offset
        yield AbortedTxn(producer_id, first_offset, last_offset, last_stable_offset)
