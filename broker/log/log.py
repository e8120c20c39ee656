"""One replica's log: append, write, read, truncate, flush. Implements `broker.runtime.ports.Log`.

Order of duties in a turn: append_as_… stages (the caller's memory, untouched by anyone until `write`), `write` puts all
of it in the file, `flush` makes it durable. `leo` counts what is staged; reads and epoch answers never do.
Invariants: log_start ≤ recovery point, written LEO ≤ LEO; without compaction offsets have no holes; a truncation is on
disk, and the checkpointed recovery point below it, before anything is appended behind it.
A failed system call takes the log dir offline (LogDirFailed); bytes that cannot be right are CorruptLog.
Source: kafka UnifiedLog, LocalLog.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from random import randrange

from broker.log.files import checkpoints
from broker.log.segments.log_file import INT32_MAX
from broker.log.segments.staging import StagedBatch, read_batches, stamp_batches, stamp_one
from broker.log.segments.timestamp_lookup import first_record_at, newest_timestamp
from broker.log.swap import SwappingLog
from broker.model.append_info import AppendInfo
from broker.model.ids import Epoch, Offset
from broker.model.log_errors import CorruptLog, LogDirFailed, OffsetOutOfRange
from broker.wire.chunks import Chunk, FileSlice
from broker.wire.record_batch import BatchHeader

_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much


class PartitionLog(SwappingLog):
    """A log whose segments are loaded; `recovery.load` makes one."""

    _closed = False

    # Append

    def append_as_leader(self, batches: memoryview, epoch: Epoch, header: BatchHeader | None = None) -> AppendInfo:
        """Stamp base offsets and epoch in place (batches is writable) and stage. The caller has validated them.

        header: of the only batch, if the caller has it at hand. Raises CorruptBatch, staging nothing, when the
        batches do not fill the view.
        """
        if self._dir.failed is not None:
            raise self._dir.failed
        base = self._leo
        if header is None:
            staged, newest, _ = stamp_batches(batches, base, epoch)
        else:
            one = stamp_one(batches, base, epoch, header)
            staged, newest = [one], one[2]
        if epoch != self._epochs.latest:
            self._epochs.assign(epoch, base)
        return self._stage(batches, staged, newest)

    def append_as_follower(self, batches: memoryview, headers: Sequence[BatchHeader] | None = None) -> AppendInfo:
        """Stage batches that carry their offsets and epochs; they start at `leo` and have no holes.

        headers: of all of them in order, if the caller has them at hand. Raises UnexpectedAppendOffset or
        CorruptBatch, staging nothing.
        """
        if self._dir.failed is not None:
            raise self._dir.failed
        staged, newest, epochs = read_batches(
            self.topic_partition, batches, self._leo, self._epochs.latest, self.has_holes, headers
        )
        for epoch, start in epochs:
            if epoch != self._epochs.latest:
                self._epochs.assign(epoch, start)
        return self._stage(batches, staged, newest)

    def _stage(self, view: memoryview, batches: list[StagedBatch], newest: int) -> AppendInfo:
        size = len(view)
        base = batches[0][0]
        last = batches[-1][1]
        staging = self._staging
        now_ms = self._environment.now_ms
        if staging.must_roll(size, newest, last, self.config, now_ms, self._segments.active.indexes.by_offset):
            # Where a compacted log skips offsets the hole is in a segment, not between two: see recovery_scan.
            start = self._leo if last - self._leo <= INT32_MAX else base
            snapshot = self.snapshot_at_roll(start) if self.snapshot_at_roll is not None else None
            jitter_ms = randrange(self.config.jitter_ms) if self.config.jitter_ms else 0
            staging.begin_segment(start, snapshot, now_ms(), jitter_ms)
        staging.add(view, batches, size)
        self._leo = last + 1
        return _new(AppendInfo, (base, last, newest, size, len(batches)))

    def write(self) -> None:
        """Put all staged batches in the file: one system call, one more per segment rolled.

        Raises LogDirFailed; CorruptLog where the flush that follows a roll meets damage in an older segment. What is
        not written then is not staged any more.
        """
        runs = self._staging.runs
        if not runs:
            return
        self._dir.check()
        tail = self._tail
        try:
            self.durability.epoch_file.save(sync=False)
            for run in runs:
                if run.roll_at is not None:
                    self._roll(run.roll_at, run.snapshot)
                segment = self._segments.active
                segment.append(run.views)
                tail.extend(run.batches, segment.size)
                segment.add_all(run.batches)
                self._written_leo = run.batches[-1][1] + 1
            self._dir.note_end(self.topic_partition, self._written_leo)
        except OSError as error:
            self._drop_staged()
            raise self._dir.fail(error) from error
        except CorruptLog:
            self._drop_staged()
            raise
        runs.clear()
        if self._written_leo - self.durability.recovery_point >= self.config.flush_messages:
            self.flush()

    def discard_staged(self) -> None:
        """Forget what is staged; the views were the caller's memory, which is used again."""
        if self._staging.runs:
            self._drop_staged()

    # Read

    def read(self, offset: Offset, max_bytes: int, limit_offset: Offset, min_one_batch: bool) -> Chunk:
        """Whole batches from the one that holds `offset`, none at or beyond limit_offset; b"" when there is nothing.

        Raises OffsetOutOfRange when offset is below log_start_offset or above leo; CorruptLog; LogDirFailed;
        NoDescriptorFree.
        """
        if offset < self._log_start or offset > self._leo:
            raise OffsetOutOfRange(self.topic_partition, offset, self._log_start, self._leo)
        limit = min(limit_offset, self._written_leo)
        if offset >= limit:
            return b""
        if self._dir.failed is not None:
            raise self._dir.failed
        active = self._segments.active
        found = self._tail.find(offset, max_bytes, limit, self._written_leo, active.size, min_one_batch)
        if found is not None:
            return FileSlice(active.log_file.fd, *found) if found[1] else b""
        try:
            place = self._segments.floor(offset)
            while place < len(self._segments):
                segment = self._segments.at(place)
                end = self._segments.end_of(place, self._written_leo)
                chunk = segment.read(offset, max_bytes, limit, end, min_one_batch)
                self._environment.open_segments.touch(segment)
                if chunk is not None:
                    return chunk if chunk.length else b""
                place += 1
        except OSError as error:
            self._read_failed(error)
        return b""

    def read_bytes(self, offset: Offset, max_bytes: int, limit_offset: Offset, min_one_batch: bool) -> memoryview:
        """What `read` finds, read. No older segment stays open for it that was not. Raises as `read`."""
        with self._environment.open_segments.briefly():
            chunk = self.read(offset, max_bytes, limit_offset, min_one_batch)
            if not isinstance(chunk, FileSlice):
                return memoryview(chunk)
            try:
                return memoryview(_content(chunk))
            except OSError as error:
                self._fail(error)

    def distrust(self) -> None:
        """Check again, at its next read, everything that was written or checked before; damage is CorruptLog then."""
        self._tail.clear()
        for segment in self._segments.made():
            segment.distrust()

    def read_failed(self, error: OSError) -> LogDirFailed:
        """Who read a chunk in its file met that: the log dir goes offline. Returns what to raise."""
        return self._dir.fail(error)

    def newest_timestamp(self) -> int:
        """The largest timestamp that a written batch claims, −1 without any. Raises as `read`."""
        self._dir.check()
        try:
            return newest_timestamp(self._segments)
        except OSError as error:
            self._read_failed(error)

    def offset_for_timestamp(self, timestamp: int, limit_offset: Offset) -> tuple[int, Offset, Epoch] | None:
        """(timestamp, offset, epoch) of the first record at or after timestamp below limit_offset. Raises as `read`."""
        self._dir.check()
        limit = min(limit_offset, self._written_leo)
        try:
            return first_record_at(self._segments, timestamp, self._log_start, limit)
        except OSError as error:
            self._read_failed(error)

    # Durability

    def flush(self) -> None:
        """Make everything written durable and move the recovery point there. Raises LogDirFailed, CorruptLog."""
        self._dir.check()
        if self.durability.is_due(self._written_leo):
            try:
                self.durability.flush(self._written_leo, self.topic_id)
            except OSError as error:
                self._fail(error)

    def flush_in_background(self) -> None:
        """Begin a flush of everything written; the recovery point moves when it is done. Raises as `flush`."""
        self._dir.check()
        try:
            self.durability.flush_in_background(self._written_leo, self.topic_id)
        except OSError as error:
            self._fail(error)

    def commit(self, then: Callable[[], None]) -> None:
        """Begin a flush beside others in the same dir, then call `then` on the loop; nothing while one is under way.

        Raises as `flush`; when the flush itself fails, `then` is not called and the dir is offline.
        """
        self._dir.check()
        try:
            self.durability.commit(self._written_leo, self.topic_id, then)
        except OSError as error:
            self._fail(error)

    def set_topic_id(self, topic_id: str) -> None:
        """Write partition.metadata of a log that had none. Raises ValueError when it has another id."""
        if self.topic_id and self.topic_id != topic_id:
            raise ValueError(f"{self.topic_partition}: topic id is {self.topic_id}, not {topic_id}")
        self._dir.check()
        try:
            checkpoints.write_atomically(
                f"{self.path}/{checkpoints.PARTITION_METADATA}", checkpoints.format_partition_metadata(topic_id)
            )
        except OSError as error:
            self._fail(error)
        self.topic_id = topic_id

    # Producer state

    def write_producer_snapshot(self, offset: Offset, content: bytes) -> None:
        """Keep the producer state as it was when the log ended at `offset`."""
        self._dir.check()
        try:
            self.snapshots.write(offset, content)
        except OSError as error:
            self._fail(error)

    def latest_producer_snapshot(self, at_most: Offset | None = None) -> tuple[Offset, bytes] | None:
        """The newest snapshot at or below `at_most` (the LEO by default). Raises LogDirFailed, NoDescriptorFree."""
        offset = self._leo if at_most is None else at_most
        try:
            return self._environment.open_segments.with_room(lambda: self.snapshots.latest(offset))
        except OSError as error:
            self._read_failed(error)

    # The end

    def close(self, clean: bool) -> None:
        """Close all files; clean: everything is flushed and the indexes have their exact sizes first.

        Raises LogDirFailed, and CorruptLog where it cannot be closed clean: then nothing is closed yet.
        """
        if self._closed:
            return
        if clean and self._dir.failed is None:
            self.write()
            try:
                for segment in self._segments.made():
                    segment.finish()
                self.durability.flush(self._written_leo, self.topic_id)
                self._segments.active.sync_indexes()
            except OSError as error:
                self._fail(error)
        self._closed = True
        self.abandon_swap()
        self._graveyard.close()
        for segment in self._segments.made():
            segment.close()


def _content(piece: FileSlice) -> bytes:
    """Short where the file is. Raises OSError."""
    data = b""
    while len(data) < piece.length:
        more = os.pread(piece.fd, piece.length - len(data), piece.position + len(data))
        if not more:
            break
        data += more
    return data
