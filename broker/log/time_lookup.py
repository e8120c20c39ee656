"""The first record at or after a timestamp. The only place of the log that looks inside a batch.

Source: UnifiedLog.fetchOffsetByTimestamp, FileRecords.searchForTimestamp.
"""

from __future__ import annotations

from broker.log.batch_scan import BatchAt
from broker.log.segment import Segment
from broker.log.segments import Segments
from broker.runtime.ports import Epoch, Offset
from broker.wire.record_batch import CorruptBatch
from broker.wire.records import decode_records

Found = tuple[int, Offset, Epoch]


def first_record_at(segments: Segments, timestamp: int, log_start: Offset, limit_offset: Offset) -> Found | None:
    """(timestamp, offset, epoch) of the first record in [log_start, limit_offset) not older than timestamp."""
    for place in range(segments.floor(log_start), len(segments)):
        segment = segments.at(place)
        start = max(log_start, segment.base_offset)
        if start >= limit_offset:
            return None
        while (batch := segment.find_by_timestamp(timestamp, start)) is not None:
            if batch.base_offset >= limit_offset:
                return None
            found = _first_in_batch(segment, batch, timestamp, start, limit_offset)
            if found is not None:
                return found
            start = batch.last_offset + 1
    return None


def _first_in_batch(
    segment: Segment, batch: BatchAt, timestamp: int, start: Offset, limit_offset: Offset
) -> Found | None:
    data = segment.batch_bytes(batch)
    try:
        records = decode_records(data)
    except CorruptBatch:
        # Its CRC is good, so it is compressed in a way that is not installed here. Nothing at or after the timestamp
        # is skipped by starting at the batch's first record.
        first = max(batch.base_offset, start)
        return (batch.max_timestamp, first, batch.epoch) if first < limit_offset else None
    for record in records:
        if record.timestamp >= timestamp and start <= record.offset < limit_offset:
            return record.timestamp, record.offset, batch.epoch
    return None
