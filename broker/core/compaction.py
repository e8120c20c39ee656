"""What compaction may touch, when a log is worth it, and which records and batches stay.

A log is its clean head (cleaned before), its dirty part, and what may not be cleaned yet. Only whole segments below the
high watermark, never the active one, are cleaned; of each key the record with the largest offset stays, a tombstone
only until its delete horizon. Offsets never change. Pure: segments come as numbers, keys as offsets that the offset map
gives for them.
Source: kafka LogCleanerManager, Cleaner (LogCleaner.scala); KIP-58, KIP-354, KIP-534.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

INT32_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class SegmentFacts(NamedTuple):
    """One segment as compaction sees it. Sizes are bytes; index_bytes and time_index_bytes as on disk."""

    base_offset: int
    size: int
    index_bytes: int = 0
    time_index_bytes: int = 0


class CleanableRange(NamedTuple):
    """[first_dirty, first_uncleanable) is dirty and may be cleaned; what lies before is clean.

    checkpoint_wrong: the checkpointed offset lies outside of the log; it starts over.
    """

    first_dirty: int
    first_uncleanable: int
    checkpoint_wrong: bool = False


class Dirtiness(NamedTuple):
    """Bytes of whole segments: cleaned before, and to be cleaned."""

    clean_bytes: int
    cleanable_bytes: int

    @property
    def total_bytes(self) -> int:
        """What min.cleanable.dirty.ratio relates to; bytes above the cleanable range count for nothing."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float:
        """From 0 to 1; 0 for a log with nothing in either part. Source: LogToClean.cleanableRatio."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0


def cleanable_range(
    bases: Sequence[int],
    log_start: int,
    leo: int,
    last_clean: int | None,
    last_stable_offset: int,
    too_young: int | None,
) -> CleanableRange:
    """The dirty part that may be cleaned now.

    bases: of all segments, rising, the active one last. last_clean: as checkpointed, None when never cleaned.
    last_stable_offset: ≤ HW; no record at or above may be taken for the newest of its key, for it may yet be truncated.
    too_young: base of the first segment within min.compaction.lag.ms, None when there is none.
    """
    first_dirty, wrong = log_start, False
    if last_clean is not None:
        wrong = not log_start <= last_clean <= leo
        if not wrong:
            first_dirty = last_clean
    limit = min(last_stable_offset, bases[-1])
    if too_young is not None:
        limit = min(limit, too_young)
    whole = max((base for base in bases if base <= limit), default=bases[0])
    return CleanableRange(first_dirty, max(first_dirty, whole), wrong)


def dirtiness(segments: Sequence[SegmentFacts], found: CleanableRange) -> Dirtiness:
    """segments: all, rising. The segment in which the dirty part begins counts in both, as in Kafka."""
    clean = cleanable = 0
    first_dirty, end_of_dirty = found.first_dirty, found.first_uncleanable
    for place, segment in enumerate(segments):
        end = segments[place + 1].base_offset if place + 1 < len(segments) else LONG_MAX
        if segment.base_offset < first_dirty:
            clean += segment.size
        if first_dirty < end_of_dirty and end > first_dirty and segment.base_offset < end_of_dirty:
            cleanable += segment.size
    return Dirtiness(clean, cleanable)


def compaction_delay_ms(oldest_dirty_ms: int | None, now_ms: float, max_lag_ms: int) -> float:
    """For how many ms the oldest dirty record has been due for cleaning; 0 when it is not due.

    oldest_dirty_ms: smallest first timestamp of a dirty inactive segment. All times are wall clock.
    """
    if oldest_dirty_ms is None:
        return 0.0
    return max(0.0, now_ms - max(max_lag_ms, 0) - oldest_dirty_ms)


def is_worth_it(found: Dirtiness, min_ratio: float, delay_ms: float) -> bool:
    """Dirty enough, or due by max.compaction.lag.ms."""
    if not found.cleanable_bytes:
        return False
    return delay_ms > 0 or found.ratio > min_ratio


def group_segments(
    segments: Sequence[SegmentFacts], size_max: int, index_bytes_max: int, first_uncleanable: int
) -> list[list[SegmentFacts]]:
    """Neighbours whose sum fits one segment; each group becomes one. Order stays.

    Offsets of a segment must fit 31 bits from its base, so a group's last offset may not lie further from its first.
    """
    groups: list[list[SegmentFacts]] = []
    size = index = time_index = 0
    for place, segment in enumerate(segments):
        end = segments[place + 1].base_offset if place + 1 < len(segments) else first_uncleanable
        if (
            groups
            and size + segment.size <= size_max
            and index + segment.index_bytes <= index_bytes_max
            and time_index + segment.time_index_bytes <= index_bytes_max
            and end - 1 - groups[-1][0].base_offset <= INT32_MAX
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = index = time_index = 0
        size += segment.size
        index += segment.index_bytes
        time_index += segment.time_index_bytes
    return groups


def keeps_empty(end_offset: int, first_uncleanable: int, last_of_producer: bool) -> bool:
    """Whether a batch stays as a header alone when none of its records does. end_offset: after its last record.

    The last batch of the range: a follower must be able to reach the end of the log. The newest batch of an active
    producer: its last sequence would be forgotten with it, and a retry appended twice.
    """
    return last_of_producer or end_offset == first_uncleanable


def keeps_record(
    offset: int, mapped_until: int, newest: int | None, has_value: bool, horizon_ms: int | None, now_ms: float
) -> bool:
    """Whether a record with a key stays.

    mapped_until: the last offset that the map accounts for; beyond it all stays. newest: offset that the map has for
    the key, None when it has none. horizon_ms: of the batch, None before its tombstones were first cleaned.
    """
    if offset > mapped_until:
        return True
    if newest is not None and offset < newest:
        return False
    return has_value or horizon_ms is None or now_ms < horizon_ms
