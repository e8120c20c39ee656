"""Opening a log that is on disk, after a clean stop or a crash.

Clean: nothing is scanned; the active segment is read, and checked, from its last index entry on. Unclean: from the
segment of the recovery point on every batch is checked (header, CRC32C, offsets without a hole) and the log is cut at
the first that fails; older segments must meet end to base. Whatever is kept forms one gapless run of valid batches.
Indexes and leader epochs of the scanned part come from the batches, not from their files; where a batch that is read
contradicts the file of epochs, all epochs do, and the stop counts as unclean. A log that was closed clean and is found
damaged is recovered as after an unclean stop.

What a power failure can leave is cut; what it cannot is damage: bad bytes below the checkpointed recovery point, which
an fsync vouched for, with valid batches behind them. Then nothing is touched and the log stays offline (CorruptLog),
until no committed record depends on this copy and `repair` may cut it where the damage begins; the leader has the rest.
`RecoveryReport` says whether the log ends below what was known to be there, for leader elections.
Source: kafka LogLoader, LogSegment.recover; L6 and R12 of docs/guarantees.md.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from broker.log.config import LogConfig
from broker.log.environment import Environment
from broker.log.epochs.cache import EpochCache
from broker.log.files import checkpoints
from broker.log.files.log_dir import LogDir
from broker.log.files.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    set_aside,
    split_names,
)
from broker.log.local_log import LocalLog
from broker.log.log import PartitionLog
from broker.log.recovery.aborted_recovery import find_aborted
from broker.log.recovery.epoch_derivation import doubt
from broker.log.recovery.epoch_recovery import derive_epochs, fill_epochs, read_epochs
from broker.log.recovery.segment_recovery import Damage, Holes, Scan, remove, scan
from broker.log.segments.log_segments import Segments, closed_on_failure
from broker.log.segments.removal import remove_files
from broker.log.segments.segment import Segment
from broker.log.swap import finish_swaps, swapped_bases
from broker.model.ids import Epoch, Offset, TopicPartition
from broker.model.log_errors import CorruptLog

_logger = logging.getLogger(__name__)

_INDEX_SUFFIXES = frozenset({INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX})


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening a log found and did. Offsets kept: [log_start, leo)."""

    topic_partition: TopicPartition
    log_start: Offset
    leo: Offset
    clean: bool
    """The stop before was a clean one, and nothing contradicted that."""
    cut_bytes: int = 0
    segments_removed: int = 0
    corrupt_middle: bool = False
    """Valid batches followed the first bad one: damage, not a torn tail."""
    reason: str = ""
    """What was wrong, "" when nothing was."""
    recovery_point: Offset = 0
    """As checkpointed before the start: what lay below had been fsynced."""
    high_watermark: Offset = 0
    """As checkpointed before the start: what lay below was on the whole ISR then."""
    known_epoch: Epoch = -1
    """The newest that the file of epochs had: the replica may have led in it, though no batch of it is left."""

    @property
    def cut_below(self) -> Offset | None:
        """Where the log now ends, if that is below what was known to be replicated or fsynced; None otherwise.

        Such a stop was unclean, whatever the reason: others may hold committed records that this replica has lost. The
        converse does not hold: checkpoints are seconds old, so an unsynced tail can be lost without a trace here.
        """
        return self.leo if self.leo < max(self.recovery_point, self.high_watermark) else None


