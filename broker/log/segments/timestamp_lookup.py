"""The first record at or after a timestamp. With compaction the only place of the log that looks inside a batch.

A lookup runs on the loop between other requests, so it opens batches up to a bounded effort; beyond that, the first
record that was not looked at is the result. It opens only segments that may hold the record, by their time indexes, and
leaves none open: its result holds no slice of a file.
Source: UnifiedLog.fetchOffsetByTimestamp, FileRecords.searchForTimestamp.
"""

from __future__ import annotations

from broker.log.files.batch_scan import BatchAt
from broker.log.segments.log_segments import Segments
from broker.log.segments.segment import Segment
from broker.model.ids import Epoch, Offset
from broker.wire.raw_records import payload_of, raw_records
from broker.wire.record_batch import CorruptBatch, read_header

INFLATED_BYTES_MAX = 16 << 20
RECORDS_MAX = 200_000

Found = tuple[int, Offset, Epoch]


class _Effort:
    """What one lookup may still inflate and look at."""

    __slots__ = ("inflated_bytes", "records")

    def __init__(self) -> None:
        self.inflated_bytes = INFLATED_BYTES_MAX
        self.records = RECORDS_MAX


def newest_timestamp(segments: Segments) -> int:
    """The largest that a batch claims, −1 without batches. Opens no segment for good.

    An index's timestamp is checked against the batches where it would be the result.
    """
    while True:
        newest = max(segments, key=lambda segment: segment.newest_timestamp)
        claimed = newest.newest_timestamp
        if newest.checked_newest_timestamp() == claimed:
            return claimed


def first_record_at(segments: Segments, timestamp: int, log_start: Offset, limit_offset: Offset) -> Found | None:
    """(timestamp, offset, epoch) of the first record in [log_start, limit_offset) not older than timestamp."""
    effort = _Effort()
    for place in range(segments.floor(log_start), len(segments)):
        segment = segments.at(place)
        start = max(log_start, segment.base_offset)
        if start >= limit_offset:
            return None
        if segment.newest_timestamp < timestamp:
            continue
        with segment.briefly_open():
            while (batch := segment.find_by_timestamp(timestamp, start)) is not None:
                if batch.base_offset >= limit_offset:
                    return None
                found = _first_in_batch(segment, batch, timestamp, start, limit_offset, effort)
                if found is not None:
                    return found
                start = batch.last_offset + 1
    return None


def _first_in_batch(
    segment: Segment, batch: BatchAt, timestamp: int, start: Offset, limit_offset: Offset, effort: _Effort
) -> Found | None:
    data = memoryview(segment.batch_bytes(batch))
    header = read_header(data)
    append_time = header.max_timestamp if header.is_log_append_time else None
    first = max(batch.base_offset, start)
    try:
        if effort.inflated_bytes > 0:
            payload = payload_of(header, data, effort.inflated_bytes)
            effort.inflated_bytes -= len(payload)
            for record in raw_records(header, payload):
                if record.offset >= limit_offset:
                    return None
                effort.records -= 1
                if effort.records < 0:
                    break
                if record.offset >= start:
                    at = header.base_timestamp + record.timestamp_delta if append_time is None else append_time
                    if at >= timestamp:
                        return at, record.offset, batch.epoch
                    first = record.offset + 1
            else:
                return None
    except CorruptBatch:
        # Its CRC is good, so it is compressed in a way that is not installed here, or inflates too far.
        pass
    # Nothing at or after the timestamp is skipped by starting with the first record that was not looked at.
    return (batch.max_timestamp, first, batch.epoch) if first < limit_offset else None
