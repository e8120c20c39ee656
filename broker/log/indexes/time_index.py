"""`.timeindex`: the largest timestamp so far → last offset of the batch that has it.

Entry: timestamp int64, relative offset int32. Timestamps rise strictly. Written with each offset index entry when the
maximum has risen, and once more when the segment is rolled or closed. Source: kafka TimeIndex.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from broker.log.files.names import TIME_INDEX_SUFFIX
from broker.log.indexes.sparse_index import Entry, IndexDamaged, SparseIndex
from broker.model.ids import Offset

ENTRY = struct.Struct(">qi")
ENTRY_BYTES = ENTRY.size
NO_TIMESTAMP = -1


def pack_entry(timestamp: int, relative_offset: int) -> bytes:
    """An entry as it lies in the file, for whoever writes an index at once."""
    return ENTRY.pack(timestamp, relative_offset)


class TimestampOffset(NamedTuple):
    """No record before the batch that ends at `offset` has a timestamp above `timestamp`."""

    timestamp: int
    offset: Offset


class TimeIndex(SparseIndex):
    """Sparse map from timestamps to offsets of one segment."""

    __slots__ = ("_last_timestamp",)

    def __init__(self, directory: str, base_offset: Offset) -> None:
        super().__init__(directory, base_offset, TIME_INDEX_SUFFIX, ENTRY)
        self._last_timestamp = NO_TIMESTAMP

    def create(self) -> None:
        super().create()
        self._last_timestamp = NO_TIMESTAMP

    def open(self) -> None:
        super().open()
        self._reread_last()

    def maybe_append(self, timestamp: int, offset: Offset) -> None:
        """Add the entry if the maximum has risen since the last one."""
        if timestamp > self._last_timestamp:
            self.push(timestamp, offset - self._base)
            self._last_timestamp = timestamp

    def newest(self) -> TimestampOffset | None:
        """The entry with the largest timestamp, its offset absolute; None for an empty index."""
        entry = self.last()
        return None if entry is None else TimestampOffset(entry[0], self._base + entry[1])

    def peek_newest(self) -> TimestampOffset | None:
        """The last entry of a file that is not open, and stays so. None where it is not there, says nothing, or cannot
        be right. Raises OSError.
        """
        ends = self.peek()
        return TimestampOffset(ends[1][0], self._base + ends[1][1]) if ends is not None and _rise(*ends) else None

    def at_or_before(self, timestamp: int) -> TimestampOffset | None:
        """The last entry whose timestamp is ≤ timestamp."""
        number = self.floor(0, timestamp)
        if number < 0:
            return None
        found, relative = self.entry(number)
        return TimestampOffset(found, self._base + relative)

    def cut_at_offset(self, offset: Offset) -> None:
        """Drop entries for batches that end at or beyond this offset."""
        self.truncate(self.floor(1, offset - 1 - self._base) + 1)
        self._reread_last()

    def check(self) -> None:
        """Raise IndexDamaged when first and last entry cannot both be right."""
        last = self.last()
        if last is None:
            return
        first = self.entry(0)
        if not _rise(first, last):
            raise IndexDamaged(f"{self.path}: entries do not rise from {first} to {last}")

    def _reread_last(self) -> None:
        entry = self.last()
        self._last_timestamp = NO_TIMESTAMP if entry is None else entry[0]


def _rise(first: Entry, last: Entry) -> bool:
    """Whether these can be the first and the last entry of an index."""
    return 0 <= first[0] <= last[0] and 0 <= first[1] <= last[1] and last != (0, 0)
