"""Opening a log that is on disk, after a clean stop or a crash.

Clean: nothing is scanned; the active segment is read, and checked, from its last index entry on. Unclean: from the
segment of the recovery point on every batch is checked (header, CRC32C, offsets without a hole) and the log is cut at
the first that fails; older segments must meet end to base. Whatever is kept forms one gapless run of valid batches.
Indexes and leader epochs of the scanned part come from the batches, not from their files.
A log that says clean and is found damaged is recovered as an unclean one.

What a power failure can leave is cut; what it cannot is damage: bad bytes below the checkpointed recovery point, which
an fsync vouched for, with valid batches behind them. Then nothing is touched and the log stays offline (CorruptLog),
until nothing rests on this copy and `mend` may cut it where the damage begins; the leader has the rest.
`RecoveryReport` says whether the log ends below what was known to be there, for whoever elects leaders.
Source: kafka LogLoader, LogSegment.recover; L6 and R12 of the design.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from broker.log import checkpoints
from broker.log.batch_scan import BadBatch, BatchAt, find_valid_batch, walk
from broker.log.cleaner_swap import finish_swaps
from broker.log.config import LogConfig
from broker.log.environment import Environment
from broker.log.epoch_cache import EpochCache
from broker.log.files import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_segment_file,
    remove_if_there,
)
from broker.log.log import PartitionLog
from broker.log.log_dir import LogDir
from broker.log.segment import Segment
from broker.log.segments import Segments
from broker.runtime.ports import CorruptLog, Epoch, Offset, TopicPartition

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


@dataclass(slots=True)
class _Scan:
    """State of one unclean recovery."""

    segments: list[Segment]
    leo: Offset
    epochs: EpochCache
    cut_bytes: int = 0
    segments_removed: int = 0
    corrupt_middle: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Damage:
    """What is damage, not the end of a torn log.

    fsynced: the checkpointed recovery point. reread: what the page cache holds is no proof that the disk holds it.
    """

    topic_partition: TopicPartition
    fsynced: Offset
    mend: bool
    reread: bool

    def check(self, state: _Scan, where: str) -> None:
        """Raise CorruptLog, before anything is cut, if valid batches stand behind bad bytes that were fsynced."""
        if state.reason and state.corrupt_middle and state.leo < self.fsynced and not self.mend:
            raise CorruptLog(
                self.topic_partition,
                where,
                f"{state.reason.removeprefix(where).strip()}; valid batches follow, and all below offset "
                f"{self.fsynced} was on disk: damage, nothing is cut",
            )


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
) -> tuple[PartitionLog, RecoveryReport]:
    """The log in folder `path`. recovery_point, log_start, high_watermark: as checkpointed, 0 when they were not.

    Raises CorruptLog when it is damaged, or a file that cannot be derived from the batches is unreadable; with mend it
    is cut where the damage begins. OSError. has_holes: it was compacted once, whatever its config says now.
    """
    tp = topic_partition
    has_holes = has_holes or config.may_have_holes
    checkpointed = recovery_point
    try:
        topic_id = checkpoints.read_partition_metadata(f"{path}/{checkpoints.PARTITION_METADATA}")
    except ValueError as error:
        raise CorruptLog(tp, path, str(error)) from error
    finish_swaps(tp, path)
    bases = _tidy(tp, path)
    entries = _read_epochs(path)
    segments = [Segment(tp, path, base, config.index_interval_bytes, has_holes) for base in bases]
    new = not segments
    if not mend:
        _check_start(tp, path, bases, entries or [], log_start, max(recovery_point, high_watermark))
    if new:
        segments.append(
            Segment.create(tp, path, log_start, config.index_interval_bytes, has_holes, environment.now_ms())
        )
    state: _Scan | None = None
    reason = ""
    if clean and (entries is not None or new):
        try:
            # Appends go on from here: the few batches that say where are checked.
            state = _Scan(segments, segments[-1].next_offset(verify_crc=True), EpochCache(entries or ()))
        except CorruptLog as error:
            reason = str(error)
            recovery_point = min(recovery_point, segments[-1].base_offset)
    if state is None:
        state = _scan(
            tp,
            segments,
            config,
            has_holes,
            recovery_point,
            entries,
            _Damage(tp, checkpointed, mend, config.group_commit),
        )
        state.reason = state.reason or reason
    if state.leo < log_start:
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
    start = max(log_start, state.segments[0].base_offset)
    before = state.epochs.entries
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
        Segments(state.segments),
        leo=state.leo,
        log_start_offset=start,
        recovery_point=state.leo if was_clean else min(recovery_point, state.leo),
        epochs=state.epochs,
        new=new or not was_clean,
        has_holes=has_holes,
    )
    log.snapshots.remove_above(state.leo)
    return log, report


def _check_start(
    tp: TopicPartition,
    path: str,
    bases: list[Offset],
    entries: list[tuple[Epoch, Offset]],
    log_start: Offset,
    known_until: Offset,
) -> None:
    """Raise CorruptLog when the oldest segments are missing.

    Before retention takes a segment, the first leader epoch in the file is raised beyond it.
    """
    if not bases and (entries or known_until > log_start):
        raise CorruptLog(tp, path, f"no segment is there, though records below offset {known_until} were")
    if bases and entries and bases[0] > max(log_start, entries[0][1]):
        raise CorruptLog(
            tp, path, f"the first segment begins at {bases[0]}, the log at {max(log_start, entries[0][1])}"
        )


def _tidy(tp: TopicPartition, path: str) -> list[Offset]:
    """Remove leftovers of deletions and interrupted work; returns the segments' base offsets, rising."""
    names = os.listdir(path)
    known = {name for name in names if name.endswith(LOG_SUFFIX)}
    for name in names:
        stem, suffix = name[:20], name[20:]
        if name.endswith((DELETED_SUFFIX, ".tmp")):
            os.unlink(f"{path}/{name}")
        elif suffix in _INDEX_SUFFIXES and stem + LOG_SUFFIX not in known:
            _logger.warning("%s: %s has no segment, removed", tp, name)
            os.unlink(f"{path}/{name}")
    parsed = map(parse_segment_file, known)
    return sorted(found[0] for found in parsed if found is not None)


