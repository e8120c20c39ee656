"""Reading a log's segments batch by batch after a stop that was not clean, and cutting where they end.

Whatever is kept forms one gapless run of valid batches. Damage (bad bytes that had been synced, with good ones behind
them) is distinguished from the end of a torn log before anything is cut.
Source: kafka LogLoader.recoverLog, LogSegment.recover; L6 of docs/guarantees.md.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.log.config import LogConfig
from broker.log.epochs.cache import EpochCache
from broker.log.files import checkpoints
from broker.log.files.batch_scan import BadBatch, BatchAt, find_valid_batch, walk
from broker.log.files.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    remove_if_there,
)
from broker.log.recovery.epoch_derivation import doubt
from broker.log.segments.log_segments import Segments
from broker.log.segments.segment import Segment
from broker.model.ids import Epoch, Offset, TopicPartition
from broker.model.log_errors import CorruptLog
from broker.wire.record_batch import CONTROL_BIT

_logger = logging.getLogger(__name__)

_INDEX_SUFFIXES = frozenset({INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX})


@dataclass(slots=True)
class Scan:
    """State of one unclean recovery."""

    segments: Segments
    leo: Offset
    epochs: EpochCache
    cut_bytes: int = 0
    segments_removed: int = 0
    corrupt_middle: bool = False
    reason: str = ""
    clean: bool = False
    """Nothing was checked but the end: the stop was in good order."""
    scanned: set[Offset] = field(default_factory=set)
    """Bases of the segments of which every batch was checked."""
    has_markers: bool = False
    """A batch that was checked is a control batch: it may end a transaction."""
    doubt: str = ""
    """Which batch contradicts the file of epochs, "" when none that was looked at does."""
    filed: Sequence[tuple[Epoch, Offset]] = ()
    """What the epoch file says of the part that is scanned. Compaction may have left an epoch's start no batch."""

    def begin_epoch(self, batch: BatchAt, previous_end: Offset) -> None:
        """A newer epoch's first batch: this epoch, and those in between, began where the file says, within the hole
        before it.

        Where the file says nothing, at the beginning of what is left of the hole: see ParsedBatches.
        """
        hole = previous_end
        for epoch, start in self.filed:
            if self.epochs.latest < epoch <= batch.epoch and hole <= start <= batch.base_offset:
                self.epochs.assign(epoch, start)
                hole = start
        if batch.epoch > self.epochs.latest:
            self.epochs.assign(batch.epoch, hole)


@dataclass(frozen=True, slots=True)
class Damage:
    """What is damage, not the end of a torn log.

    fsynced: the checkpointed recovery point. reread: what the page cache holds is no proof that the disk holds it.
    """

    topic_partition: TopicPartition
    fsynced: Offset
    repair: bool
    reread: bool

    def check(self, state: Scan, where: str) -> None:
        """Raise CorruptLog, before anything is cut, if valid batches stand behind bad bytes that were fsynced."""
        if state.reason and state.corrupt_middle and state.leo < self.fsynced and not self.repair:
            raise CorruptLog(
                self.topic_partition,
                where,
                f"{state.reason.removeprefix(where).strip()}; valid batches follow, and all below offset "
                f"{self.fsynced} was on disk: damage, nothing is cut",
            )


@dataclass(frozen=True, slots=True)
class Holes:
    """Which holes between two segments are believed.

    A hole is left by compaction, which never touches records that are not on disk; or by a power failure that took the
    end of a segment when the next one's file was there already.
    """

    old: bool
    """There was no power failure, nor any other damage."""
    below: Offset
    """Everything below this offset was on disk: it was flushed, or cleaned, which happens to flushed records only."""
    judged: bool
    """Whether holes that are not believed are cut. Not where the recovery point that would vouch for them is lost."""


