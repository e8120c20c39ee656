"""What the indexes of a segment are to hold, made batch by batch as its file is read.

Entries only, as appending those batches would have written them: a segment of 1 GiB has millions of batches, and about
a quarter of a million entries. No file is touched: whether the batches stay is decided when all of them were read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from broker.log.files.batch_scan import BatchAt
from broker.log.indexes.time_index import NO_TIMESTAMP
from broker.model.ids import Offset


class IndexPlan:
    """Of the batches from a file's beginning on; 32 bytes per entry of both."""

    __slots__ = (
        "_ends",
        "_interval_bytes",
        "_newest",
        "_newest_ends",
        "_positions",
        "first_timestamp",
        "max_timestamp",
        "max_timestamp_offset",
        "since_index_bytes",
        "size",
    )

    def __init__(self, base_offset: Offset, interval_bytes: int) -> None:
        """interval_bytes: index.interval.bytes."""
        self.size = 0
        """Bytes of all batches."""
        self.first_timestamp: int | None = None
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.since_index_bytes = 0
        self._interval_bytes = interval_bytes
        self._ends = array("q")
        self._positions = array("q")
        self._newest = array("q")
        self._newest_ends = array("q")

    def add(self, batch: BatchAt) -> None:
        """The batch behind those that were added. The rule is that of SegmentFiles.add_all."""
        if self.size == 0:
            self.first_timestamp = batch.max_timestamp
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp = batch.max_timestamp
            self.max_timestamp_offset = batch.last_offset
        if self.since_index_bytes > self._interval_bytes:
            self._ends.append(batch.last_offset)
            self._positions.append(self.size)
            if not self._newest or self.max_timestamp > self._newest[-1]:
                self._newest.append(self.max_timestamp)
                self._newest_ends.append(self.max_timestamp_offset)
            self.since_index_bytes = 0
        self.since_index_bytes += batch.size
        self.size += batch.size

    @property
    def offsets(self) -> Iterator[tuple[Offset, int]]:
        """(last offset, position) of the batches that the offset index names."""
        return zip(self._ends, self._positions, strict=True)

    @property
    def timestamps(self) -> Iterator[tuple[int, Offset]]:
        """(newest timestamp so far, last offset of its batch); the last may be lacking, as while a segment grows."""
        return zip(self._newest, self._newest_ends, strict=True)
