"""One replica's log: append, write, read, truncate, flush. Implements `broker.runtime.ports.Log`.

PartitionLog joins the parts of a log, which share its state (`LocalLog`): `Truncation` cuts, `SegmentSwap` replaces
segments that were cleaned, `SegmentReads` reads files, `Durability` flushes. Appends, and reads that the tail cache
serves, are its own methods: no call lies between them and the state.

Order of duties in a turn: append_as_… stages (the caller's memory, untouched by anyone until `write`), `write` puts all
of it in the file, `flush` makes it durable. `staged_end_offset` counts what is staged; reads and epoch ends never do.
Invariants: log_start ≤ recovery point, log end ≤ staged end; without compaction offsets have no holes; a truncation is
on disk, and the checkpointed recovery point below it, before anything is appended behind it.
A failed system call takes the log dir offline (LogDirFailed); bytes that cannot be right are CorruptLog.
Source: kafka UnifiedLog, LocalLog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import randrange

from broker.log.committed_reads import CommittedReads
from broker.log.config import LogConfig
from broker.log.files.batch_scan import end_offset_in_file
from broker.log.local_log import LocalLog
from broker.log.producers import TRANSACTION_BITS, ProducerStateManager, headers_of
from broker.log.reads import SegmentReads
from broker.log.segments.log_file import INT32_MAX
from broker.log.segments.staging import StagedBatch, read_batches, stamp_batches, stamp_one
from broker.log.swap import SegmentSwap
from broker.log.truncation import Truncation
from broker.model.append_info import AppendInfo
from broker.model.ids import Epoch, Offset
from broker.model.log_errors import CorruptLog, LogDirFailed, OffsetOutOfRange
from broker.wire.chunks import Chunk, FileSlice
from broker.wire.record_batch import BatchHeader, end_offset_of

_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much


class PartitionLog:
    """A log whose segments are loaded; `recovery.load` makes one."""

    def __init__(self, local: LocalLog) -> None:
        """local: this log's alone from now on."""
        self._local = local
        self.topic_partition, self.path = local.topic_partition, local.path
        self.durability, self.snapshots = local.durability, local.snapshots
        self.cleaning = SegmentSwap(local)
        """What the cleaner uses of a log: its inactive segments, and the swap of cleaned ones."""
        self._truncation = Truncation(local)
        self._reads = SegmentReads(local)
        self._dir, self._environment = local.dir, local.environment
        self._segments, self._epochs = local.segments, local.epochs
        self._staging, self._tail = local.staging, local.tail
        self._producer_state = ProducerStateManager(local, self._reads.read_bytes)
        self.producers = self._producer_state.states
        """Who appended what, what is staged included."""
        self.committed = CommittedReads(local, self._producer_state, self.end_offset_of)
        self.parts = (local, self._producer_state)
        """For `broker.log.copying`, which fills a log from another and puts it in its place."""
        self._closed = False

    @property
    def topic_id(self) -> str:
        return self._local.topic_id

    @property
    def log_start_offset(self) -> Offset:
        return self._local.log_start

    @property
    def staged_end_offset(self) -> Offset:
        return self._local.staged_end_offset

    @property
    def log_end_offset(self) -> Offset:
        return self._local.log_end_offset

    @property
    def recovery_point(self) -> Offset:
        return self.durability.recovery_point

    @property
    def dirty(self) -> bool:
        return bool(self._staging.runs)

    @property
    def config(self) -> LogConfig:
        return self._local.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        """Takes effect with the next append, read or check."""
        self._local.config = config

    @property
    def directory(self) -> str:
        """The log.dirs entry that holds it."""
        return self._dir.path

    @property
    def size_bytes(self) -> int:
        """Of the .log files, what is staged left out: what retention.bytes is held against."""
        return sum(segment.size for segment in self._segments)

    @property
    def segment_base_offsets(self) -> list[Offset]:
        return self._segments.bases

    @property
    def has_holes(self) -> bool:
        """Offsets may be missing: it is or was compacted. Once true it stays so."""
        return self._local.has_holes

    def allow_holes(self) -> None:
        """The log is compacted from now on, and later starts will know it."""
        self._local.allow_holes()
        self.cleaning.note_compacted()

    @property
    def latest_epoch(self) -> Epoch:
        return self._epochs.latest

    @property
    def epochs(self) -> list[tuple[Epoch, Offset]]:
        return self._epochs.entries

    @property
    def history(self) -> Sequence[tuple[Epoch, Offset]]:
        return () if self._local.has_holes else self._epochs.entries

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        self._dir.check()
        self._epochs.assign(epoch, start_offset)
        # In the background: a thousand leaderships may begin at once, and only a restart reads the file.
        self.durability.save_epochs_soon()

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        found, end = self._epochs.end_offset_for(epoch, self._local.log_end_offset)
        return found, min(end, self._local.log_end_offset)

    def epoch_at(self, offset: Offset) -> Epoch:
        return self._epochs.epoch_at(offset)

    def append_as_leader(self, batches: memoryview, epoch: Epoch, header: BatchHeader | None = None) -> AppendInfo:
        """Stamp base offsets and epoch in place (batches is writable) and stage. The caller has validated them.

        header: of the only batch, if the caller has it at hand. Raises CorruptBatch, staging nothing, when the
        batches do not fill the view.
        """
        if self._dir.failed is not None:
            raise self._dir.failed
        base = self._local.staged_end_offset
        if header is None:
            staged, newest, _ = stamp_batches(batches, base, epoch)
        else:
            one = stamp_one(batches, base, epoch, header)
            staged, newest = [one], one[2]
        if epoch != self._epochs.latest:
            self._epochs.assign(epoch, base)
        info = self._stage(batches, staged, newest)
        if header is None or header.attributes & TRANSACTION_BITS:
            self._producer_state.append(batches, headers_of(batches))
        elif header.producer_id >= 0:
            last, now = info.last_offset, self._environment.now_ms()
            self.producers.append(
                header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence, base, last, now
            )
        return info

    def append_as_follower(self, batches: memoryview, headers: Sequence[BatchHeader] | None = None) -> AppendInfo:
        """Stage batches that carry their offsets and epochs; they start at `staged_end_offset` and have no holes.

        headers: of all of them in order, if the caller has them at hand. Raises UnexpectedAppendOffset or
        CorruptBatch, staging nothing.
        """
        if self._dir.failed is not None:
            raise self._dir.failed
        local = self._local
        staged, newest, epochs = read_batches(
            self.topic_partition, batches, local.staged_end_offset, self._epochs.latest, local.has_holes, headers
        )
        for epoch, start in epochs:
            if epoch != self._epochs.latest:
                self._epochs.assign(epoch, start)
        info = self._stage(batches, staged, newest)
        self._producer_state.append(batches, headers_of(batches) if headers is None else headers)
        return info

    def _stage(self, view: memoryview, batches: list[StagedBatch], newest: int) -> AppendInfo:
        size = len(view)
        base, last = batches[0][0], batches[-1][1]
        local = self._local
        config = local.config
        staging = self._staging
        now_ms = self._environment.now_ms
        if staging.must_roll(size, newest, last, config, now_ms, self._segments.active.indexes.by_offset):
            # Where a compacted log skips offsets the hole is in a segment, not between two: see segment_recovery.
            start = local.staged_end_offset if last - local.staged_end_offset <= INT32_MAX else base
            snapshot = local.snapshot_at_roll(start) if local.snapshot_at_roll is not None else None
            jitter_ms = randrange(config.jitter_ms) if config.jitter_ms else 0
            staging.begin_segment(start, snapshot, now_ms(), jitter_ms)
        staging.add(view, batches, size)
        local.staged_end_offset = last + 1
        return _new(AppendInfo, (base, last, newest, size, len(batches)))

    def write(self) -> None:
        """Put all staged batches in the file: one system call, one more per segment rolled.

        Raises LogDirFailed; CorruptLog where the flush that follows a roll meets damage in an older segment, and for
        any error that nothing else is known of. What is not written then is not staged any more.
        """
        runs = self._staging.runs
        if not runs:
            return
        self._dir.check()
        local = self._local
        tail = self._tail
        try:
            self.durability.epoch_file.save(sync=False)
            for run in runs:
                if run.roll_at is not None:
                    local.roll(run.roll_at, run.snapshot)
                segment = self._segments.active
                segment.append(run.views)
                tail.extend(run.batches, segment.size)
                segment.add_all(run.batches)
                if run.aborted:
                    local.index_aborted(segment.base_offset, run.aborted)
                local.log_end_offset = run.batches[-1][1] + 1
            self._dir.note_end(self.topic_partition, local.log_end_offset)
        except OSError as error:
            local.drop_staged()
            raise self._dir.fail(error) from error
        except Exception as broken_off:
            local.drop_staged()
            if isinstance(broken_off, CorruptLog):
                raise
            # Nobody knows what of it is in the file: the next batch would stand behind it, or over its beginning.
            raise CorruptLog(self.topic_partition, local.path, f"a write broke off, {broken_off!r}") from broken_off
        runs.clear()
        if local.log_end_offset - self.durability.recovery_point >= local.config.flush_messages:
            self.flush()

    def discard_staged(self) -> None:
        """Forget what is staged; the views were the caller's memory, which is used again."""
        if self._staging.runs:
            self._local.drop_staged()

    def read(self, offset: Offset, max_bytes: int, limit_offset: Offset, min_one_batch: bool) -> Chunk:
        """Whole batches from the one that holds `offset`, none at or beyond limit_offset; b"" when there is nothing.

        Raises OffsetOutOfRange when offset is below log_start_offset or past what is staged; CorruptLog; LogDirFailed;
        NoDescriptorFree.
        """
        local = self._local
        if offset < local.log_start or offset > local.staged_end_offset:
            raise OffsetOutOfRange(self.topic_partition, offset, local.log_start, local.staged_end_offset)
        written = local.log_end_offset
        limit = min(limit_offset, written)
        if offset >= limit:
            return b""
        if self._dir.failed is not None:
            raise self._dir.failed
        active = self._segments.active
        found = self._tail.find(offset, max_bytes, limit, written, active.size, min_one_batch)
        if found is not None:
            return FileSlice(active.log_file.fd, *found) if found[1] else b""
        return self._reads.read(offset, max_bytes, limit, min_one_batch)

    def read_bytes(self, offset: Offset, max_bytes: int, limit_offset: Offset, min_one_batch: bool) -> memoryview:
        """As `read`, with the bytes read; leaves no older segment open that was not open. Raises as `read`."""
        with self._environment.open_segments.briefly():
            return self._reads.bytes_of(self.read(offset, max_bytes, limit_offset, min_one_batch))

    def end_offset_of(self, chunk: Chunk) -> Offset:
        """Offset after the last batch of a non-empty chunk from `read`; of a file little but headers is read.

        Raises CorruptBatch where the chunk's bytes are no longer whole consecutive batches; OSError.
        """
        return end_offset_in_file(*chunk) if isinstance(chunk, FileSlice) else end_offset_of(memoryview(chunk))

    def forget_checked(self) -> None:
        """Check again, at its next read, everything that was written or checked before; damage is CorruptLog then."""
        self._reads.forget_checked()

    def read_failed(self, error: OSError) -> LogDirFailed:
        """Reading a chunk from its file failed with this error: the log dir goes offline. Returns what to raise."""
        return self._dir.fail(error)

    def newest_timestamp(self) -> int:
        """The largest timestamp that a written batch claims, −1 without any. Raises as `read`."""
        return self._reads.newest_timestamp()

    def offset_for_timestamp(self, timestamp: int, limit_offset: Offset) -> tuple[int, Offset, Epoch] | None:
        """(timestamp, offset, epoch) of the first record at or after timestamp below limit_offset. Raises as `read`."""
        return self._reads.offset_for_timestamp(timestamp, limit_offset)

    def truncate_to(self, offset: Offset) -> None:
        """Drop what is staged, and every batch that ends at or beyond `offset`.

        Batches stay whole: when offset lies inside of one, the end becomes its base offset; in a hole, the hole's.
        Raises LogDirFailed, CorruptLog; ProducersUnread, with the log cut, where its producers would have to be read.
        """
        before = self._local.staged_end_offset
        self.cleaning.before_cut(offset)
        self._truncation.truncate_to(offset)
        self.cleaning.after_cut(offset)
        if self._local.staged_end_offset != before:
            self._producer_state.cut()

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Throw everything away; the log is empty and begins at `offset`. Raises as `truncate_to`."""
        self.cleaning.before_cut(-1)
        self._truncation.truncate_fully_and_start_at(offset)
        self.cleaning.after_cut(0)
        # Producers of records below the new beginning are forgotten too: this log does not hold their later batches.
        self.producers.clear(offset)

    def maybe_raise_log_start(self, offset: Offset) -> bool:
        """Let the log begin at `offset`, ≤ the end; whole segments below it go with the next retention check."""
        return self._truncation.maybe_raise_log_start(offset)

    def delete_old_segments(self, wall_ms: float, high_watermark: Offset) -> int:
        """Remove the oldest segments that retention no longer wants, none during a swap; returns how many.

        Raises LogDirFailed, CorruptLog, NoDescriptorFree.
        """
        return 0 if self.cleaning.under_way else self._truncation.delete_old_segments(wall_ms, high_watermark)

    def lacks_values_below(self, offset: Offset) -> bool:
        """Whether records below offset may have been cleaned away in favour of ones at or beyond it."""
        return self.cleaning.lacks_values_below(offset)

    def flush(self) -> None:
        """Make everything written durable and move the recovery point there. Raises LogDirFailed, CorruptLog."""
        self._dir.check()
        if self.durability.is_due(self._local.log_end_offset):
            try:
                self.durability.flush(self._local.log_end_offset, self.topic_id)
            except OSError as error:
                self._local.fail(error)

    def flush_in_background(self) -> None:
        """Begin a flush of everything written; the recovery point moves when it is done. Raises as `flush`."""
        self._dir.check()
        try:
            self.durability.flush_in_background(self._local.log_end_offset, self.topic_id)
        except OSError as error:
            self._local.fail(error)

    def commit(self, then: Callable[[], None]) -> None:
        """Begin a flush beside others in the same dir, then call `then` on the loop; nothing while one is under way.

        Raises as `flush`; when the flush itself fails, `then` is not called and the dir is offline.
        """
        self._dir.check()
        try:
            self.durability.commit(self._local.log_end_offset, self.topic_id, then)
        except OSError as error:
            self._local.fail(error)

    def set_topic_id(self, topic_id: str) -> None:
        """Write partition.metadata of a log that had none. Raises ValueError when it has another id."""
        self._local.set_topic_id(topic_id)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """high_watermark, or where the first transaction begins whose marker is not below it, if the log has that."""
        if not self.producers.transactions:
            return high_watermark
        return self._producer_state.last_stable_offset(high_watermark)

    def aborted_transactions(self, offset: Offset, chunk: Chunk) -> Sequence[tuple[int, Offset]]:
        """As `Log.aborted_transactions` of the runtime's ports."""
        return self.committed.aborted_in(offset, chunk) if self._local.aborted else ()

    def restore_producers(self) -> None:
        """Rebuild `producers` from the log. Raises LogDirFailed, CorruptLog, ProducersUnread: it is in part then."""
        self._producer_state.restore()

    def snapshot_producers(self) -> None:
        """Leave a snapshot of `producers` at the log's end, for a quick start. Raises LogDirFailed."""
        self._producer_state.leave_snapshot()

    def close(self, clean: bool) -> None:
        """Close all files; clean: everything is flushed and the indexes have their exact sizes first.

        Raises LogDirFailed, and CorruptLog where it cannot be closed clean: then nothing is closed yet.
        """
        if self._closed:
            return
        if clean and self._dir.failed is None:
            self.write()
            self.committed.settle_for_good()
            try:
                self.durability.flush_for_good(self._local.log_end_offset, self.topic_id)
            except OSError as error:
                self._local.fail(error)
        self._closed = True
        self.cleaning.abandon_swap()
        self._local.close_files()
