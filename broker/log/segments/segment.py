"""One segment: a run of batches in a file, appended to, read from, cut.

Decides where in the file an offset lies and which whole batches a read may return. Knows nothing of staging, leader
epochs, recovery points or other segments. `size` counts complete batches only: nothing beyond it is ever read.
Source: kafka LogSegment.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence

from broker.log.files.batch_scan import BadBatch, BatchAt, verify_bytes
from broker.log.indexes.sparse_index import IndexDamaged
from broker.log.indexes.time_index import NO_TIMESTAMP
from broker.log.segments.segment_files import SegmentFiles
from broker.model.ids import Offset
from broker.model.log_errors import CorruptLog
from broker.wire.chunks import FileSlice

_IOV_MAX = min(os.sysconf("SC_IOV_MAX"), 1024)


class Segment(SegmentFiles):
    """A run of batches with offsets from base_offset on."""

    __slots__ = ()

    @property
    def first_timestamp(self) -> int:
        """Max timestamp of the first batch, −1 when empty: segment.ms counts from it. Leaves it as open as it is."""
        if self._first_timestamp is None:
            with self.briefly_open():
                if self.log_file.size == 0:
                    return NO_TIMESTAMP
                self._first_timestamp = self.log_file.header_at(0).max_timestamp
        return self._first_timestamp

    def append(self, views: Sequence[memoryview]) -> int:
        """Write all views behind the last batch; returns their bytes. `add` then makes them known.

        Raises OSError; CorruptLog where somebody else has cut the file: a write would leave a hole of zeros before it,
        and batches whose place is remembered would be read from there.
        """
        file = self.log_file
        file.check_whole()
        position = file.size
        total = 0
        for start in range(0, len(views), _IOV_MAX):
            chunk = views[start : start + _IOV_MAX]
            written = os.pwritev(file.fd, chunk, position + total)
            if written < sum(map(len, chunk)):
                written += self._write_rest(chunk, written, position + total + written)
            total += written
        return total

    def _write_rest(self, chunk: Sequence[memoryview], skip: int, position: int) -> int:
        """Complete a short write: all of chunk but its first `skip` bytes."""
        total = 0
        for view in chunk:
            if skip >= len(view):
                skip -= len(view)
                continue
            rest = view[skip:]
            skip = 0
            while rest:
                written = os.pwrite(self.log_file.fd, rest, position + total)
                total += written
                rest = rest[written:]
        return total

    def read(
        self, offset: Offset, max_bytes: int, limit_offset: Offset, end_offset: Offset, min_one_batch: bool
    ) -> FileSlice | None:
        """Whole batches from the one that holds offset, all below limit_offset; None when there is none at all.

        end_offset: where the next segment begins, or the log end offset. A slice of length 0 says that the batch there
        is too large for max_bytes, or reaches limit_offset.
        """
        first = self.find(offset)
        if first is None:
            return None
        if first.last_offset >= end_offset:
            # Damage: else it would look like a batch above the limit, for ever.
            raise self._overlapping(first.position, first.last_offset, end_offset)
        end = first.end
        if first.last_offset >= limit_offset or (first.size > max_bytes and not min_one_batch):
            end = first.position
        elif first.size <= max_bytes:
            end = self._last_whole(first, first.position + max_bytes, limit_offset, end_offset)
        self._verify(first.position, end, end_offset)
        return FileSlice(self.log_file.fd, first.position, end - first.position)

    def _last_whole(self, first: BatchAt, cap: int, limit_offset: Offset, end_offset: Offset) -> int:
        """Where the last batch ends that lies within the first `cap` bytes and wholly below limit_offset."""
        file = self.log_file
        if end_offset <= limit_offset and cap >= file.size:
            return file.size
        end = first.end
        jump = self._indexed_position(cap)
        if jump is not None and limit_offset < end_offset:
            by_offset = self._indexed_offset(limit_offset - 1)
            if by_offset is None or by_offset.position < jump.position:
                jump = by_offset
        if jump is not None and jump.position > end:
            end = max(end, self._trusted(jump))
        for batch in file.walk(end):
            if batch.end > cap or batch.last_offset >= limit_offset:
                break
            end = batch.end
        return end

    def _verify(self, start: int, end: int, end_offset: Offset) -> None:
        """Check CRCs and offsets of bytes that this process neither wrote, received nor checked before.

        Base offsets lie outside of the CRC. Where offsets may have gaps, a wrong one is found by the next batch.
        """
        if start >= self._verified_from or end <= self._verified_until or start == end:
            return
        file = self.log_file
        last = -1
        for batch in file.walk(start, end, verify_crc=True):
            last = batch.last_offset
        if file.gaps:
            following = min(file.header_at(end).base_offset, end_offset) if end < file.size else end_offset
            if last >= following:
                raise self._overlapping(start, last, following)
        if start <= self._verified_until:
            self._verified_until = end
        if self._verified_until >= self._verified_from:
            self._verified_from = 0

    def _overlapping(self, position: int, last_offset: Offset, following: Offset) -> CorruptLog:
        return self.log_file.corrupt(BadBatch(position, f"last offset {last_offset}, {following} comes next"))

    def forget_checked(self) -> None:
        """Forget which bytes were checked: the next read of each checks its CRC again."""
        self._verified_until = 0
        if self._opened:
            self._verified_from = self.log_file.size

    def find(self, offset: Offset) -> BatchAt | None:
        """The first batch whose last offset is ≥ offset."""
        self.open()
        file = self.log_file
        for batch in file.walk(self._trusted(self._indexed_offset(offset))):
            if batch.last_offset >= offset:
                if batch.base_offset > offset:
                    file.check_gap(batch, offset)
                return batch
        return None

    def next_offset(self, verify_crc: bool = False) -> Offset:
        """Offset after the last batch; base_offset when empty."""
        last = self.last_batch(verify_crc)
        return self.base_offset if last is None else last.last_offset + 1

    def last_batch(self, verify_crc: bool = False) -> BatchAt | None:
        """None when empty. Reads on from the last index entry only."""
        self.open()
        file = self.log_file
        last = deque(file.walk(self._trusted(self._indexed_position(file.size)), verify_crc=verify_crc), maxlen=1)
        return last[0] if last else None

    def end_before(self, batch: BatchAt) -> Offset:
        """Offset after the batch in front of this one; base_offset when it is the first."""
        end = self.base_offset
        for before in self.log_file.walk(self._trusted(self._indexed_position(batch.position - 1)), batch.position):
            end = before.last_offset + 1
        return end

    def batches(self) -> Iterator[BatchAt]:
        """Headers of all batches. Raises CorruptLog where one cannot be right."""
        self.open()
        return self.log_file.walk(0)

    def find_by_timestamp(self, timestamp: int, from_offset: Offset) -> BatchAt | None:
        """The first batch with a max timestamp ≥ timestamp whose last offset is ≥ from_offset."""
        self.open()
        if self.max_timestamp < timestamp:
            return None
        entry = self._look_up(self.indexes.by_time.at_or_before, timestamp)
        position = 0
        if entry is not None:
            indexed = self.find(entry.offset)
            if indexed is None or indexed.max_timestamp != entry.timestamp:
                self.rebuild_indexes()
                return self.find_by_timestamp(timestamp, from_offset)
            position = indexed.position
        if from_offset > self.base_offset:
            start = self.find(from_offset)
            if start is None:
                return None
            position = max(position, start.position)
        for batch in self.log_file.walk(position):
            if batch.max_timestamp >= timestamp and batch.last_offset >= from_offset:
                return batch
        return None

    def batch_bytes(self, batch: BatchAt) -> bytes:
        """A whole batch, its CRC checked."""
        data = os.pread(self.log_file.fd, batch.size, batch.position)
        try:
            verify_bytes(memoryview(data), batch.position)
        except BadBatch as bad:
            raise self.log_file.corrupt(bad) from bad
        return data

    def truncate_to(self, offset: Offset) -> Offset:
        """Cut from the first batch that ends at or beyond offset; returns the new end offset, ≤ offset.

        In a hole that is where the batch before it ends, as a restart would find it. Synced, so that cut bytes cannot
        come back behind newer ones after a power failure. Raises OSError.
        """
        first = self.find(offset)
        if first is None:
            return self.next_offset()
        self._cut(first.position, first.base_offset)
        os.fsync(self.log_file.fd)
        return first.base_offset if first.base_offset <= offset else self.next_offset()

    def _cut(self, position: int, offset: Offset) -> None:
        file = self.log_file
        try:
            self.indexes.cut(position, offset)
            whole = True
        except IndexDamaged:
            whole = False
        os.ftruncate(file.fd, position)
        file.size = position
        self._verified_until = min(self._verified_until, position)
        self._verified_from = min(self._verified_from, position)
        if position == 0:
            self._first_timestamp = None
        if not whole:
            self.rebuild_indexes()
        self._resume()
