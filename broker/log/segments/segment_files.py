"""The files of one segment: `<base offset>.log` with its `.index` and `.timeindex`, opened and closed together.

Index entries are believed only if a batch header stands where they point; an index found wrong is rebuilt from the
batches. A segment found on disk opens its files at first use, so that opening a log costs nothing per old segment.
Knows nothing of reads, of limits, or of other segments. Source: kafka LogSegment, LazyIndex.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Self, TypeVar

from broker.log.files.batch_scan import BadBatch, BatchAt
from broker.log.files.names import SUFFIXES, TXN_INDEX_SUFFIX, segment_path
from broker.log.files.open_segments import NO_DESCRIPTOR, OpenSegments
from broker.log.indexes.index_plan import IndexPlan
from broker.log.indexes.offset_index import OffsetPosition
from broker.log.indexes.sparse_index import IndexDamaged
from broker.log.indexes.time_index import NO_TIMESTAMP, TimestampOffset
from broker.log.segments.log_file import LogFile
from broker.log.segments.newest_timestamp import peek_newest_timestamp
from broker.log.segments.segment_indexes import SegmentIndexes
from broker.model.ids import Offset, TopicPartition

T = TypeVar("T")


class SegmentFiles:
    """Batches with offsets from base_offset on, in a file, and the indexes over it."""

    __slots__ = (
        "_first_timestamp",
        "_interval_bytes",
        "_newest",
        "_opened",
        "_peeked",
        "_since_index_bytes",
        "_verified_from",
        "_verified_until",
        "base_offset",
        "created_ms",
        "directory",
        "indexes",
        "keeper",
        "log_file",
        "max_timestamp",
        "max_timestamp_offset",
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
        self.log_file = LogFile(topic_partition, directory, base_offset, gaps)
        self.indexes = SegmentIndexes(directory, base_offset)
        self.created_ms = 0.0
        self.keeper: OpenSegments | None = None
        """The table that may close this segment, and is notified when it opens; None where nothing may close it."""
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._interval_bytes = interval_bytes
        self._newest: int | None = None
        """`max_timestamp` when the segment was closed; None before it was first open."""
        self._peeked: int | None = None
        """The newest timestamp by the time index; None before that was read."""
        self._opened = False
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
    ) -> Self:
        """A new empty segment; leftovers of the same name are emptied."""
        segment = cls(topic_partition, directory, base_offset, interval_bytes, gaps)
        segment.log_file.create()
        segment.indexes.create()
        segment.created_ms = now_ms
        segment._opened = True
        return segment

    def allow_gaps(self) -> None:
        """Offsets may be missing from now on."""
        self.log_file.gaps = True

    def path(self, suffix: str) -> str:
        """Of the file with this suffix, whether or not it is there."""
        return segment_path(self.directory, self.base_offset, suffix)

    @property
    def fd(self) -> int:
        """Of the .log file, −1 while it is not open."""
        return self.log_file.fd

    @property
    def size(self) -> int:
        """Bytes of complete batches in the .log file; by the file system while the segment is not open.

        Raises OSError, CorruptLog.
        """
        file = self.log_file
        if file.size < 0:
            file.size = file.stat().st_size
        return file.size

    @property
    def modified_ms(self) -> float:
        """When the .log file was last written, in wall clock ms. Raises OSError, CorruptLog."""
        return self.log_file.stat().st_mtime * 1000

    def open(self) -> None:
        """Open and check the files if that has not happened yet. Raises CorruptLog, OSError: then again next time."""
        if self._opened:
            return
        self._with_room(self._open_all)
        if self.keeper is not None:
            self.keeper.opened(self)

    @contextlib.contextmanager
    def briefly_open(self) -> Iterator[None]:
        """Open in here; what was not open before is closed behind it, for no slice of it is handed out. As `open`."""
        was_open = self._opened
        self.open()
        try:
            yield
        finally:
            if not was_open:
                self.close()

    def _with_room(self, action: Callable[[], T]) -> T:
        return action() if self.keeper is None else self.keeper.with_room(action)

    @property
    def is_open(self) -> bool:
        return self._opened

    @property
    def newest_timestamp(self) -> int:
        """`max_timestamp`, also while it is not open, and without leaving it so.

        The last entry of the .timeindex says it, as in Kafka. Where that says nothing, or cannot be right, the segment
        is opened for a moment, once. Raises CorruptLog, OSError.
        """
        if self._opened:
            return self.max_timestamp
        if self._peeked is None:
            self._peeked = self._with_room(self._peek_newest_timestamp)
        return self.checked_newest_timestamp() if self._peeked is None else self._peeked

    def checked_newest_timestamp(self) -> int:
        """The same by index and batches; what was never open is opened for a moment. Raises CorruptLog, OSError."""
        if self._newest is not None and not self._opened:
            return self._newest
        with self.briefly_open():
            return self.max_timestamp

    def _peek_newest_timestamp(self) -> int | None:
        return peek_newest_timestamp(self.log_file.path, self.indexes)

    def _open_all(self) -> None:
        try:
            self._open_checked()
        except BaseException:
            self._opened = False
            self.close()
            raise

    def _open_checked(self) -> None:
        file = self.log_file
        known = file.size
        file.open()
        size = self._verified_from = file.size
        if size < known:
            file.size = known  # the next try has to find out as well
            raise file.cut_short(size, known)
        try:
            self.indexes.open(size)
        except IndexDamaged:
            self.rebuild_indexes()
        self._opened = True
        self._resume()

    def close(self) -> None:
        """Close the files; reads in flight on `fd` must be over. What is known of it stays known."""
        if self._opened:
            self._newest = self._peeked = self.max_timestamp
            if self._verified_from <= self._verified_until:
                self._verified_until = self.log_file.size
        if self.keeper is not None:
            self.keeper.forget(self)
        self.indexes.close()
        self.log_file.close()
        self._opened = False

    def rename(self, extra_suffix: str) -> None:
        """Put a suffix behind all file names; open descriptors stay good."""
        for suffix in SUFFIXES:
            path = self.path(suffix)
            try:
                os.rename(path, path + extra_suffix)
            except FileNotFoundError:
                continue

    def add(self, last_offset: Offset, max_timestamp: int, size: int) -> None:
        """Count in a batch that now stands at the end of the file, and index it when one is due."""
        self.add_all(((0, last_offset, max_timestamp, size),))

    def add_all(self, batches: Sequence[tuple[Offset, Offset, int, int]]) -> None:
        """Count in batches (…, last offset, max timestamp, bytes) that now stand at the end of the file."""
        file, indexes = self.log_file, self.indexes
        position = file.size
        if position == 0:
            self._first_timestamp = batches[0][2]
        newest = self.max_timestamp
        since_index = self._since_index_bytes
        interval = self._interval_bytes
        for _, last_offset, max_timestamp, size in batches:
            if max_timestamp > newest:
                self.max_timestamp = newest = max_timestamp
                self.max_timestamp_offset = last_offset
            if since_index > interval:
                indexes.by_offset.append(last_offset, position)
                indexes.by_time.maybe_append(newest, self.max_timestamp_offset)
                since_index = 0
            since_index += size
            position += size
        self._since_index_bytes = since_index
        file.size = position

    def check_whole(self) -> None:
        """Raises CorruptLog where somebody has cut the open file."""
        self.log_file.check_whole()

    def finish(self) -> None:
        """Give the indexes their last entries and exact sizes: at roll, flush and close. Raises OSError, CorruptLog."""
        if self._opened:
            try:
                self.indexes.finish(self.max_timestamp, self.max_timestamp_offset)
            except IndexDamaged:
                self.rebuild_indexes()

    def index_descriptors(self) -> list[int]:
        """New ones of all its indexes, for whoever syncs them, and closes them. Raises OSError, CorruptLog."""
        found: list[int] = []
        with contextlib.suppress(FileNotFoundError):
            found.append(os.open(self.path(TXN_INDEX_SUFFIX), os.O_RDONLY))
        try:
            try:
                found += self.indexes.descriptors()
            except IndexDamaged:
                self.rebuild_indexes()
                found += self.indexes.descriptors()
        except BaseException:
            for fd in found:
                os.close(fd)
            raise
        return found

    def sync_indexes(self) -> None:
        """Raises OSError, CorruptLog."""
        descriptors = self.index_descriptors()
        try:
            for fd in descriptors:
                os.fdatasync(fd)
        finally:
            for fd in descriptors:
                os.close(fd)

    def hold_indexes(self) -> None:
        """Keep their files at hand: all names are about to change. Raises OSError, CorruptLog."""
        try:
            self.indexes.hold()
        except (IndexDamaged, OSError) as error:
            self._make_readable(error)
            self.indexes.hold()

    def let_indexes_go(self) -> None:
        """The names stay after all."""
        self.indexes.let_go()

    def plan_indexes(self) -> IndexPlan:
        """For a reader of all its batches; `reset_to` takes it."""
        return IndexPlan(self.base_offset, self._interval_bytes)

    def reset_to(self, plan: IndexPlan) -> None:
        """Keep exactly the batches of this plan, whose CRCs are good, cut the file behind them, write new indexes."""
        self.log_file.open()
        self.indexes.create()
        self.log_file.cut(plan.size)
        self._since_index_bytes = plan.since_index_bytes
        self._first_timestamp = plan.first_timestamp
        self.max_timestamp = plan.max_timestamp
        self.max_timestamp_offset = plan.max_timestamp_offset
        self._opened = True
        self._verified_from = self._verified_until = 0
        self.indexes.write(plan)

    def empty(self) -> None:
        """Cut the file to nothing, whatever is in it; one that somebody removed is made anew."""
        self.log_file.open_or_create()
        self.reset_to(self.plan_indexes())

    def rebuild_indexes(self) -> None:
        """Write both indexes anew from the batches, whose CRCs are checked. Raises CorruptLog."""
        self.log_file.open()
        plan = self.plan_indexes()
        for batch in self.log_file.walk(0, verify_crc=True):
            plan.add(batch)
        self.reset_to(plan)
        if self.log_file.gaps:
            # Whether the last of them reaches into the next segment is for reads to see: they know where that begins.
            self._verified_from = self.log_file.size

    def _resume(self) -> None:
        """Derive from the indexes, and the few batches behind their last entries, what appends go on with."""
        file, by_time = self.log_file, self.indexes.by_time
        newest = by_time.newest()
        if newest is not None:
            if not self._has(newest):
                self.rebuild_indexes()
            newest = by_time.newest()
        self.max_timestamp, self.max_timestamp_offset = newest or (NO_TIMESTAMP, self.base_offset)
        start = self._trusted(self._indexed_position(file.size))
        for batch in file.walk(start):
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, batch.last_offset
        self._since_index_bytes = file.size - start

    def _has(self, newest: TimestampOffset) -> bool:
        """Whether the batch that the time index names is of that time."""
        for batch in self.log_file.walk(self._trusted(self._indexed_offset(newest.offset))):
            if batch.last_offset >= newest.offset:
                return batch.max_timestamp == newest.timestamp
        return False

    def _indexed_offset(self, offset: Offset) -> OffsetPosition | None:
        return self._look_up(self.indexes.by_offset.at_or_before_offset, offset)

    def _indexed_position(self, position: int) -> OffsetPosition | None:
        return self._look_up(self.indexes.by_offset.at_or_before_position, position)

    def _look_up(self, search: Callable[[int], T], key: int) -> T:
        """The result of a search, repeated where the index could not be read. Raises OSError, CorruptLog."""
        try:
            return search(key)
        except (IndexDamaged, OSError) as error:
            self._make_readable(error)
            return search(key)

    def _make_readable(self, error: IndexDamaged | OSError) -> None:
        """After an index could not be read: build both anew, or find a descriptor. Raises OSError, CorruptLog."""
        if isinstance(error, IndexDamaged):
            self.rebuild_indexes()
            return
        if self.keeper is not None:
            # This segment is being read, which is noted only afterwards: touch it, so that others are closed and not
            # itself.
            self.keeper.touch(self)
        if error.errno not in NO_DESCRIPTOR or self.keeper is None or not self.keeper.make_room():
            raise error

    def _trusted(self, entry: OffsetPosition | None) -> int:
        """Position of a batch that the index names, 0 without an entry; a false entry rebuilds the indexes."""
        if entry is None:
            return 0
        batch: BatchAt | None = None
        if 0 <= entry.position < self.log_file.size:
            with contextlib.suppress(BadBatch):
                batch = self.log_file.parse_at(entry.position)
        # Kafka may name the last batch of several appended at once; rebuilding then costs one scan, once.
        if batch is not None and batch.last_offset == entry.offset:
            return entry.position
        self.rebuild_indexes()
        again = self._indexed_offset(entry.offset)
        return again.position if again is not None else 0