def load(
    topic_partition: TopicPartition,
    log_dir: LogDir,
    path: str,
    config: LogConfig,
    environment: Environment,
    *,
    clean: bool,
    recovery_point: Offset,
    log_start: Offset,
    high_watermark: Offset = 0,
    repair: bool = False,
    has_holes: bool = False,
    host_lived: bool = True,
    damaged: bool = False,
    point_is_lost: bool = False,
) -> tuple[PartitionLog, RecoveryReport]:
    """The log in folder `path`. recovery_point, log_start, high_watermark: as checkpointed, 0 when they were not.

    Raises CorruptLog when it is damaged, or a file that cannot be derived from the batches is unreadable; with repair
    it is cut where the damage begins, and CorruptLog says that nothing can be kept. OSError. has_holes: it was
    compacted once, whatever its config says now. host_lived: there was no power failure, so every rename took effect.
    damaged: the log was found damaged once; what looks like a compaction hole may be that damage. point_is_lost: a
    recovery point may have been checkpointed, and its checkpoint is lost.
    """
    known = _Known(
        clean=clean,
        recovery_point=recovery_point,
        log_start=log_start,
        high_watermark=high_watermark,
        has_holes=has_holes or config.may_have_holes,
        host_lived=host_lived,
        damaged=damaged,
        point_is_lost=point_is_lost,
    )
    return _Loader(topic_partition, log_dir, path, config, environment, known, repair).load()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known of a log before its files are read; the names are `load`'s."""

    clean: bool
    recovery_point: Offset
    log_start: Offset
    high_watermark: Offset
    has_holes: bool
    host_lived: bool
    damaged: bool
    point_is_lost: bool

    @property
    def until(self) -> Offset:
        """Up to here a checkpoint knew of records."""
        return max(self.recovery_point, self.high_watermark)


