"""Puts a cleaned segment in the place of those that it was made from, such that a crash leaves the one or the others.

Names say how far a swap came, as in Kafka (whose recovery finishes our swaps and ours its):
1. `.cleaned`: durable, and of no account: removed at the next start. A recovery point beyond all of it is on disk
   before step 2.
2. `.swap`: from here on a start finishes the swap. Durable before anything else is touched.
3. the old segments' files are `.deleted`. Durable before step 4: else the new file and an old one that it replaces
   could both be there under their final names.
4. `.swap` goes, the .index's first and the .log's last: until then a start knows that there is work left.
Renames are done on the loop's thread, where all other changes of the log are; what waits for the disk is not. Whoever
shortens the log in between calls `before_cut` first: the swap is taken back before step 3, finished at once after it.
Source: kafka LocalLog.replaceSegments, LogLoader (removeTempFilesAndCollectSwapFiles).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence

from broker.log.files.batch_scan import BadBatch, walk
from broker.log.files.checkpoints import fsync_dir
from broker.log.files.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SUFFIXES,
    SWAP_SUFFIX,
    TXN_INDEX_SUFFIX,
    discard_cleaned,
    hidden_base,
    parse_segment_file,
    remove_if_there,
    segment_path,
)
from broker.log.local_log import LocalLog
from broker.log.segments.segment import Segment
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog

_logger = logging.getLogger(__name__)

Swapped = Callable[[bool], None]


class _Swap:
    """One swap under way. hidden: step 3 is done, there is no way back."""

    __slots__ = ("base", "done", "hidden", "old")

    def __init__(self, old: Sequence[Segment], done: Swapped) -> None:
        self.old = old
        self.base = old[0].base_offset
        self.done = done
        self.hidden = False


class SegmentSwap:
    """Replaces inactive segments of one log by cleaned ones, and knows up to where the log is clean."""

    __slots__ = ("_log", "_superseded_from", "_swap", "cuts")

    def __init__(self, log: LocalLog) -> None:
        self.cuts = 0
        """Number of cuts, and of the deletion: a cleaning that began before the latest one is void."""
        self._log = log
        self._swap: _Swap | None = None
        self._superseded_from: Offset = 0
        """An unfinished cleaning may have removed records in favour of newer ones of their keys below this offset."""

    @property
    def under_way(self) -> bool:
        """Some segments are being replaced just now."""
        return self._swap is not None

    @property
    def cleaned_until(self) -> Offset | None:
        """Where its dirty part begins, as checkpointed; None when nothing says so."""
        log = self._log
        return log.dir.cleaner_offsets.get(log.topic_partition)

    def note_cleaned(self, offset: Offset) -> None:
        """Checkpoint that everything below is clean."""
        log = self._log
        log.dir.cleaner_offsets.put(log.topic_partition, offset)

        def done(error: OSError | None) -> None:
            if error is not None:
                log.dir.fail(error)

        log.environment.background(log.dir.cleaner_offsets.job(), done)

    def note_compacted(self) -> None:
        """It is compacted from now on, and a start will know it."""
        log = self._log
        if log.topic_partition not in log.dir.cleaner_offsets:
            self.note_cleaned(log.log_start)

    def report_io_error(self, error: OSError) -> None:
        """A cleaning met it in this log's dir: as bad as if it had happened here."""
        self._log.dir.fail(error)

    def inactive_segments(self, below: Offset) -> list[Segment]:
        """Segments that end at or below this offset, the oldest first; never the active one."""
        segments = self._log.segments
        return [segments.at(n) for n in range(len(segments) - 1) if segments.at(n + 1).base_offset <= below]

    def swap_in(self, old: Sequence[Segment], done: Swapped) -> bool:
        """Begin to replace these neighbours by the `.cleaned` segment with the first one's base.

        False, the `.cleaned` files gone, when they are no longer this log's inactive segments. Else done(True) follows
        once the new segment is in place, or done(False) when the log is shortened, closed or deleted first. Raises
        LogDirFailed; CorruptLog, with none of them held.
        """
        log = self._log
        log.dir.check()
        base = old[0].base_offset
        place = log.segments.floor(base)
        there = [log.segments.at(n) for n in range(place, min(place + len(old), len(log.segments) - 1))]
        try:
            if self.under_way or len(there) != len(old) or any(a is not b for a, b in zip(there, old, strict=True)):
                discard_cleaned(log.path, base)
                return False
            for segment in old:
                # Reads go on from the descriptors when the names are gone.
                segment.open()
                segment.hold_indexes()
                log.aborted.hold(segment.base_offset)
                log.segments.hold_open(segment)
        except OSError as error:
            log.fail(error)
        except CorruptLog:
            self._let_go(old)
            raise
        self._swap = swap = _Swap(old, done)
        # First of all: the hole that this may leave before the next segment is believed after a power failure only
        # below a recovery point that is on disk.
        log.environment.background(log.dir.recovery_points_job(), lambda error: self._begin(swap, error))
        return True

    def supersedes_from(self, offset: Offset) -> None:
        """A cleaning is about to remove records in favour of newer ones below offset."""
        self._superseded_from = max(self._superseded_from, offset)

    def lacks_values_below(self, offset: Offset) -> bool:
        """Whether records below offset may have been cleaned away in favour of ones at or beyond it."""
        return max(self.cleaned_until or 0, self._superseded_from) > offset

    def hold_off(self) -> None:
        """The log is about to be copied: a cleaning that has begun is void, and no swap is under way. Raises
        LogDirFailed.
        """
        self.cuts += 1
        self._settle()

    def take_over(self, before: SegmentSwap) -> None:
        """This log takes another's place, as its copy: what is known of cleanings of that one holds here."""
        self._superseded_from = before._superseded_from

    def call_off(self) -> None:
        """The log is about to be deleted: no segment of it may be replaced any more."""
        self.cuts += 1
        self.abandon_swap()

    def abandon_swap(self) -> None:
        """Leave the files as they are: they go with a deleted log, or the next start finishes the swap."""
        swap, self._swap = self._swap, None
        if swap is not None:
            self._release(swap)
            swap.done(False)

    def _release(self, swap: _Swap) -> None:
        if not swap.hidden:
            self._let_go(swap.old)

    def _let_go(self, segments: Sequence[Segment]) -> None:
        """The segments' names stay: they may be closed again, whether they were held or not."""
        for segment in segments:
            segment.let_indexes_go()
            self._log.aborted.release(segment.base_offset)
            self._log.segments.release(segment)

    def _begin(self, swap: _Swap, error: OSError | None) -> None:
        if self._step(swap, error, lambda: self._rename(swap.base, CLEANED_SUFFIX, SWAP_SUFFIX)):
            self._log.environment.background(self._sync_names, lambda error: self._hide_old(swap, error))

    def _hide_old(self, swap: _Swap, error: OSError | None) -> None:
        def hide() -> None:
            for segment in swap.old:
                segment.rename(DELETED_SUFFIX)

        if self._step(swap, error, hide):
            swap.hidden = True
            self._log.environment.background(self._sync_names, lambda error: self._take_in(swap, error))

    def _take_in(self, swap: _Swap, error: OSError | None) -> None:
        if self._step(swap, error, lambda: self._finish(swap)):
            swap.done(True)

    def _step(self, swap: _Swap, error: OSError | None, work: Callable[[], None]) -> bool:
        """Do what comes after something in the background, which ended with error; True when it was done.

        False where the swap was given up meanwhile, or is now, for the dir has failed.
        """
        if self._swap is not swap:
            return False
        log_dir = self._log.dir
        try:
            if error is not None:
                raise error
            if log_dir.failed is None:
                work()
        except OSError as failure:
            log_dir.fail(failure)
        if log_dir.failed is not None:
            self.abandon_swap()
            return False
        return True

    def _finish(self, swap: _Swap) -> None:
        """Raises OSError, with the swap still under way: the caller gives it up, which notifies its cleaning."""
        log = self._log
        self._rename(swap.base, SWAP_SUFFIX, "")
        new = Segment(log.topic_partition, log.path, swap.base, log.config.index_interval_bytes, gaps=True)
        log.segments.replace(swap.old, new)
        for segment in swap.old:
            log.aborted.forget(segment.base_offset)
        log.aborted.note(swap.base)
        for segment in swap.old:
            log.pending_deletions.add_hidden(segment, log.config.file_delete_delay_ms)
            if segment.base_offset != swap.base:
                remove_if_there(segment_path(log.path, segment.base_offset, SNAPSHOT_SUFFIX))
        self._swap = None

    def _rename(self, base: Offset, before: str, after: str) -> None:
        # The .log's name changes first to .swap and last from it. Half of the files with either name are no harm: while
        # a .cleaned one is left the swap has not begun, and without a .log.swap indexes are all that is left to rename.
        # The .index follows: Kafka's start removes what already has its final name, and only for want of that file
        # does it derive the others again.
        suffixes = SUFFIXES if after == SWAP_SUFFIX else (*SUFFIXES[1:], SUFFIXES[0])
        for suffix in suffixes:
            path = segment_path(self._log.path, base, suffix)
            if suffix == TXN_INDEX_SUFFIX and not os.path.exists(path + before):
                continue  # few segments have aborted transactions
            os.rename(path + before, path + after)

    def _sync_names(self) -> None:
        path = self._log.path
        try:
            fsync_dir(path)
        except FileNotFoundError:
            # The partition was deleted meanwhile; `abandon_swap` was called, or is about to be.
            if os.path.exists(os.path.dirname(path)):
                return
            raise

    # Around a cut of the log

    def before_cut(self, offset: Offset) -> None:
        """Everything at or beyond offset is about to go: no swap is under way then. Raises LogDirFailed."""
        if offset < self._log.staged_end_offset:
            # Also a cleaning that swaps nothing in just now: segments change and stay the same objects.
            self.cuts += 1
        self._settle()

    def after_cut(self, offset: Offset) -> None:
        """Everything at or beyond offset is gone."""
        self._superseded_from = min(self._superseded_from, offset)

    def _settle(self) -> None:
        """Take a swap back before step 3, finish it at once from there on. Raises LogDirFailed."""
        log = self._log
        swap = self._swap
        if swap is None:
            return
        log.dir.check()
        try:
            if swap.hidden:
                fsync_dir(log.path)
                self._finish(swap)
            else:
                self._release(swap)
                discard_cleaned(log.path, swap.base)
                for suffix in SUFFIXES:
                    remove_if_there(segment_path(log.path, swap.base, suffix) + SWAP_SUFFIX)
                # A start after a crash must not swap it in behind what is cut now.
                fsync_dir(log.path)
                self._swap = None
        except OSError as error:
            failed = log.dir.fail(error)
            self.abandon_swap()
            raise failed from error
        # Either way what else was cleaned is of no use, and must not be swapped in before the cut is made.
        swap.done(False)


