"""One replica's log: append, write, read, truncate, flush. Implements `broker.runtime.ports.Log`.

Order of duties in a turn: append_as_… stages (the caller's memory, untouched by anyone until `write`), `write` puts all
of it in the file, `flush` makes it durable. `leo` counts what is staged; reads and epoch answers never do.
Invariants: log_start ≤ recovery point, written LEO ≤ LEO; without compaction offsets have no holes; a truncation is on
disk, and the checkpointed recovery point below it, before anything is appended behind it.
A failed system call takes the log dir offline (LogDirFailed); bytes that cannot be right are CorruptLog.
Source: kafka UnifiedLog, LocalLog.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import NoReturn

from broker.log import checkpoints
from broker.log.config import LogConfig
from broker.log.environment import Environment
from broker.log.epoch_cache import EpochCache
from broker.log.epoch_file import EpochFile
from broker.log.flush import FlushJob
from broker.log.graveyard import Graveyard
from broker.log.log_dir import LogDir
from broker.log.retention import expired_segments
from broker.log.segment import Segment
from broker.log.segments import Segments
from broker.log.snapshots import ProducerSnapshots
from broker.log.staging import ParsedBatches, Staging, read_batches, stamp_batches
from broker.log.tail import Tail
from broker.log.time_lookup import first_record_at
from broker.runtime.ports import (
    AppendInfo,
    Epoch,
    Offset,
    OffsetOutOfRange,
    TopicPartition,
)
from broker.wire.chunks import Chunk, FileSlice
from broker.wire.record_batch import BatchHeader

_logger = logging.getLogger(__name__)


class PartitionLog:
    """A log whose segments are loaded; `recovery.load` makes one."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        log_dir: LogDir,
        path: str,
        topic_id: str,
        config: LogConfig,
        environment: Environment,
        segments: Segments,
        *,
        leo: Offset,
        log_start_offset: Offset,
        recovery_point: Offset,
        epochs: EpochCache,
        new: bool,
    ) -> None:
        """path: this partition's folder in log_dir. new: its names are not on disk for good yet."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.path = path
        self.snapshots = ProducerSnapshots(path)
        self.snapshot_at_roll: Callable[[Offset], bytes | None] | None = None
        """Asked for the producer state at the offset where a segment ends, when its roll is staged."""
        self.last_flush_ms = environment.now_ms()
        self._dir = log_dir
        self._environment = environment
        self._segments = segments
        self._leo = self._written_leo = leo
        self._log_start = log_start_offset
        self._recovery_point = recovery_point
        self._generation = 0
        self._epochs = epochs
        self._epoch_file = EpochFile(path, epochs, durable=not new)
        self._names_version = int(new)
        self._names_durable = 0
        self._staging = Staging()
        self._tail = Tail()
        self._graveyard = Graveyard(environment)
        self._closed = False
        self.config = config
        """May be replaced; takes effect with the next append, read or check."""
        self._aim_at_active()

    # What the log is

    @property
    def log_start_offset(self) -> Offset:
        return self._log_start

    @property
    def leo(self) -> Offset:
        return self._leo

    @property
    def written_leo(self) -> Offset:
        return self._written_leo

    @property
    def recovery_point(self) -> Offset:
        return self._recovery_point

    @property
    def dirty(self) -> bool:
        return bool(self._staging.runs)

    @property
    def directory(self) -> str:
        """The log.dirs entry that holds it."""
        return self._dir.path

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segment_base_offsets(self) -> list[Offset]:
        return [segment.base_offset for segment in self._segments]

    # Leader epochs

    @property
    def latest_epoch(self) -> Epoch:
        return self._epochs.latest

    @property
    def epochs(self) -> list[tuple[Epoch, Offset]]:
        return self._epochs.entries

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        self._dir.check()
        self._epochs.assign(epoch, start_offset)
        try:
            self._epoch_file.save(sync=False)
        except OSError as error:
            self._fail(error)

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        found, end = self._epochs.end_offset_for(epoch, self._written_leo)
        return found, min(end, self._written_leo)

    def epoch_at(self, offset: Offset) -> Epoch:
        return self._epochs.epoch_at(offset)

    # Append

    def append_as_leader(
        self, batches: memoryview, epoch: Epoch, headers: Iterable[BatchHeader] | None = None
    ) -> AppendInfo:
        """Stamp base offsets and epoch in place (batches is writable) and stage. The caller has validated them.

        headers: of these batches in order, if the caller has them at hand. Raises CorruptBatch, staging nothing, when
        the batches do not fill the view.
        """
        if self._dir.failed is not None:
            raise self._dir.failed
        return self._stage(batches, stamp_batches(batches, self._leo, epoch, headers))

    def append_as_follower(self, batches: memoryview) -> AppendInfo:
        """Stage batches that carry their offsets and epochs; they start at `leo` and have no holes.

        Raises UnexpectedAppendOffset or CorruptBatch, staging nothing.
        """
        if self._dir.failed is not None:
            raise self._dir.failed
        tp = self.topic_partition
        return self._stage(batches, read_batches(tp, batches, self._leo, self._epochs.latest, self.config.compacts))

    def _stage(self, view: memoryview, parsed: ParsedBatches) -> AppendInfo:
        batches, newest, epochs = parsed
        size = len(view)
        base = batches[0][0]
        last = batches[-1][1]
        for epoch, start in epochs:
            if epoch != self._epochs.latest:
                self._epochs.assign(epoch, start)
        staging = self._staging
        now_ms = self._environment.now_ms()
        if staging.must_roll(size, newest, last, self.config, now_ms, self._segments.active.index):
            snapshot = self.snapshot_at_roll(base) if self.snapshot_at_roll is not None else None
            staging.begin_segment(base, snapshot, now_ms)
        staging.add(view, batches, size)
        self._leo = last + 1
        return AppendInfo(base, last, newest, size, len(batches))

    def write(self) -> None:
        """Put all staged batches in the file: one system call, one more per segment rolled."""
        runs = self._staging.runs
        if not runs:
            return
        self._dir.check()
        tail = self._tail
        try:
            self._epoch_file.save(sync=False)
            for run in runs:
                if run.roll_at is not None:
                    self._roll(run.roll_at, run.snapshot)
                segment = self._segments.active
                segment.append(run.views)
                position = segment.size
                for base, last, timestamp, size in run.batches:
                    tail.add(base, position)
                    segment.add(last, timestamp, size)
                    position += size
                self._written_leo = run.batches[-1][1] + 1
        except OSError as error:
            self._drop_staged()
            raise self._dir.fail(error) from error
        runs.clear()
        if self._written_leo - self._recovery_point >= self.config.flush_messages:
            self.flush()

    def _roll(self, base: Offset, snapshot: bytes | None) -> None:
        """Finish the active segment and begin one at `base`; what is finished is flushed in the background."""
        self._segments.active.finish()
        if snapshot is not None:
            self.snapshots.write(base, snapshot, sync=False)
        self._segments.add(self._new_segment(base))
        self._tail.clear()
        self._names_version += 1
        self._flush_in_background(base)

    def _new_segment(self, base: Offset) -> Segment:
        return Segment.create(
            self.topic_partition,
            self.path,
            base,
            self.config.index_interval_bytes,
            self.config.compacts,
            self._environment.now_ms(),
        )

    def _drop_staged(self) -> None:
        if self._leo != self._written_leo:
            self._leo = self._written_leo
            self._epochs.truncate_from_end(self._leo)
        self._aim_at_active()

    def _aim_at_active(self) -> None:
        """Let the next append go behind what the active segment holds."""
        active = self._segments.active
        active.open()
        created_ms = active.created_ms or self._environment.now_ms()
        self._staging.aim(active.base_offset, active.size, active.first_timestamp, created_ms)

    # Read

    def read(self, offset: Offset, max_bytes: int, limit_offset: Offset, min_one_batch: bool) -> Chunk:
        """Whole batches from the one that holds `offset`, none at or beyond limit_offset; b"" when there is nothing.

        Raises OffsetOutOfRange when offset is below log_start_offset or above leo; CorruptLog; LogDirFailed.
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
            return FileSlice(active.fd, *found) if found[1] else b""
        try:
            place = self._segments.floor(offset)
            while place < len(self._segments):
                segment = self._segments.at(place)
                end = self._segments.end_of(place, self._written_leo)
                chunk = segment.read(offset, max_bytes, limit, end, min_one_batch)
                if chunk is not None:
                    return chunk if chunk.length else b""
                place += 1
        except OSError as error:
            self._fail(error)
        return b""

    def offset_for_timestamp(self, timestamp: int, limit_offset: Offset) -> tuple[int, Offset, Epoch] | None:
        """(timestamp, offset, epoch) of the first record at or after timestamp below limit_offset."""
        self._dir.check()
        limit = min(limit_offset, self._written_leo)
        try:
            return first_record_at(self._segments, timestamp, self._log_start, limit)
        except OSError as error:
            self._fail(error)

    # Truncate

    def truncate_to(self, offset: Offset) -> None:
        """Drop what is staged, and every batch that ends at or beyond `offset`.

        Batches stay whole: when offset lies inside of one, leo becomes its base offset.
        """
        self._dir.check()
        self._drop_staged()
        if offset < self._segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        try:
            if offset < self._leo:
                segment = self._segments.at(self._segments.floor(offset))
                cut = segment.find(offset)
                if cut is not None:
                    offset = cut.base_offset
                self._lower_marks(offset)
                removed = self._segments.above(offset)
                for segment in reversed(removed):
                    self._retire(segment)
                self._segments.drop_after(offset)
                if removed:
                    checkpoints.fsync_dir(self.path)
                    self._tail.clear()
                active = self._segments.active
                self._leo = self._written_leo = active.truncate_to(offset)
                if active.size == 0:
                    active.created_ms = self._environment.now_ms()
                self._tail.cut(self._leo)
                self.snapshots.remove_above(self._leo)
            # Also when nothing was cut: an epoch taken up at the end, under which nothing was written, may conflict.
            self._epochs.truncate_from_end(offset)
            self._epoch_file.save(sync=True)
        except OSError as error:
            self._fail(error)
        self._aim_at_active()

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Throw everything away; the log is empty and begins at `offset`.

        Newest segments first, and the oldest one only once the new one is there: a crash in between leaves a prefix
        of the old log or the new one, never a log that begins later than it should.
        """
        self._dir.check()
        self._drop_staged()
        try:
            self._lower_marks(offset)
            oldest, *newer = self._segments
            for segment in reversed(newer):
                self._retire(segment)
            if oldest.base_offset == offset:
                oldest.reset_to((), 0)
                oldest.created_ms = self._environment.now_ms()
                self._segments.replace_all(oldest)
            else:
                self._segments.replace_all(self._new_segment(offset))
                self._retire(oldest)
            self._tail.clear()
            self._leo = self._written_leo = self._log_start = self._recovery_point = offset
            self._epochs.clear()
            self._epoch_file.save(sync=True)
            self.snapshots.remove_above(-1)
            checkpoints.fsync_dir(self.path)
        except OSError as error:
            self._fail(error)
        self._aim_at_active()

    def _lower_marks(self, offset: Offset) -> None:
        """Before anything at or beyond `offset` goes: no checkpoint may claim it durable, deleted or committed."""
        self._generation += 1
        self._recovery_point = min(self._recovery_point, offset)
        self._log_start = min(self._log_start, offset)
        if self._dir.checkpointed_recovery_points.get(self.topic_partition, 0) > offset:
            self._dir.write_recovery_points()
        if self._dir.checkpointed_log_starts.get(self.topic_partition, 0) > offset:
            self._dir.write_log_starts()
        if self._dir.checkpointed_high_watermarks.get(self.topic_partition, 0) > offset:
            self._dir.lower_high_watermark(self.topic_partition, offset)

    # Old segments

    def maybe_raise_log_start(self, offset: Offset) -> bool:
        """Let the log begin at `offset`, ≤ leo; whole segments below it go with the next retention check."""
        if offset <= self._log_start:
            return False
        if offset > self._leo:
            raise OffsetOutOfRange(self.topic_partition, offset, self._log_start, self._leo)
        self._log_start = offset
        self._epochs.truncate_from_start(offset)
        return True

    def delete_old_segments(self, wall_ms: float, high_watermark: Offset) -> int:
        """Remove the oldest segments that retention no longer wants; returns how many. Never the active one."""
        self._dir.check()
        try:
            count = expired_segments(self._segments, self.config, wall_ms, high_watermark, self._log_start)
            if count == 0:
                return 0
            gone = self._segments.drop_first(count)
            self.maybe_raise_log_start(self._segments.first.base_offset)
            self._epoch_file.save(sync=False)
            for segment in gone:
                self._retire(segment)
            self.snapshots.remove_below(self._segments.first.base_offset)
        except OSError as error:
            self._fail(error)
        _logger.info("%s: %d segments deleted, log starts at %d", self.topic_partition, count, self._log_start)
        return count

    def _retire(self, segment: Segment) -> None:
        self._graveyard.take(segment, self.config.file_delete_delay_ms)

    # Durability

    def flush(self) -> None:
        """Make everything written durable and move the recovery point there. Raises LogDirFailed."""
        self._dir.check()
        if self._recovery_point == self._written_leo and self._names_durable == self._names_version:
            return
        try:
            job = self._flush_job(self._written_leo)
            job()
        except OSError as error:
            self._fail(error)
        self._flushed(job)

    def flush_in_background(self) -> None:
        """Begin a flush of everything written; the recovery point moves when it is done."""
        self._dir.check()
        try:
            self._flush_in_background(self._written_leo)
        except OSError as error:
            self._fail(error)

    def _flush_in_background(self, target: Offset) -> None:
        job = self._flush_job(target)

        def done(error: OSError | None) -> None:
            if error is not None:
                self._dir.fail(error)
            else:
                self._flushed(job)

        self._environment.background(job, done)

    def _flush_job(self, target: Offset) -> FlushJob:
        fds: list[int] = []
        files: list[str] = []
        for place in range(self._segments.floor(self._recovery_point), len(self._segments)):
            segment = self._segments.at(place)
            if segment.base_offset >= target and place > 0:
                break
            segment.open()
            fds.append(os.dup(segment.fd))
            if segment is not self._segments.active:
                segment.finish()
                fds += [os.dup(segment.index.fileno()), os.dup(segment.time_index.fileno())]
        names_due = self._names_version > self._names_durable
        if names_due and self.topic_id:
            files.append(f"{self.path}/{checkpoints.PARTITION_METADATA}")
        text = self._epoch_file.due()
        return FlushJob(
            target=target,
            generation=self._generation,
            names_version=self._names_version,
            epochs_version=self._epoch_file.version,
            fds=fds,
            files=files,
            directories=[self.path, self._dir.path] if names_due else [],
            epochs_file=self._epoch_file.file,
            epochs_ticket=self._epoch_file.file.ticket(),
            epochs_text=text,
        )

    def _flushed(self, job: FlushJob) -> None:
        if job.generation == self._generation:
            self._recovery_point = max(self._recovery_point, min(job.target, self._written_leo))
        self._names_durable = max(self._names_durable, job.names_version)
        self._epoch_file.became_durable(job.epochs_version)
        self.last_flush_ms = self._environment.now_ms()

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
        """The newest snapshot at or below `at_most` (the LEO by default)."""
        return self.snapshots.latest(self._leo if at_most is None else at_most)

    # The end

    def close(self, clean: bool) -> None:
        """Close all files; clean: everything is flushed and the indexes have their exact sizes first."""
        if self._closed:
            return
        if clean and self._dir.failed is None:
            self.write()
            try:
                for segment in self._segments:
                    segment.finish()
                job = self._flush_job(self._written_leo)
                job()
                self._recovery_point = self._written_leo
                active = self._segments.active
                os.fdatasync(active.index.fileno())
                os.fdatasync(active.time_index.fileno())
            except OSError as error:
                self._fail(error)
        self._closed = True
        self._graveyard.clear()
        for segment in self._segments:
            segment.close()

    def _fail(self, error: OSError) -> NoReturn:
        raise self._dir.fail(error) from error