@dataclass(frozen=True, slots=True)
class _Loader:
    """Opens one log; its methods are the steps of `load`, in their order."""

    topic_partition: TopicPartition
    log_dir: LogDir
    path: str
    config: LogConfig
    environment: Environment
    known: _Known
    repair: bool

    def load(self) -> tuple[PartitionLog, RecoveryReport]:
        tp, path, known = self.topic_partition, self.path, self.known
        topic_id = self._read_topic_id()
        stems, others, swapped = self._finish_interrupted_work()
        # All names have 20 digits, so that their text order is the order of the numbers.
        bases = [int(stem) for stem in sorted(stems)]
        entries = read_epochs(path)
        _check_start(tp, path, bases, entries, known.log_start, known.until, known.host_lived)
        new = not bases
        segments = self._open_segments(bases)
        with closed_on_failure(segments):
            state, recovery_point = self._find_end(segments, entries, new)
            self._check_end(state)
            start = max(known.log_start, state.segments.first.base_offset)
            self._settle_epochs(state, bases, entries, start)
            was_clean = known.clean and not state.reason
            # A file that a batch contradicts is of another time.
            known_epoch = max((epoch for epoch, _ in entries or ()), default=-1) if not state.doubt else -1
            report = self._report(state, start, was_clean, known_epoch)
            log = PartitionLog(
                LocalLog(
                    tp,
                    self.log_dir,
                    path,
                    topic_id,
                    self.config,
                    self.environment,
                    state.segments,
                    leo=state.leo,
                    log_start_offset=start,
                    recovery_point=state.leo if was_clean else min(recovery_point, state.leo),
                    epochs=state.epochs,
                    new=new or not was_clean,
                    has_holes=known.has_holes,
                    aborted=find_aborted(path, self.environment.open_segments, state, others, swapped),
                )
            )
            if log.snapshots.remove_above(state.leo, others):
                checkpoints.fsync_dir(path)
        return log, report

    def _read_topic_id(self) -> str:
        try:
            return checkpoints.read_partition_metadata(f"{self.path}/{checkpoints.PARTITION_METADATA}")
        except ValueError as error:
            raise CorruptLog(self.topic_partition, self.path, str(error)) from error

    def _finish_interrupted_work(self) -> tuple[set[str], list[str], list[Offset]]:
        """Stems of the segments' names, and the names of all other files, once no swap and no deletion is half done.

        And the bases of the segments that an interrupted swap may have put in.
        """
        stems, others = split_names(os.listdir(self.path))
        swapped = swapped_bases(others)
        if finish_swaps(self.topic_partition, self.path, others):
            stems, others = split_names(os.listdir(self.path))
        _tidy(self.topic_partition, self.path, stems, others, self.environment)
        return stems, others, swapped

    def _open_segments(self, bases: list[Offset]) -> Segments:
        tp, path, has_holes = self.topic_partition, self.path, self.known.has_holes
        interval_bytes = self.config.index_interval_bytes
        segments = Segments(bases, lambda base: Segment(tp, path, base, interval_bytes, has_holes))
        if not bases:
            segments.add(self._new_segment())
        return segments

    def _new_segment(self) -> Segment:
        """An empty one at the log start."""
        return Segment.create(
            self.topic_partition,
            self.path,
            self.known.log_start,
            self.config.index_interval_bytes,
            self.known.has_holes,
            self.environment.now_ms(),
        )

    def _find_end(
        self, segments: Segments, entries: list[tuple[Epoch, Offset]] | None, new: bool
    ) -> tuple[Scan, Offset]:
        """What is kept, and the recovery point: lower than known where the last segment of a clean stop is damaged."""
        recovery_point = self.known.recovery_point
        reason = ""
        if self.known.clean and (entries is not None or new):
            try:
                return _read_end(segments, EpochCache(entries or ())), recovery_point
            except CorruptLog as error:
                reason = str(error)
                recovery_point = min(recovery_point, segments.active.base_offset)
        state = self._scan(segments, entries, recovery_point)
        state.reason = state.reason or reason
        return state, recovery_point

    def _scan(self, segments: Segments, entries: list[tuple[Epoch, Offset]] | None, recovery_point: Offset) -> Scan:
        tp, known = self.topic_partition, self.known
        # A power failure can take the indexes of a segment that was finished when all of it was durable.
        with_the_end_before = not known.host_lived and self.config.flushes_between_rolls
        return scan(
            tp,
            list(segments),
            self.config,
            known.has_holes,
            max(recovery_point - with_the_end_before, 0),
            entries,
            Damage(tp, known.recovery_point, self.repair, self.config.group_commit),
            Holes(
                old=known.host_lived and not known.damaged,
                below=max(known.recovery_point, self.log_dir.cleaner_offsets.get(tp) or 0),
                judged=self.repair or not known.point_is_lost,
            ),
        )

    def _check_end(self, state: Scan) -> None:
        """Where the log ends below its start, begin it anew there; where it ends below what was known, say so.

        Raises CorruptLog where it is the checkpointed start that is damaged.
        """
        known = self.known
        if state.leo < known.log_start:
            # A start goes to disk behind a watermark as high: without one it is the checkpoint that is damaged.
            if known.log_start > known.until and not self.repair:
                raise CorruptLog(
                    self.topic_partition,
                    self.path,
                    f"it ends at {state.leo}; its checkpointed start is {known.log_start}, which it never reached "
                    f"(recovery point {known.recovery_point}, high watermark {known.high_watermark})",
                )
            self._restart(state)
        if state.leo < known.until and not state.reason:
            state.reason = f"log ends at {state.leo}, below {known.until}, up to where a checkpoint knew of records"

    def _restart(self, state: Scan) -> None:
        """The log ends below where it is known to start: nothing in it may be shown. Begin anew at the log start.

        The oldest segment is removed once the new one is there: without any, the next start would take the log for
        lost.
        """
        log_start = self.known.log_start
        state.reason = state.reason or f"log ends at {state.leo}, below its start offset {log_start}"
        oldest, *newer = state.segments
        remove(state, newer)
        state.segments = Segments()
        state.segments.add(self._new_segment())
        checkpoints.fsync_dir(self.path)
        remove(state, [oldest])
        state.leo = log_start
        state.epochs.clear()

    def _settle_epochs(
        self, state: Scan, bases: list[Offset], entries: list[tuple[Epoch, Offset]] | None, start: Offset
    ) -> None:
        """Leader epochs of [start, LEO): of their file, and of the batches where the file is wrong or lacks some."""
        known = self.known
        before = state.epochs.entries
        if state.doubt and derive_epochs(state, start):
            # What the file says of the log's beginning is not believed either.
            _check_start(self.topic_partition, self.path, bases, None, known.log_start, known.until, known.host_lived)
            state.reason = "; ".join(filter(None, (state.reason, f"{state.doubt}: derived from the batches")))
        fill_epochs(state, start)
        state.epochs.truncate_from_end(state.leo)
        state.epochs.truncate_from_start(start)
        state.epochs.changed = state.epochs.entries != before or before != entries

    def _report(self, state: Scan, start: Offset, was_clean: bool, known_epoch: Epoch) -> RecoveryReport:
        if state.reason:
            _logger.warning(
                "%s: %s; %d bytes cut, %d segments removed, log now [%d, %d)",
                self.topic_partition, state.reason, state.cut_bytes, state.segments_removed, start, state.leo,
            )  # fmt: skip
        return RecoveryReport(
            self.topic_partition,
            start,
            state.leo,
            was_clean,
            state.cut_bytes,
            state.segments_removed,
            state.corrupt_middle,
            state.reason,
            self.known.recovery_point,
            self.known.high_watermark,
            known_epoch,
        )


