"""The half of a log that takes away: truncation from the end, retention from the start. See `broker.log.log`.

A truncation is on disk, and the checkpoints below it, before anything is appended behind it. What goes, goes in an
order in which a crash leaves a run of the old log or the new one, never a hole, never a log that starts too late.
Source: kafka UnifiedLog.truncateTo, truncateFullyAndStartAt, deleteOldSegments.
"""

from __future__ import annotations

import logging

from broker.log.files import checkpoints
from broker.log.log_base import LogBase
from broker.log.segments.retention import expired_segments
from broker.model.ids import Offset
from broker.model.log_errors import OffsetOutOfRange

_logger = logging.getLogger(__name__)


class ShorteningLog(LogBase):
    """Cuts the log at either end."""

    def truncate_to(self, offset: Offset) -> None:
        """Drop what is staged, and every batch that ends at or beyond `offset`.

        Batches stay whole: when offset lies inside of one, leo becomes its base offset; in a hole, the hole's.
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
                if cut is not None and cut.base_offset <= offset:
                    offset = cut.base_offset
                else:
                    # In a hole: nothing between the last batch before it and there is left to vouch for.
                    offset = min(offset, segment.next_offset() if cut is None else segment.end_before(cut))
                self._lower_marks(offset)
                removed = self._segments.above(offset)
                for segment in reversed(removed):
                    self._retire(segment)
                self._segments.drop_after(offset)
                if removed:
                    self._tail.clear()
                # A snapshot that came back behind the cut would stand for what is appended there.
                if self.snapshots.remove_above(offset) or removed:
                    checkpoints.fsync_dir(self.path)
                active = self._segments.active
                self._leo = self._written_leo = active.truncate_to(offset)
                if active.size == 0:
                    active.created_ms = self._environment.now_ms()
                self._tail.cut(self._leo)
            # Also when nothing was cut: an epoch taken up at the end, under which nothing was written, may conflict.
            self._epochs.truncate_from_end(offset)
            self.durability.epoch_file.save(sync=True)
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
                oldest.empty()
                oldest.created_ms = self._environment.now_ms()
                self._segments.replace_all(oldest)
            else:
                self._segments.replace_all(self._new_segment(offset))
                # What the file says of the old log's beginning goes before that beginning does.
                self._epochs.clear()
                self.durability.epoch_file.save(sync=True)
                self._retire(oldest)
            self._tail.clear()
            self._leo = self._written_leo = self._log_start = offset
            self._dir.note_end(self.topic_partition, offset)
            self.durability.restart_at(offset)
            self._epochs.clear()
            self.durability.epoch_file.save(sync=True)
            self.snapshots.remove_above(-1)
            checkpoints.fsync_dir(self.path)
        except OSError as error:
            self._fail(error)
        self._aim_at_active()

    def _lower_marks(self, offset: Offset) -> None:
        """Before anything at or beyond `offset` goes: no checkpoint may claim it durable, deleted or committed."""
        self._dir.note_end(self.topic_partition, min(offset, self._written_leo))
        self.durability.lower(offset)
        self._log_start = min(self._log_start, offset)
        if self._dir.checkpointed_recovery_points.get(self.topic_partition, 0) > offset:
            self._dir.write_recovery_points()
        if self._dir.checkpointed_log_starts.get(self.topic_partition, 0) > offset:
            self._dir.write_log_starts()
        if self._dir.checkpointed_high_watermarks.get(self.topic_partition, 0) > offset:
            self._dir.lower_high_watermark(self.topic_partition, offset)
        if self._dir.cleaner_offsets.lower(self.topic_partition, offset):
            self._dir.run(self._dir.cleaner_offsets.job())

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
        """Remove the oldest segments that retention no longer wants; returns how many.

        Never the active one: where it has expired too, an empty one takes over first. Raises LogDirFailed, CorruptLog,
        NoDescriptorFree.
        """
        self._dir.check()
        try:
            count = expired_segments(
                self._segments, self.config, wall_ms, high_watermark, self._log_start, self._written_leo
            )
        except OSError as error:
            self._read_failed(error)
        try:
            if count == len(self._segments):
                count -= self._begin_new_active()
            if count == 0:
                return 0
            gone = self._segments.drop_first(count)
            self.maybe_raise_log_start(self._segments.first.base_offset)
            self.durability.epoch_file.save(sync=False)
            for segment in gone:
                self._retire(segment)
            self.snapshots.remove_below(self._segments.first.base_offset)
        except OSError as error:
            self._fail(error)
        _logger.info("%s: %d segments deleted, log starts at %d", self.topic_partition, count, self._log_start)
        return count

    def _begin_new_active(self) -> int:
        """Let an empty segment follow the active one; how many segments must not go for it."""
        if self.dirty:
            # What is staged belongs behind the old one.
            return 1
        end = self._written_leo
        self._roll(end, self.snapshot_at_roll(end) if self.snapshot_at_roll is not None else None)
        self._aim_at_active()
        return 0