def swapped_bases(names: Sequence[str]) -> list[Offset]:
    """Bases of the segments whose swap was interrupted, void ones among them."""
    return [_base(name, SWAP_SUFFIX) for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]


def finish_swaps(topic_partition: TopicPartition, path: str, names: list[str]) -> bool:
    """At a start: bring interrupted swaps in this folder to an end, remove what had not become one.

    names: all files of the folder but the segments' own. True when there was anything to do: the names have changed.

    A `.swap` file counts unless a `.cleaned` one with the same or a smaller base is left: then not all of its files had
    the name yet. It counts all the same once an old segment is hidden: the `.cleaned` one is another cleaning's then,
    and what the swap replaces may be nowhere else. Whatever its batches cover goes, then it takes its place. Raises
    CorruptLog, OSError.
    """
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    hidden = [base for name in names if (base := hidden_base(name)) is not None]
    begun = min((_base(name, CLEANED_SUFFIX) for name in cleaned), default=None)
    swaps: list[str] = []
    for name in names:
        if name.endswith(SWAP_SUFFIX):
            base = _base(name, SWAP_SUFFIX)
            if begun is not None and base >= begun and not any(old >= base for old in hidden):
                cleaned.append(name)
            else:
                swaps.append(name)
    # The names that say that a swap is void go last, the swap's own first.
    for name in sorted(cleaned, key=lambda name: name.endswith(CLEANED_SUFFIX)):
        os.unlink(f"{path}/{name}")
    if not swaps:
        return bool(cleaned)
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    ranges = [(_base(name, SWAP_SUFFIX), _end_of(topic_partition, f"{path}/{name}")) for name in logs]
    if ranges:
        first, end = min(base for base, _ in ranges), max(end for _, end in ranges)
        for name in os.listdir(path):
            found = parse_segment_file(name)
            # Producer snapshots stay true: compaction changes no offset. An index of aborted transactions may have been
            # given its name already: then it is the new one.
            renamed = found is not None and found[1] == TXN_INDEX_SUFFIX and name + SWAP_SUFFIX not in names
            if found is not None and first <= found[0] < end and found[1] != SNAPSHOT_SUFFIX and not renamed:
                os.unlink(f"{path}/{name}")
        fsync_dir(path)
    for name in sorted(swaps, key=lambda name: (name in logs, not name.endswith(INDEX_SUFFIX + SWAP_SUFFIX))):
        os.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
    fsync_dir(path)
    _logger.info("%s: finished an interrupted swap of %s", topic_partition, ", ".join(sorted(logs)) or "indexes")
    return True


def _base(name: str, suffix: str) -> Offset:
    found = parse_segment_file(name.removesuffix(suffix))
    # A name that is no segment's voids no swap and is in none.
    return found[0] if found is not None else 2**63 - 1


def _end_of(tp: TopicPartition, path: str) -> Offset:
    """Offset after the last batch of a `.log.swap`; past its base in any case, so that an empty one replaces too."""
    end = _base(os.path.basename(path), SWAP_SUFFIX) + 1
    fd = os.open(path, os.O_RDONLY)
    try:
        for batch in walk(fd, 0, os.fstat(fd).st_size):
            end = batch.last_offset + 1
    except BadBatch as bad:
        raise CorruptLog(tp, path, str(bad)) from bad
    finally:
        os.close(fd)
    return end