def _read_epochs(path: str) -> list[tuple[Epoch, Offset]] | None:
    try:
        return checkpoints.read_epochs(f"{path}/{checkpoints.LEADER_EPOCHS}")
    except ValueError as error:
        _logger.warning("leader epochs are derived from the batches: %s", error)
        return None


def _scan(
    tp: TopicPartition,
    segments: list[Segment],
    config: LogConfig,
    has_holes: bool,
    recovery_point: Offset,
    entries: list[tuple[Epoch, Offset]] | None,
    damage: _Damage,
) -> _Scan:
    """Keep the longest valid run from the first segment on; cut and remove the rest. Raises CorruptLog."""
    first = 0
    if entries is not None:
        for place, segment in enumerate(segments):
            if segment.base_offset <= recovery_point:
                first = place
    scan_from = segments[first].base_offset
    epochs = EpochCache(entry for entry in entries or () if entry[1] < scan_from)
    state = _Scan([], segments[0].base_offset, epochs)
    for place, segment in enumerate(segments):
        if segment.base_offset != state.leo and (segment.base_offset < state.leo or not has_holes):
            state.reason = f"segment {segment.base_offset} does not follow on {state.leo}, where the one before it ends"
            state.corrupt_middle = any(_has_batch(later) for later in segments[place:])
            damage.check(state, segment.path(LOG_SUFFIX))
            _remove(state, segments[place:])
            return state
        if place < first:
            try:
                state.leo = max(segment.next_offset(), segment.base_offset)
                segment.close()
                state.segments.append(segment)
                continue
            except CorruptLog:
                # Not what a crash leaves behind: look at every batch of it.
                pass
        if damage.reread:
            _forget_cached(segment)
        if not _scan_segment(state, segment, segments[place + 1 :], has_holes, damage):
            _remove(state, segments[place + 1 :])
            return state
    return state


