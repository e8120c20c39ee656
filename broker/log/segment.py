"""One segment: `<base offset>.log` with its `.index` and `.timeindex`.

Decides where in the file an offset lies and which whole batches a read may return. Knows nothing of staging, leader
epochs, recovery points or other segments. `size` counts complete batches only: nothing beyond it is ever read.
A segment found on disk opens its files at first use, so that opening a log costs nothing per old segment. Index
entries are believed only if a batch header stands where they point; an index found wrong is rebuilt from the batches.
Source: kafka LogSegment, LazyIndex.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from broker.log.batch_scan import BadBatch, BatchAt, parse_header, verify_bytes, walk
from broker.log.files import LOG_SUFFIX, SUFFIXES, segment_path
from broker.log.offset_index import OffsetIndex, OffsetPosition
from broker.log.sparse_index import IndexDamaged
from broker.log.time_index import NO_TIMESTAMP, TimeIndex
from broker.runtime.ports import CorruptLog, Offset, TopicPartition
from broker.wire.chunks import FileSlice
from broker.wire.record_batch import HEADER_SIZE

INT32_MAX = 2**31 - 1
_IOV_MAX = min(os.sysconf("SC_IOV_MAX"), 1024)


class Segment:
    """A run of batches with offsets from base_offset on."""

    __slots__ = (
        "_first_timestamp",
        "_gaps",
        "_interval_bytes",
        "_opened",
        "_since_index_bytes",
        "_size",
        "_verified_from",
        "_verified_until",
        "base_offset",
        "created_ms",
        "directory",
        "fd",
        "index",
        "max_timestamp",
        "max_timestamp_offset",
        "time_index",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        base_offset: Offset,
        interval_bytes: int,
        gaps: bool = False,
    ) -> None:
        """Name a segment on disk; no file is touched.

        interval_bytes: index.interval.bytes. gaps: offsets may be missing, as compaction leaves it.
        """
        self.topic_partition = topic_partition
        self.directory = directory
        self.base_offset = base_offset
        self.index = OffsetIndex(directory, base_offset)
        self.time_index = TimeIndex(directory, base_offset)
        self.fd = -1
        self.created_ms = 0.0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._interval_bytes = interval_bytes
        self._gaps = gaps
        self._opened = False
        self._size = -1
        self._first_timestamp: int | None = None
        self._since_index_bytes = 0
        # Bytes known to carry good CRCs: [0, _verified_until) and [_verified_from, size).
        self._verified_until = 0
        self._verified_from = 0

    @classmethod
    def create(
        cls,
        topic_partition: TopicPartition,
        directory: str,
        base_offset: Offset,
        interval_bytes: int,
        gaps: bool,
        now_ms: float,
    ) -> Segment:
        """A new empty segment; leftovers of the same name are emptied."""
        segment = cls(topic_partition, directory, base_offset, interval_bytes, gaps)
        segment.fd = os.open(segment.path(LOG_SUFFIX), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        segment.index.create()
        segment.time_index.create()
        segment.created_ms = now_ms
        segment._size = 0
        segment._opened = True
        return segment

    def path(self, suffix: str) -> str:
        return segment_path(self.directory, self.base_offset, suffix)

    @property
    def size(self) -> int:
        """Bytes of complete batches in the .log file; asked of the file system while the segment is not open."""
        if self._size < 0:
            self._size = os.stat(self.path(LOG_SUFFIX)).st_size
        return self._size

    @property
    def modified_ms(self) -> float:
        """When the .log file was last written, in wall clock ms."""
        return os.stat(self.path(LOG_SUFFIX)).st_mtime * 1000

    @property
    def first_timestamp(self) -> int:
        """Max timestamp of the first batch, −1 when empty: segment.ms counts from it."""
        if self._first_timestamp is None:
            self.open()
            if self._size == 0:
                return NO_TIMESTAMP
            self._first_timestamp = self._header_at(0).max_timestamp
        return self._first_timestamp

    def append(self, views: Sequence[memoryview]) -> int:
        """Write all views behind the last batch; returns their bytes. Raises OSError. `add` then makes them known."""
        position = self._size
        total = 0
        for start in range(0, len(views), _IOV_MAX):
            chunk = views[start : start + _IOV_MAX]
            written = os.pwritev(self.fd, chunk, position + total)
            if written < sum(map(len, chunk)):
                written += self._write_rest(chunk, written, position + total + written)
            total += written
        return total

    def add(self, last_offset: Offset, max_timestamp: int, size: int) -> None:
        """Count in a batch that now stands at the end of the file, and index it when one is due."""
        position = self._size
        if position == 0:
            self._first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._since_index_bytes > self._interval_bytes:
            self.index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self._since_index_bytes = 0
        self._since_index_bytes += size
        self._size = position + size

    def read(
        self, offset: Offset, max_bytes: int, limit_offset: Offset, end_offset: Offset, min_one_batch: bool
    ) -> FileSlice | None:
        """Whole batches from the one that holds offset, all below limit_offset; None when there is none at all.

        end_offset: where the next segment begins, or the written LEO. A slice of length 0 says that the batch there
        is too large for max_bytes, or reaches limit_offset.
        """
        first = self.find(offset)
        if first is None:
            return None
        if first.last_offset >= end_offset:
            # Else it would look like a batch that may not be shown yet, for ever.
            raise self._corrupt(BadBatch(first.position, f"last offset {first.last_offset}, {end_offset} comes next"))
        end = first.end
        if first.last_offset >= limit_offset or (first.size > max_bytes and not min_one_batch):
            end = first.position
        elif first.size <= max_bytes:
            end = self._last_whole(first, first.position + max_bytes, limit_offset, end_offset)
        self._verify(first.position, end)
        return FileSlice(self.fd, first.position, end - first.position)

    def find(self, offset: Offset) -> BatchAt | None:
        """The first batch whose last offset is ≥ offset."""
        self.open()
        start = self._trusted(self._indexed_offset(offset))
        for batch in self._walk(start):
            if batch.last_offset >= offset:
                if batch.base_offset > offset:
                    self._check_gap(batch, offset)
                return batch
        return None

    def next_offset(self, verify_crc: bool = False) -> Offset:
        """Offset after the last batch; base_offset when empty. Reads on from the last index entry only."""
        self.open()
        next_offset = self.base_offset
        start = self._trusted(self._indexed_position(self._size))
        for batch in self._walk(start, verify_crc=verify_crc):
            next_offset = batch.last_offset + 1
        return next_offset

    def batches(self) -> Iterator[BatchAt]:
        """Headers of all batches. Raises CorruptLog where one cannot be right."""
        self.open()
        return self._walk(0)

    def find_by_timestamp(self, timestamp: int, from_offset: Offset) -> BatchAt | None:
        """The first batch with a max timestamp ≥ timestamp whose last offset is ≥ from_offset."""
        self.open()
        if self.max_timestamp < timestamp:
            return None
        try:
            entry = self.time_index.at_or_before(timestamp)
        except IndexDamaged:
            self.rebuild_indexes()
            entry = self.time_index.at_or_before(timestamp)
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
        for batch in self._walk(position):
            if batch.max_timestamp >= timestamp and batch.last_offset >= from_offset:
                return batch
        return None

    def batch_bytes(self, batch: BatchAt) -> bytes:
        """A whole batch, its CRC checked."""
        data = os.pread(self.fd, batch.size, batch.position)
        try:
            verify_bytes(memoryview(data), batch.position)
        except BadBatch as bad:
            raise self._corrupt(bad) from bad
        return data

    def truncate_to(self, offset: Offset) -> Offset:
        """Cut from the first batch that ends at or beyond offset; returns the new end offset, ≤ offset.

        Synced, so that cut bytes cannot come back behind newer ones after a power failure. Raises OSError.
        """
        first = self.find(offset)
        if first is None:
            return self.next_offset()
        self._cut(first.position, first.base_offset)
        os.fsync(self.fd)
        return first.base_offset

    def _cut(self, position: int, offset: Offset) -> None:
        self.index.cut_at_position(position)
        self.time_index.cut_at_offset(offset)
        os.ftruncate(self.fd, position)
        self._size = position
        self._verified_until = min(self._verified_until, position)
        self._verified_from = min(self._verified_from, position)
        if position == 0:
            self._first_timestamp = None
        self._resume()

    def reset_to(self, batches: Sequence[BatchAt], position: int) -> None:
        """Keep exactly these batches, whose CRCs are good, cut the file at position, write new indexes.

        With no batches this empties a segment whatever is in it.
        """
        self._open_log()
        if os.fstat(self.fd).st_size != position:
            os.ftruncate(self.fd, position)
            os.fsync(self.fd)
        self.index.create()
        self.time_index.create()
        self._size = 0
        self._since_index_bytes = 0
        self._first_timestamp = None
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self._opened = True
        self._verified_from = self._verified_until = 0
        for batch in batches:
            self.add(batch.last_offset, batch.max_timestamp, batch.size)
        self.finish()

    def rebuild_indexes(self) -> None:
        """Write both indexes anew from the batches, whose CRCs are checked. Raises CorruptLog."""
        self._open_log()
        end = self._size
        batches = list(self._walk(0, verify_crc=True))
        self.reset_to(batches, end)

    def finish(self) -> None:
        """Give the indexes their last entries and exact sizes: at roll, flush and close. Raises OSError."""
        if self._opened:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.index.spill()
            self.time_index.spill()

    def close(self) -> None:
        """Close the files; reads in flight on `fd` must be over."""
        self.index.close()
        self.time_index.close()
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        self._opened = False

    def rename(self, extra_suffix: str) -> None:
        """Put a suffix behind all file names; open descriptors stay good."""
        for suffix in SUFFIXES:
            path = self.path(suffix)
            try:
                os.rename(path, path + extra_suffix)
            except FileNotFoundError:
                continue

    def open(self) -> None:
        """Open and check the files if that has not happened yet. Raises CorruptLog, OSError."""
        if self._opened:
            return
        self._open_log()
        size = self._verified_from = self._size
        try:
            self.index.open()
            self.time_index.open()
            self.index.check(size)
            self.time_index.check()
        except (IndexDamaged, FileNotFoundError):
            self.rebuild_indexes()
        self._opened = True
        self._resume()

    def _open_log(self) -> None:
        if self.fd >= 0:
            return
        self.fd = os.open(self.path(LOG_SUFFIX), os.O_RDWR)
        self._size = os.fstat(self.fd).st_size

    def _resume(self) -> None:
        """Derive from the indexes, and the few batches behind their last entries, what appends go on with."""
        newest = self.time_index.newest()
        self.max_timestamp, self.max_timestamp_offset = newest or (NO_TIMESTAMP, self.base_offset)
        start = self._trusted(self._indexed_position(self._size))
        for batch in self._walk(start):
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, batch.last_offset
        self._since_index_bytes = self._size - start

    def _indexed_offset(self, offset: Offset) -> OffsetPosition | None:
        try:
            return self.index.at_or_before_offset(offset)
        except IndexDamaged:
            self.rebuild_indexes()
            return self.index.at_or_before_offset(offset)

    def _indexed_position(self, position: int) -> OffsetPosition | None:
        try:
            return self.index.at_or_before_position(position)
        except IndexDamaged:
            self.rebuild_indexes()
            return self.index.at_or_before_position(position)

    def _trusted(self, entry: OffsetPosition | None) -> int:
        """Position of a batch that the index names, 0 without an entry; a false entry rebuilds the indexes."""
        if entry is None:
            return 0
        batch: BatchAt | None = None
        if 0 <= entry.position < self._size:
            with contextlib.suppress(BadBatch):
                batch = self._parse_at(entry.position)
        # Kafka may name the last batch of several appended at once; rebuilding then costs one scan, once.
        if batch is not None and batch.last_offset == entry.offset:
            return entry.position
        self.rebuild_indexes()
        again = self._indexed_offset(entry.offset)
        return again.position if again is not None else 0

    def _last_whole(self, first: BatchAt, cap: int, limit_offset: Offset, end_offset: Offset) -> int:
        """Where the last batch ends that lies within the first `cap` bytes and wholly below limit_offset."""
        if end_offset <= limit_offset and cap >= self._size:
            return self._size
        end = first.end
        jump = self._indexed_position(cap)
        by_offset = self._indexed_offset(limit_offset - 1)
        if jump is None or by_offset is None:
            jump = None
        elif by_offset.position < jump.position:
            jump = by_offset
        if jump is not None and jump.position > end:
            end = max(end, self._trusted(jump))
        for batch in self._walk(end):
            if batch.end > cap or batch.last_offset >= limit_offset:
                break
            end = batch.end
        return end

    def _verify(self, start: int, end: int) -> None:
        """Check CRCs and offsets of bytes that this process neither wrote, received nor checked before."""
        if start >= self._verified_from or end <= self._verified_until or start == end:
            return
        for _ in self._walk(start, end, verify_crc=True):
            pass
        if start <= self._verified_until:
            self._verified_until = end
        if self._verified_until >= self._verified_from:
            self._verified_from = 0

    def _walk(self, position: int, end: int = -1, verify_crc: bool = False) -> Iterator[BatchAt]:
        """Batches from position to end (of the segment by default), whose offsets follow one another."""
        expected = self.base_offset if position == 0 else None
        try:
            for batch in walk(self.fd, position, self._size if end < 0 else end, verify_crc):
                if expected is not None and batch.base_offset != expected:
                    self._check_gap(batch, expected)
                yield batch
                expected = batch.last_offset + 1
        except BadBatch as bad:
            raise self._corrupt(bad) from bad

    def _check_gap(self, batch: BatchAt, expected: Offset) -> None:
        if batch.base_offset < expected or not self._gaps or batch.last_offset - self.base_offset > INT32_MAX:
            raise self._corrupt(BadBatch(batch.position, f"base offset {batch.base_offset} where {expected} is due"))

    def _header_at(self, position: int) -> BatchAt:
        try:
            return self._parse_at(position)
        except BadBatch as bad:
            raise self._corrupt(bad) from bad

    def _parse_at(self, position: int) -> BatchAt:
        data = os.pread(self.fd, HEADER_SIZE, position)
        return parse_header(data, 0, position, self._size)[0]

    def _corrupt(self, bad: BadBatch) -> CorruptLog:
        return CorruptLog(self.topic_partition, self.path(LOG_SUFFIX), str(bad))

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
                written = os.pwrite(self.fd, rest, position + total)
                total += written
                rest = rest[written:]
        return total
