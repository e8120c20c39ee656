"""Opening a log that is on disk, after a clean stop or a crash.

Clean: nothing is scanned; the active segment is read, and checked, from its last index entry on. Unclean: from the
segment of the recovery point on every batch is checked (header, CRC32C, offsets without a hole) and the log is cut at
the first that fails; older segments must meet end to base. Whatever is kept forms one gapless run of valid batches.
Indexes and leader epochs of the scanned part come from the batches, not from their files; where a batch that is read
contradicts the file of epochs, all of them do, and the stop was not clean.
A log that says clean and is found damaged is recovered as an unclean one.

What a power failure can leave is cut; what it cannot is damage: bad bytes below the checkpointed recovery point, which
an fsync vouched for, with valid batches behind them. Then nothing is touched and the log stays offline (CorruptLog),
until nothing rests on this copy and `mend` may cut it where the damage begins; the leader has the rest.
`RecoveryReport` says whether the log ends below what was known to be there, for whoever elects leaders.
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
from broker.log.log import PartitionLog
from broker.log.recovery.epoch_derivation import doubt, epochs_of_batches
from broker.log.recovery.segment_recovery import Damage, Holes, Scan, remove, scan
from broker.log.segments.log_segments import Segments
from broker.log.segments.removal import remove_files
from broker.log.segments.segment import Segment
from broker.log.swap import finish_swaps
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
    mend: bool = False,
    has_holes: bool = False,
    host_lived: bool = True,
    damaged: bool = False,
    point_is_lost: bool = False,
) -> tuple[PartitionLog, RecoveryReport]:
    """The log in folder `path`. recovery_point, log_start, high_watermark: as checkpointed, 0 when they were not.

    Raises CorruptLog when it is damaged, or a file that cannot be derived from the batches is unreadable; with mend it
    is cut where the damage begins, and CorruptLog says that nothing can be kept. OSError. has_holes: it was compacted
    once, whatever its config says now. host_lived: no power failure since, so what was renamed has its name. damaged:
    it was found so once; what looks like a hole of compaction's may be that damage. point_is_lost: there may have been
    a checkpointed recovery point, and nobody knows it.
    """
    tp = topic_partition
    has_holes = has_holes or config.may_have_holes
    checkpointed = recovery_point
    try:
        topic_id = checkpoints.read_partition_metadata(f"{path}/{checkpoints.PARTITION_METADATA}")
    except ValueError as error:
        raise CorruptLog(tp, path, str(error)) from error
    stems, others = split_names(os.listdir(path))
    if finish_swaps(tp, path, others):
        stems, others = split_names(os.listdir(path))
    _tidy(tp, path, stems, others, environment)
    # The digits fill their places: sorted as text they are sorted as numbers.
    bases = [int(stem) for stem in sorted(stems)]
    entries = _read_epochs(path)
    segments = Segments(bases, lambda base: Segment(tp, path, base, config.index_interval_bytes, has_holes))
    new = not bases
    _check_start(tp, path, bases, entries, log_start, max(recovery_point, high_watermark), host_lived)
    if new:
        segments.add(Segment.create(tp, path, log_start, config.index_interval_bytes, has_holes, environment.now_ms()))
    state: Scan | None = None
    reason = ""
    if clean and (entries is not None or new):
        try:
            state = _read_end(segments, EpochCache(entries or ()))
        except CorruptLog as error:
            reason = str(error)
            recovery_point = min(recovery_point, segments.active.base_offset)
    if state is None:
        # A power failure can take the indexes of a segment that was finished when all of it was durable.
        with_the_end_before = not host_lived and config.flushes_between_rolls
        state = scan(
            tp,
            list(segments),
            config,
            has_holes,
            max(recovery_point - with_the_end_before, 0),
            entries,
            Damage(tp, checkpointed, mend, config.group_commit),
            Holes(
                old=host_lived and not damaged,
                below=max(checkpointed, log_dir.cleaner_offsets.get(tp) or 0),
                judged=mend or not point_is_lost,
            ),
        )
        state.reason = state.reason or reason
    if state.leo < log_start:
        # A start goes to disk behind a watermark as high: without one it is the checkpoint that is damaged.
        if log_start > max(checkpointed, high_watermark) and not mend:
            raise CorruptLog(
                tp,
                path,
                f"it ends at {state.leo}; its checkpointed start is {log_start}, which it never reached "
                f"(recovery point {checkpointed}, high watermark {high_watermark})",
            )
        _restart_at(tp, path, state, config, environment, log_start, has_holes)
    known_until = max(checkpointed, high_watermark)
    if state.leo < known_until and not state.reason:
        state.reason = f"log ends at {state.leo}, below {known_until}, up to where a checkpoint knew of records"
    start = max(log_start, state.segments.first.base_offset)
    before = state.epochs.entries
    if state.doubt and _derive_epochs(state, start):
        # What they say of the log's beginning is not believed either.
        _check_start(tp, path, bases, None, log_start, max(checkpointed, high_watermark), host_lived)
        state.reason = "; ".join(filter(None, (state.reason, f"{state.doubt}: derived from the batches")))
    _fill_epochs(state, start)
    state.epochs.truncate_from_end(state.leo)
    state.epochs.truncate_from_start(start)
    state.epochs.changed = state.epochs.entries != before or before != entries
    was_clean = clean and not state.reason
    report = RecoveryReport(
        tp,
        start,
        state.leo,
        was_clean,
        state.cut_bytes,
        state.segments_removed,
        state.corrupt_middle,
        state.reason,
        checkpointed,
        high_watermark,
    )
    if state.reason:
        _logger.warning(
            "%s: %s; %d bytes cut, %d segments removed, log now [%d, %d)",
            tp, state.reason, state.cut_bytes, state.segments_removed, start, state.leo,
        )  # fmt: skip
    log = PartitionLog(
        tp,
        log_dir,
        path,
        topic_id,
        config,
        environment,
        state.segments,
        leo=state.leo,
        log_start_offset=start,
        recovery_point=state.leo if was_clean else min(recovery_point, state.leo),
        epochs=state.epochs,
        new=new or not was_clean,
        has_holes=has_holes,
    )
    if log.snapshots.remove_above(state.leo, others):
        checkpoints.fsync_dir(path)
    return log, report


def _check_start(
    tp: TopicPartition,
    path: str,
    bases: list[Offset],
    entries: list[tuple[Epoch, Offset]] | None,
    log_start: Offset,
    known_until: Offset,
    host_lived: bool,
) -> None:
    """Raise CorruptLog when the oldest segments are missing, or may be. There is no mending that: a log that begins
    too late would, once it leads, tell every follower to delete what it lacks.

    Before retention takes a segment, the first leader epoch in the file is raised beyond it. Where that file is gone
    too, only the checkpointed start is left to tell, which retention may have outrun: better fetched anew than wrong.
    A power failure can take the file and leave what retention did: after one, its absence says nothing.
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
    """Remove leftovers of deletions and interrupted work; what may be large elsewhere, with nobody waiting."""
    for name in others:
        stem, suffix = name[:20], name[20:]
        if name.endswith(DELETED_SUFFIX):
            remove_files(environment, [set_aside(f"{path}/{name}")])
        elif name.endswith(".tmp"):
            os.unlink(f"{path}/{name}")
        elif suffix in _INDEX_SUFFIXES and stem not in stems:
            _logger.warning("%s: %s has no segment, removed", tp, name)
            os.unlink(f"{path}/{name}")


