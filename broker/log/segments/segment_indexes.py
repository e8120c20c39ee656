"""The two indexes of one segment, `.index` and `.timeindex`, which get their entries together.

Whether an entry is true is for `SegmentFiles` to check against the batches, which it also rebuilds both from.
Source: kafka LogSegment, LazyIndex.
"""

from __future__ import annotations

import os

from broker.log.indexes.index_plan import IndexPlan
from broker.log.indexes.offset_index import OffsetIndex
from broker.log.indexes.time_index import TimeIndex
from broker.model.ids import Offset


class SegmentIndexes:
    """Both are open, or neither is."""

    __slots__ = ("by_offset", "by_time")

    def __init__(self, directory: str, base_offset: Offset) -> None:
        """Name both indexes; no file is touched."""
        self.by_offset = OffsetIndex(directory, base_offset)
        self.by_time = TimeIndex(directory, base_offset)

    def create(self) -> None:
        """Empty ones, whatever was there. Raises OSError."""
        self.by_offset.create()
        self.by_time.create()

    def open(self, segment_size: int) -> None:
        """Raises IndexDamaged where one is missing, or cannot belong to a segment of this many bytes; OSError."""
        self.by_offset.open()
        self.by_time.open()
        self.by_offset.check(segment_size)
        self.by_time.check()

    def close(self) -> None:
        """Entries that are not in the files are lost."""
        self.by_offset.close()
        self.by_time.close()

    def finish(self, max_timestamp: int, offset: Offset) -> None:
        """Give the files their last entries and exact sizes. Raises IndexDamaged, OSError."""
        self.by_time.maybe_append(max_timestamp, offset)
        self.by_offset.spill()
        self.by_time.spill()

    def write(self, plan: IndexPlan) -> None:
        """Fill both, which are empty. Raises IndexDamaged, OSError.

        A kill in between leaves no index that looks whole and is not: that of timestamps is there before the other,
        from whose last entry on a start reads the batches.
        """
        for timestamp, offset in plan.timestamps:
            self.by_time.maybe_append(timestamp, offset)
        self.by_time.maybe_append(plan.max_timestamp, plan.max_timestamp_offset)
        self.by_time.spill()
        for last_offset, position in plan.offsets:
            self.by_offset.append(last_offset, position)
        self.by_offset.spill()

    def cut(self, position: int, offset: Offset) -> None:
        """Drop the entries of batches from this position and offset on. Raises IndexDamaged, OSError."""
        self.by_offset.cut_at_position(position)
        self.by_time.cut_at_offset(offset)

    def descriptors(self) -> tuple[int, int]:
        """New ones of both, for whoever syncs them, and closes them. Raises IndexDamaged, OSError."""
        first = self.by_offset.descriptor()
        try:
            return first, self.by_time.descriptor()
        except BaseException:
            os.close(first)
            raise

    def hold(self) -> None:
        """Keep the files at hand: their names are about to change. Raises IndexDamaged, OSError."""
        self.by_offset.hold()
        self.by_time.hold()

    def let_go(self) -> None:
        """Undo `hold`: the names stay after all."""
        self.by_offset.let_go()
        self.by_time.let_go()
