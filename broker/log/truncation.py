"""Removing batches from a log: truncation at the end, retention at the start.

A truncation is on disk, and the checkpoints below it, before anything is appended behind it. Files are removed in an
order in which a crash leaves a gapless part of the old log, or the new one: never a hole, never a log that starts too
late.
Source: kafka UnifiedLog.truncateTo, truncateFullyAndStartAt, deleteOldSegments.
"""

from __future__ import annotations

import logging

from broker.log.files import checkpoints
from broker.log.local_log import LocalLog
from broker.log.segments.retention import expired_segments
from broker.model.ids import Offset
from broker.model.log_errors import OffsetOutOfRange

_logger = logging.getLogger(__name__)


class Truncation:
    """Cuts one log at either end. No swap of segments may be under way: `SegmentSwap.before_cut`."""

    __slots__ = ("_log",)

    def __init__(self, log: LocalLog) -> None:
        self._log = log

    def truncate_to(self, offset: Offset) -> None:
        """Drop what is staged, and every batch that ends at or beyond `offset`.

        Batches stay whole: when offset lies inside of one, the end becomes its base offset; in a hole, the hole's.
        """
        log = self._log
        log.dir.check()
        log.drop_staged()
        if offset < log.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        try:
            if offset < log.staged_end_offset:
                segment = log.segments.at(log.segments.floor(offset))
                cut = segment.find(offset)
                if cut is not None and cut.base_offset <= offset:
                    offset = cut.base_offset
                else:
                    # In a hole: the log ends with the last batch before it.
                    offset = min(offset, segment.next_offset() if cut is None else segment.end_before(cut))
                self._lower_marks(offset)
                removed = log.segments.above(offset)
                for segment in reversed(removed):
                    log.delete_later(segment)
                log.segments.drop_after(offset)
                if removed:
                    log.tail.clear()
                # A snapshot file that a power failure brings back behind the cut would be taken for the state of what
                # is appended there.
                if log.snapshots.remove_above(offset) or removed:
                    checkpoints.fsync_dir(log.path)
                active = log.segments.active
                log.staged_end_offset = log.log_end_offset = active.truncate_to(offset)
                if active.size == 0:
                    active.created_ms = log.environment.now_ms()
                log.tail.cut(log.staged_end_offset)
                if log.aborted.cut(log.log_end_offset):
                    log.durability.names_changed()
            # Also when nothing was cut: an epoch taken up at the end, under which nothing was written, may conflict.
            log.epochs.truncate_from_end(offset)
            log.durability.epoch_file.save(sync=True)
        except OSError as error:
            log.fail(error)
        log.aim_at_active()
        self._tell_copy()

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Throw everything away; the log is empty and begins at `offset`.

        Newest segments first, and the oldest one only once the new one is there: a crash in between leaves a prefix
        of the old log or the new one, never a log that begins later than it should.
        """
        log = self._log
        log.dir.check()
        log.drop_staged()
        try:
            self._lower_marks(offset)
            oldest, *newer = log.segments
            for segment in reversed(newer):
                log.delete_later(segment)
            if oldest.base_offset == offset:
                oldest.empty()
                oldest.created_ms = log.environment.now_ms()
                log.segments.replace_all(oldest)
            else:
                log.segments.replace_all(log.new_segment(offset))
                # What the file says of the old log's beginning goes before that beginning does.
                log.epochs.clear()
                log.durability.epoch_file.save(sync=True)
                log.delete_later(oldest)
            log.tail.clear()
            log.staged_end_offset = log.log_end_offset = log.log_start = offset
            log.dir.note_end(log.topic_partition, offset)
            log.durability.restart_at(offset)
            log.epochs.clear()
            log.durability.epoch_file.save(sync=True)
            log.snapshots.remove_above(-1)
            log.aborted.clear()
            checkpoints.fsync_dir(log.path)
        except OSError as error:
            log.fail(error)
        log.aim_at_active()
        self._tell_copy()

    def _tell_copy(self) -> None:
        if self._log.on_cut is not None:
            self._log.on_cut()

    def _lower_marks(self, offset: Offset) -> None:
        """Before anything at or beyond `offset` goes: no checkpoint may claim it durable, deleted or committed."""
        log = self._log
        log.dir.note_end(log.topic_partition, min(offset, log.log_end_offset))
        log.durability.lower(offset)
        log.log_start = min(log.log_start, offset)
        if log.dir.checkpointed_recovery_points.get(log.topic_partition, 0) > offset:
            log.dir.write_recovery_points()
        if log.dir.checkpointed_log_starts.get(log.topic_partition, 0) > offset:
            log.dir.write_log_starts()
        if log.dir.checkpointed_high_watermarks.get(log.topic_partition, 0) > offset:
            log.dir.lower_high_watermark(log.topic_partition, offset)
        if log.dir.cleaner_offsets.lower(log.topic_partition, offset):
            log.dir.run(log.dir.cleaner_offsets.job())

    # Old segments

    def maybe_raise_log_start(self, offset: Offset) -> bool:
        """Let the log begin at `offset`, ≤ the end; whole segments below it go with the next retention check."""
        log = self._log
        if offset <= log.log_start:
            return False
        if offset > log.staged_end_offset:
            raise OffsetOutOfRange(log.topic_partition, offset, log.log_start, log.staged_end_offset)
        log.log_start = offset
        log.epochs.truncate_from_start(offset)
        return True

    def delete_old_segments(self, wall_ms: float, high_watermark: Offset) -> int:
        """Remove the oldest segments that retention no longer wants; returns how many.

        Never the active one: where it has expired too, an empty one takes over first. Raises LogDirFailed, CorruptLog,
        NoDescriptorFree.
        """
        log = self._log
        log.dir.check()
        try:
            count = expired_segments(
                log.segments, log.config, wall_ms, high_watermark, log.log_start, log.log_end_offset
            )
        except OSError as error:
            log.read_failed(error)
        try:
            if count == len(log.segments):
                count -= self._begin_new_active()
            if count == 0:
                return 0
            gone = log.segments.drop_first(count)
            self.maybe_raise_log_start(log.segments.first.base_offset)
            log.durability.epoch_file.save(sync=False)
            for segment in gone:
                log.delete_later(segment)
            log.snapshots.remove_below(log.segments.first.base_offset)
        except OSError as error:
            log.fail(error)
        _logger.info("%s: %d segments deleted, log starts at %d", log.topic_partition, count, log.log_start)
        return count

    def _begin_new_active(self) -> int:
        """Let an empty segment follow the active one; how many segments must not go for it."""
        log = self._log
        if log.staging.runs:
            # What is staged belongs behind the old one.
            return 1
        end = log.log_end_offset
        log.roll(end, log.snapshot_at_roll(end) if log.snapshot_at_roll is not None else None)
        log.aim_at_active()
        return 0