def _check_start(
    tp: TopicPartition,
    path: str,
    bases: list[Offset],
    entries: list[tuple[Epoch, Offset]] | None,
    log_start: Offset,
    known_until: Offset,
    host_lived: bool,
) -> None:
    """Raise CorruptLog when the oldest segments are missing, or may be. This cannot be repaired: a log that begins too
    late would, as leader, make every follower delete what it lacks.

    Before retention takes a segment, the first leader epoch in the file is raised beyond it. Where that file is gone
    too, only the checkpointed start is left as evidence, and retention may have gone beyond it: the replica is then
    fetched anew. A power failure can take the file and leave what retention did: after one, the file's absence proves
    nothing.
    """
    if not bases and (entries or known_until > log_start):
        raise CorruptLog(tp, path, f"no segment is there, though records below offset {known_until} were")
    if bases and entries and bases[0] > max(log_start, entries[0][1]):
        raise CorruptLog(
            tp, path, f"the first segment begins at {bases[0]}, the log at {max(log_start, entries[0][1])}"
        )
    if host_lived and bases and entries is None and bases[0] > log_start:
        raise CorruptLog(
            tp,
            path,
            f"the first segment begins at {bases[0]}, the checkpointed log start is {log_start}, and no readable "
            f"{checkpoints.LEADER_EPOCHS} says whether what lies between was deleted",
        )


def _tidy(tp: TopicPartition, path: str, stems: set[str], others: list[str], environment: Environment) -> None:
    """Remove leftovers of deletions and interrupted work; files that may be large are removed in the background."""
    for name in others:
        stem, suffix = name[:20], name[20:]
        if name.endswith(DELETED_SUFFIX):
            remove_files(environment, [set_aside(f"{path}/{name}")])
        elif name.endswith(".tmp"):
            os.unlink(f"{path}/{name}")
        elif suffix in _INDEX_SUFFIXES and stem not in stems:
            _logger.warning("%s: %s has no segment, removed", tp, name)
            os.unlink(f"{path}/{name}")


def _read_end(segments: Segments, epochs: EpochCache) -> Scan:
    """Where a log ends that was closed in order. Raises CorruptLog, OSError.

    Appends go on from there: the batches from the last index entry on are checked.
    """
    last = segments.active.last_batch(verify_crc=True)
    if last is not None:
        return Scan(segments, last.last_offset + 1, epochs, clean=True, doubt=doubt(epochs, last))
    for place in reversed(range(len(segments) - 1)):
        segment = segments.at(place)
        if segment.size:
            with segment.briefly_open():
                last = segment.last_batch()
            break
    return Scan(segments, segments.active.base_offset, epochs, clean=True, doubt=doubt(epochs, last))