def scan(
    tp: TopicPartition,
    segments: list[Segment],
    config: LogConfig,
    has_holes: bool,
    begin: Offset,
    entries: list[tuple[Epoch, Offset]] | None,
    damage: Damage,
    holes: Holes,
) -> Scan:
    """Keep the longest valid run from the first segment on; cut and remove the rest. Raises CorruptLog.

    begin: every batch is checked from the segment on that holds this offset.
    """
    first = 0
    if entries is not None:
        for place, segment in enumerate(segments):
            if segment.base_offset <= begin:
                first = place
    scan_from = segments[first].base_offset
    epochs = EpochCache(entry for entry in entries or () if entry[1] < scan_from)
    state = Scan(Segments(), segments[0].base_offset, epochs)
    if has_holes:
        state.filed = [entry for entry in entries or () if entry[1] >= scan_from]
    for place, segment in enumerate(segments):
        hole_allowed = has_holes and (holes.old or segment.base_offset <= holes.below)
        if segment.base_offset < state.leo or (segment.base_offset > state.leo and not hole_allowed):
            if has_holes and not holes.judged and segment.base_offset > state.leo:
                raise CorruptLog(
                    tp,
                    segment.path(LOG_SUFFIX),
                    f"it does not follow on {state.leo}, where the one before it ends, and no recovery point is left "
                    "to say whether compaction made that hole: nothing is cut",
                )
            state.reason = f"segment {segment.base_offset} does not follow on {state.leo}, where the one before it ends"
            state.corrupt_middle = any(_has_batch(later) for later in segments[place:])
            damage.check(state, segment.path(LOG_SUFFIX))
            remove(state, segments[place:])
            return state
        if place < first:
            try:
                last = segment.last_batch()
                end = segment.base_offset if last is None else max(last.last_offset + 1, segment.base_offset)
                if end > segments[place + 1].base_offset:
                    raise CorruptLog(tp, segment.path(LOG_SUFFIX), f"it ends at {end}, in the next segment")
                state.leo = end
                state.doubt = state.doubt or doubt(state.epochs, last)
                segment.close()
                state.segments.add(segment)
                continue
            except CorruptLog:
                # Not what a crash leaves behind: look at every batch of it.
                pass
        if damage.reread:
            _forget_cached(segment)
        if not _scan_segment(state, segment, segments[place + 1 :], has_holes, damage):
            return state
    return state


def _forget_cached(segment: Segment) -> None:
    """Let the scan read what the disk holds. After an fsync that failed the page cache holds more, and looks clean."""
    fd = os.open(segment.path(LOG_SUFFIX), os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _scan_segment(state: Scan, segment: Segment, later: list[Segment], gaps: bool, damage: Damage) -> bool:
    """Check every batch; cut the log at the first bad one. True when all of the segment was good. Raises CorruptLog."""
    state.scanned.add(segment.base_offset)
    fd = os.open(segment.path(LOG_SUFFIX), os.O_RDWR)
    try:
        size = os.fstat(fd).st_size
        plan = segment.plan_indexes()
        held: BatchAt | None = None
        """The batch read last, which the next one may contradict. Earlier ones are not kept: there may be millions."""
        position = 0
        expected = before = segment.base_offset
        previous_end = state.leo
        bad = ""
        jumped = False
        try:
            for batch in walk(fd, 0, size, verify_crc=True):
                if batch.base_offset < expected and jumped and held is not None:
                    # One of the two has a wrong base offset, which no CRC covers. Believing the first would cut what is
                    # right, and give the log an end that it never reached.
                    doubtful, held = held, None
                    position = doubtful.position
                    expected = before
                    raise BadBatch(position, f"base offset {doubtful.base_offset}, and {batch.base_offset} behind it")
                if batch.base_offset < expected or (batch.base_offset != expected and not gaps):
                    raise BadBatch(batch.position, f"base offset {batch.base_offset} where {expected} is due")
                if batch.last_offset - segment.base_offset >= 1 << 31:
                    raise BadBatch(batch.position, f"offset {batch.last_offset} is too far from the segment's base")
                jumped = batch.base_offset != expected
                if jumped and later and batch.last_offset >= later[0].base_offset:
                    raise BadBatch(batch.position, f"offset {batch.last_offset} lies in segment {later[0].base_offset}")
                if held is not None:
                    plan.add(held)
                if batch.attributes & CONTROL_BIT:
                    state.has_markers = True
                held = batch
                position = batch.end
                before = expected
                expected = batch.last_offset + 1
                if batch.epoch > state.epochs.latest:
                    state.begin_epoch(batch, previous_end)
                previous_end = expected
        except BadBatch as error:
            bad = f"{segment.path(LOG_SUFFIX)} {error}"
            state.corrupt_middle = find_valid_batch(fd, position + 1, size, expected) is not None or any(
                map(_has_batch, later)
            )
    finally:
        os.close(fd)
    if held is not None:
        plan.add(held)
    assert plan.size == position
    state.leo = expected
    state.reason = bad
    damage.check(state, segment.path(LOG_SUFFIX))
    if bad:
        # Before the cut, while the bad batch can be found again: behind a cut the later segments would look like a
        # compaction hole.
        remove(state, later)
    segment.reset_to(plan)
    state.segments.add(segment)
    state.cut_bytes += size - position
    return not bad


def _has_batch(segment: Segment) -> bool:
    fd = os.open(segment.path(LOG_SUFFIX), os.O_RDONLY)
    try:
        return find_valid_batch(fd, 0, os.fstat(fd).st_size, segment.base_offset, 1 << 20) is not None
    finally:
        os.close(fd)


def remove(state: Scan, segments: list[Segment]) -> None:
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