def _forget_cached(segment: Segment) -> None:
    """Let the scan read what the disk holds. After an fsync that failed the page cache holds more, and looks clean."""
    fd = os.open(segment.path(LOG_SUFFIX), os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _fill_epochs(state: _Scan, start: Offset) -> None:
    """Read epochs that the file lacks below its first entry from the batches.

    Entries go when the log start rises, which may have been forgotten by a crash before it was checkpointed.
    """
    entries = state.epochs.entries
    until = entries[0][1] if entries else state.leo
    if until <= start:
        return
    found = EpochCache()
    segments = Segments(state.segments)
    for place in range(segments.floor(start), len(segments)):
        for batch in segments.at(place).batches():
            if batch.base_offset < until and batch.epoch > found.latest:
                found.assign(batch.epoch, batch.base_offset)
        if segments.end_of(place, state.leo) >= until:
            break
    for epoch, first in entries:
        found.assign(epoch, first)
    state.epochs = found


def _scan_segment(state: _Scan, segment: Segment, later: list[Segment], gaps: bool, damage: _Damage) -> bool:
    """Check every batch; cut the file at the first bad one. True when all of it was good. Raises CorruptLog."""
    fd = os.open(segment.path(LOG_SUFFIX), os.O_RDWR)
    try:
        size = os.fstat(fd).st_size
        batches: list[BatchAt] = []
        position = 0
        expected = segment.base_offset
        bad = ""
        try:
            for batch in walk(fd, 0, size, verify_crc=True):
                if batch.base_offset < expected or (batch.base_offset != expected and not gaps):
                    raise BadBatch(batch.position, f"base offset {batch.base_offset} where {expected} is due")
                if batch.last_offset - segment.base_offset >= 1 << 31:
                    raise BadBatch(batch.position, f"offset {batch.last_offset} is too far from the segment's base")
                batches.append(batch)
                position = batch.end
                expected = batch.last_offset + 1
                if batch.epoch > state.epochs.latest:
                    state.epochs.assign(batch.epoch, batch.base_offset)
        except BadBatch as error:
            bad = f"{segment.path(LOG_SUFFIX)} {error}"
            state.corrupt_middle = find_valid_batch(fd, position + 1, size, expected) is not None or any(
                map(_has_batch, later)
            )
    finally:
        os.close(fd)
    state.leo = expected
    state.reason = bad
    damage.check(state, segment.path(LOG_SUFFIX))
    segment.reset_to(batches, position)
    state.segments.append(segment)
    state.cut_bytes += size - position
    return not bad


def _has_batch(segment: Segment) -> bool:
    fd = os.open(segment.path(LOG_SUFFIX), os.O_RDONLY)
    try:
        return find_valid_batch(fd, 0, os.fstat(fd).st_size, segment.base_offset, 1 << 20) is not None
    finally:
        os.close(fd)


def _remove(state: _Scan, segments: list[Segment]) -> None:
    """Delete segments behind the cut, the last first: a crash in between leaves no hole that was not there."""
    for segment in reversed(segments):
        state.cut_bytes += segment.size
        state.segments_removed += 1
        segment.close()
        _delete_files(segment)
    if segments:
        checkpoints.fsync_dir(segments[0].directory)


def _delete_files(segment: Segment) -> None:
    for suffix in SUFFIXES:
        remove_if_there(segment.path(suffix))


def _restart_at(
    tp: TopicPartition,
    path: str,
    state: _Scan,
    config: LogConfig,
    environment: Environment,
    log_start: Offset,
    has_holes: bool,
) -> None:
    """The log ends below where it is known to start: nothing in it may be shown. Begin anew at the log start."""
    state.reason = state.reason or f"log ends at {state.leo}, below its start offset {log_start}"
    _remove(state, state.segments)
    state.segments = [Segment.create(tp, path, log_start, config.index_interval_bytes, has_holes, environment.now_ms())]
    state.leo = log_start
    state.epochs.clear()
