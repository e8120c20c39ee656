"""How many of a log's oldest segments may go. Decides only; deletes nothing.

In Kafka's order: segments below the log start, beyond retention.bytes, older than retention.ms. Never a segment that
reaches above the high watermark. The active segment is never deleted: where it has expired too, all are counted, and
whoever deletes begins a new one first. Source: UnifiedLog.deleteOldSegments, deletableSegments.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.log.config import LogConfig
from broker.log.segments.log_segments import Segments
from broker.log.segments.segment import Segment
from broker.model.ids import Offset


def expired_segments(
    segments: Segments, config: LogConfig, wall_ms: float, high_watermark: Offset, log_start: Offset, leo: Offset
) -> int:
    """Count of oldest segments that are to go. leo: where the active one ends, with nothing staged behind it."""
    last = len(segments) - 1

    def count_on(count: int, wanted: Callable[[int], bool]) -> int:
        while (
            count <= last
            and segments.end_of(count, leo) <= high_watermark
            and not (count == last and segments.at(count).size == 0)
            and wanted(count)
        ):
            count += 1
        return count

    count = count_on(0, lambda place: place < last and segments.end_of(place, leo) <= log_start)
    if not config.deletes:
        return count
    if config.retention_bytes >= 0:
        surplus = sum(segments.at(place).size for place in range(count, last + 1)) - config.retention_bytes

        def is_too_much(place: int) -> bool:
            nonlocal surplus
            size = segments.at(place).size
            if surplus < size:
                return False
            surplus -= size
            return True

        if surplus >= 0:
            count = count_on(count, is_too_much)
    if config.retention_ms >= 0:
        count = count_on(count, lambda place: _is_too_old(segments.at(place), wall_ms, config.retention_ms))
    return count


def _is_too_old(segment: Segment, wall_ms: float, retention_ms: int) -> bool:
    """By its largest record timestamp; without timestamps, by when the file was last written.

    Where the index says that a segment is too old, its batches are checked first; so they are, once, where the index
    says a time in the future: a flipped bit would keep the segment, and all that follow, for ever.
    """
    newest = segment.newest_timestamp
    if newest >= 0 and not 0 <= wall_ms - newest <= retention_ms:
        newest = segment.checked_newest_timestamp()
    return wall_ms - (newest if newest >= 0 else segment.modified_ms) > retention_ms
