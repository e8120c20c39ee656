"""How many of a log's oldest segments may go. Decides only; deletes nothing.

Never the active segment, never one that reaches above the high watermark. Source: UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

from broker.log.config import LogConfig
from broker.log.segment import Segment
from broker.log.segments import Segments
from broker.runtime.ports import Offset


def expired_segments(
    segments: Segments, config: LogConfig, wall_ms: float, high_watermark: Offset, log_start: Offset
) -> int:
    """Count of oldest segments that lie below the log start, are too old, or are too much."""
    most = 0
    while most < len(segments) - 1 and segments.end_of(most, high_watermark) <= high_watermark:
        most += 1
    count = 0
    while count < most and segments.end_of(count, log_start) <= log_start:
        count += 1
    if not config.deletes:
        return count
    if config.retention_ms >= 0:
        while count < most and wall_ms - _newest_ms(segments.at(count)) > config.retention_ms:
            count += 1
    if config.retention_bytes >= 0 and count < most:
        surplus = sum(segments.at(n).size for n in range(count, len(segments))) - config.retention_bytes
        while count < most and surplus >= segments.at(count).size:
            surplus -= segments.at(count).size
            count += 1
    return count


def _newest_ms(segment: Segment) -> float:
    """Largest record timestamp; without timestamps, when the file was last written."""
    segment.open()
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms
