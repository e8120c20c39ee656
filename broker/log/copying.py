"""One log filled from another of the same partition, in another log dir, until it can take its place.

Batches are copied as they are, in slices, by the appends of a follower: so leader epochs, indexes, producer state with
its snapshots and the index of aborted transactions come of them as everywhere. What is cut from the log that is copied
is cut from the copy at once; a start compares the two by their epochs. The log that is copied is not cleaned meanwhile:
a value whose tombstone went with a cleaning after the value was copied would come back.
Source: kafka.server.ReplicaAlterLogDirsThread (processPartitionData, truncate), AbstractFetcherThread.
"""

from __future__ import annotations

from broker.core.replication.epochs import diverging_epoch, truncation_offset
from broker.log.log import PartitionLog
from broker.model.ids import Offset
from broker.model.log_errors import CorruptLog, LogDirFailed, UnexpectedAppendOffset
from broker.wire.record_batch import CorruptBatch, iter_batches

UNFLUSHED_SEGMENTS_MAX = 4
"""A copy that has more waits for the disk. Each roll begins a flush, which holds the descriptors of all that is not on
disk; rolls of small segments would come faster than the disk, and take what descriptors there are.
"""


class CopyFailed(Exception):
    """The copy, or its log dir, is of no use any more; the log that is copied is as good as before."""