def _read_epochs(path: str) -> list[tuple[Epoch, Offset]] | None:
    try:
        return checkpoints.read_epochs(f"{path}/{checkpoints.LEADER_EPOCHS}")
    except ValueError as error:
        _logger.warning("leader epochs are derived from the batches: %s", error)
        return None


def _read_end(segments: Segments, epochs: EpochCache) -> Scan:
    """Where a log ends that was closed in order. Raises CorruptLog, OSError.

    Appends go on from here: the few batches that say where are checked.
    """
    last = segments.active.last_batch(verify_crc=True)
    if last is not None:
        return Scan(segments, last.last_offset + 1, epochs, doubt=doubt(epochs, last))
    for place in reversed(range(len(segments) - 1)):
        segment = segments.at(place)
        if segment.size:
            with segment.briefly_open():
                last = segment.last_batch()
            break
    return Scan(segments, segments.active.base_offset, epochs, doubt=doubt(epochs, last))


def _derive_epochs(state: Scan, start: Offset) -> bool:
    """Take the batches' epochs for those of the file, which one of them contradicts. False where they are no better."""
    found, falls = epochs_of_batches(state.segments, start, state.leo, state.leo)
    if falls:
        _logger.warning(
            "%s: %s. But batches' epochs, which no CRC covers, fall in this log: one is damaged, the file is believed",
            state.segments.first.topic_partition,
            state.doubt,
        )
        return False
    state.epochs = found
    return True


def _fill_epochs(state: Scan, start: Offset) -> None:
    """Read epochs that the file lacks below its first entry from the batches.

    Entries go when the log start rises, which may have been forgotten by a crash before it was checkpointed.
    """
    entries = state.epochs.entries
    until = entries[0][1] if entries else state.leo
    if until <= start:
        return
    found, _ = epochs_of_batches(state.segments, start, until, state.leo)
    for epoch, first in entries:
        found.assign(epoch, first)
    state.epochs = found


def _restart_at(
    tp: TopicPartition,
    path: str,
    state: Scan,
    config: LogConfig,
    environment: Environment,
    log_start: Offset,
    has_holes: bool,
) -> None:
    """The log ends below where it is known to start: nothing in it may be shown. Begin anew at the log start.

    The oldest segment goes once the new one is there: where a crash leaves none, the next start misses the log.
    """
    state.reason = state.reason or f"log ends at {state.leo}, below its start offset {log_start}"
    oldest, *newer = state.segments
    remove(state, newer)
    state.segments = Segments()
    state.segments.add(
        Segment.create(tp, path, log_start, config.index_interval_bytes, has_holes, environment.now_ms())
    )
    checkpoints.fsync_dir(path)
    remove(state, [oldest])
    state.leo = log_start
    state.epochs.clear()
