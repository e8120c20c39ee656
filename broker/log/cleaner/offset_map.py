"""Key → offset of its newest record, in a fixed amount of memory.

Entries of 24 bytes in one open-addressed table: a hash of the key and the offset. Keys themselves are not kept, so a
collision of hashes would lose a record: 128 bits of BLAKE2b, which nobody can aim at (MD5, which Kafka uses, can be).
The caller stops at `capacity` entries and cleans in several passes. Source: kafka SkimpyOffsetMap.
"""

from __future__ import annotations

import struct
from hashlib import blake2b

ENTRY_BYTES = 24
_HASH_BYTES = 16
_OFFSET = struct.Struct(">q")


class OffsetMap:
    """`capacity` keys at most; `latest_offset` is the last offset that is accounted for, −1 when none is."""

    __slots__ = ("_slots", "_table", "capacity", "entries", "latest_offset")

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        """Raises ValueError when not even one key fits."""
        self._slots = memory_bytes // ENTRY_BYTES
        self.capacity = min(int(self._slots * load_factor), self._slots - 1)
        if self.capacity < 1:
            raise ValueError(
                f"an offset map of {memory_bytes} bytes holds no key: raise log.cleaner.dedupe.buffer.size"
            )
        self._table = bytearray(self._slots * ENTRY_BYTES)
        self.entries = 0
        self.latest_offset = -1

    def put(self, key: bytes | memoryview, offset: int) -> bool:
        """Note that the key's newest record is at offset; False, changing nothing, when the map is full."""
        if self.entries >= self.capacity:
            return False
        digest = blake2b(key, digest_size=_HASH_BYTES).digest()
        at, there = self._find(digest)
        if not there:
            self._table[at : at + _HASH_BYTES] = digest
            self.entries += 1
        # Offset 0 must look different from an empty slot.
        _OFFSET.pack_into(self._table, at + _HASH_BYTES, offset + 1)
        self.latest_offset = offset
        return True

    def get(self, key: bytes | memoryview) -> int | None:
        at, there = self._find(blake2b(key, digest_size=_HASH_BYTES).digest())
        if not there:
            return None
        newest: int = _OFFSET.unpack_from(self._table, at + _HASH_BYTES)[0] - 1
        return newest

    def _find(self, digest: bytes) -> tuple[int, bool]:
        """(position of the key's entry, True), or of the free slot where it belongs and False."""
        table = self._table
        slot = int.from_bytes(digest[:8], "big") % self._slots
        while True:
            at = slot * ENTRY_BYTES
            if table[at : at + _HASH_BYTES] == digest:
                if _OFFSET.unpack_from(table, at + _HASH_BYTES)[0]:
                    return at, True
                return at, False
            if not _OFFSET.unpack_from(table, at + _HASH_BYTES)[0]:
                return at, False
            slot += 1
            if slot == self._slots:
                slot = 0