class LogCopy:
    """`future` is filled from `current`. What it raises but CopyFailed is about `current`."""

    def __init__(self, current: PartitionLog, future: PartitionLog) -> None:
        self.current = current
        self.future = future
        self._flushed_from: Offset = -1
        """From which recovery point a flush was begun here; −1 where the copy was cut since: it moves nothing then."""

    def waits_for_disk(self) -> bool:
        """Whether nothing should be copied now; sees to it that the disk catches up. Raises CopyFailed."""
        local, _ = self.future.parts
        segments, point = local.segments, local.durability.recovery_point
        first = segments.floor(point)
        if len(segments) - first <= UNFLUSHED_SEGMENTS_MAX:
            return False
        if self._flushed_from != point:
            self._flushed_from = point
            try:
                until = segments.at(first + UNFLUSHED_SEGMENTS_MAX).base_offset
                local.durability.flush_in_background(until, local.topic_id)
            except OSError as error:
                raise CopyFailed(str(local.dir.fail(error))) from error
            except CorruptLog as damage:
                raise CopyFailed(str(damage)) from damage
        return len(segments) - segments.floor(local.durability.recovery_point) > UNFLUSHED_SEGMENTS_MAX

    @property
    def caught_up(self) -> bool:
        """Whether all that is written is copied; what is staged is not."""
        return self.future.log_end_offset == self.current.log_end_offset

    def take(self, max_bytes: int) -> int:
        """Copy the next slice, one batch at least; returns its bytes, 0 where nothing is left to copy.

        Raises LogDirFailed, CorruptLog, NoDescriptorFree of the log that is copied; CopyFailed.
        """
        current, future = self.current, self.future
        self._begin_no_later_than_needed()
        if self.caught_up:
            self.raise_start()
            return 0
        view = current.read_bytes(future.log_end_offset, max_bytes, current.log_end_offset, True)
        try:
            headers = [header for _, header in iter_batches(view, verify_crc=True)]
        except CorruptBatch as damage:
            where = f"copying from offset {future.log_end_offset}"
            raise CorruptLog(current.topic_partition, where, str(damage)) from damage
        try:
            if not headers:
                # A cleaning left no batch before the empty segment at the log's end.
                self._skip_to(current.log_end_offset)
                return 0
            first = headers[0].base_offset
            if first < future.log_end_offset:
                # The log begins inside of a batch (DeleteRecords): the copy begins where that batch does.
                self._cut_to(first)
            future.append_as_follower(view, headers)
            future.write()
        except (LogDirFailed, CorruptLog, UnexpectedAppendOffset, CorruptBatch) as failure:
            raise CopyFailed(str(failure)) from failure
        self.raise_start()
        future.producers.transactions.forget_replicated(future.log_end_offset)
        return len(view)

    def agree(self) -> None:
        """At a start: cut from the copy whatever the other log does not have. Raises CopyFailed.

        The copy of a compacted log begins anew: epochs do not tell that the log was fetched again from a leader that
        had cleaned a tombstone away whose value is in the copy.
        """
        current, future = self.current, self.future
        if current.has_holes:
            self._restart_at(current.log_start_offset)
        while future.log_end_offset > future.log_start_offset:
            end = future.log_end_offset
            if future.epoch_at(end - 1) < 0:
                # Nothing says whose batches these are.
                self._restart_at(current.log_start_offset)
                break
            part = diverging_epoch(current.end_offset_for_epoch, future.epoch_at(end - 1), end)
            if part is None and end <= current.log_end_offset:
                break
            target = current.log_end_offset
            if part is not None:
                target = min(target, truncation_offset(part, future.end_offset_for_epoch, end))
            self._cut_to(target)
        self._begin_no_later_than_needed()

    def follow_cut(self) -> None:
        """The log that is copied was cut. Raises CopyFailed."""
        if self.future.log_end_offset > self.current.log_end_offset:
            self._cut_to(self.current.log_end_offset)
        self._begin_no_later_than_needed()

    def settle(self) -> None:
        """All is copied: write down what the files of the copy need to be opened in the place of the other log.

        Nothing here waits for the disk. Raises CopyFailed.
        """
        assert self.caught_up
        assert not self.current.dirty
        local, _ = self.future.parts
        try:
            if self.future.topic_id != self.current.topic_id:
                self.future.set_topic_id(self.current.topic_id)
            local.epochs.replace(self.current.epochs)
            local.epochs.truncate_from_start(local.log_start)
            local.durability.epoch_file.save(sync=False)
            # Its own state lacks producers whose batches were all deleted before they were copied.
            before, _ = self.current.parts
            content = before.snapshot_at_roll(local.log_end_offset) if before.snapshot_at_roll is not None else None
            if content is not None:
                local.snapshots.write(local.log_end_offset, content, sync=False)
            for segment in local.segments.made():
                segment.finish()
        except OSError as error:
            raise CopyFailed(str(local.dir.fail(error))) from error
        except (LogDirFailed, CorruptLog, ValueError) as failure:
            raise CopyFailed(str(failure)) from failure

    def _begin_no_later_than_needed(self) -> None:
        """What lies below the start of the log that is copied is not copied."""
        start = self.current.log_start_offset
        if self.future.log_end_offset < start:
            self._restart_at(start)
        if self.current.has_holes and not self.future.has_holes:
            self.future.parts[0].allow_holes()

    def raise_start(self) -> None:
        """Let the copy begin where the log does; where it ends, if that is earlier."""
        self.future.maybe_raise_log_start(min(self.current.log_start_offset, self.future.log_end_offset))

    def _cut_to(self, offset: Offset) -> None:
        self._flushed_from = -1
        try:
            if offset <= self.future.log_start_offset:
                self._restart_at(max(offset, 0))
            else:
                self.future.truncate_to(offset)
        except (LogDirFailed, CorruptLog) as failure:
            raise CopyFailed(str(failure)) from failure

    def _restart_at(self, offset: Offset) -> None:
        self._flushed_from = -1
        try:
            self.future.truncate_fully_and_start_at(offset)
        except (LogDirFailed, CorruptLog) as failure:
            raise CopyFailed(str(failure)) from failure

    def _skip_to(self, offset: Offset) -> None:
        local, _ = self.future.parts
        try:
            local.roll(offset, local.snapshot_at_roll(offset) if local.snapshot_at_roll is not None else None)
        except OSError as error:
            raise CopyFailed(str(local.dir.fail(error))) from error
        local.staged_end_offset = local.log_end_offset = offset
        local.dir.note_end(local.topic_partition, offset)
        local.aim_at_active()


def take_place(new: PartitionLog, old: PartitionLog) -> None:
    """`new` was just opened, holds the records of `old` and is the partition's log from now on.

    What was durable of `old` is of `new` too; whatever comes next counts as durable once the name of the folder is.
    """
    local, producer_state = new.parts
    producer_state.adopt(old.producers)
    new.producers = old.producers
    new.cleaning.take_over(old.cleaning)
    local.durability.lower(old.recovery_point)
    local.durability.names_changed()
    # Written without a flush: the next one makes it durable before the recovery point moves.
    local.epochs.changed = True
