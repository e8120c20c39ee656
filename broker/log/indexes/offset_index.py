"""`.index`: last offset of a batch → its position in the segment, one entry per index.interval.bytes or more.

Entry: relative offset int32, position int32. Both rise strictly. Source: kafka OffsetIndex.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from broker.log.files.names import INDEX_SUFFIX
from broker.log.indexes.sparse_index import IndexDamaged, SparseIndex
from broker.model.ids import Offset

ENTRY = struct.Struct(">ii")
ENTRY_BYTES = ENTRY.size


def pack_entry(relative_offset: int, position: int) -> bytes:
    """An entry as it lies in the file, for whoever writes an index at once."""
    return ENTRY.pack(relative_offset, position)


class OffsetPosition(NamedTuple):
    """An offset at or after the batch that starts at this position; batches before it end below the offset."""

    offset: Offset
    position: int


class OffsetIndex(SparseIndex):
    """Sparse map from offsets to file positions of one segment."""

    __slots__ = ()

    def __init__(self, directory: str, base_offset: Offset) -> None:
        super().__init__(directory, base_offset, INDEX_SUFFIX, ENTRY)

    def append(self, last_offset: Offset, position: int) -> None:
        """Offset of the last record of a batch, and the batch's position in the .log file. Both rise."""
        self.push(last_offset - self._base, position)

    def at_or_before_offset(self, offset: Offset) -> OffsetPosition | None:
        """The last entry whose offset is ≤ offset."""
        return self._found(self.floor(0, offset - self._base))

    def at_or_before_position(self, position: int) -> OffsetPosition | None:
        """The last entry whose position is ≤ position."""
        return self._found(self.floor(1, position))

    def cut_at_position(self, position: int) -> None:
        """Drop entries that point at or beyond this position."""
        self.truncate(self.floor(1, position - 1) + 1)

    def check(self, segment_size: int) -> None:
        """Raise IndexDamaged when the last entry cannot belong to a segment of this size.

        A file that Kafka preallocated and did not trim ends in zeros and fails here.
        """
        entry = self.last()
        if entry is not None and not (entry[0] >= 0 and 0 < entry[1] < segment_size):
            raise IndexDamaged(
                f"{self.path}: last entry ({entry[0]}, {entry[1]}) is outside of a segment of {segment_size} bytes"
            )

    def _found(self, number: int) -> OffsetPosition | None:
        if number < 0:
            return None
        relative, position = self.entry(number)
        return OffsetPosition(self._base + relative, position)
