"""The newest timestamp of a segment that is not open, and stays so: retention asks for each, at every check.

Source: kafka LogSegment.largestTimestamp, which reads the last entry of the .timeindex and believes it.
"""

from __future__ import annotations

import os

from broker.log.files.batch_scan import BadBatch, walk
from broker.log.segments.segment_indexes import SegmentIndexes


def peek_newest_timestamp(log_path: str, indexes: SegmentIndexes) -> int | None:
    """What the .timeindex says. None where it says nothing or cannot be right. Raises OSError.

    Both indexes get their entries together, so no batch up to the last one that the .index names is newer, whether
    timestamps rise or not: else it was cut. Where they rise, the batch that is the newest stands there or soon behind,
    and is looked at too.
    """
    newest = indexes.by_time.peek_newest()
    indexed = indexes.by_offset.peek()
    if newest is None or indexed is None:
        return None if newest is None else newest.timestamp
    try:
        fd = os.open(log_path, os.O_RDONLY)
    except FileNotFoundError:
        return newest.timestamp  # whoever reads it finds that out
    try:
        for batch in walk(fd, max(indexed[1][1], 0), os.fstat(fd).st_size):
            if batch.max_timestamp > newest.timestamp:
                break
            if batch.last_offset >= newest.offset:
                believed = batch.base_offset > newest.offset or batch.max_timestamp == newest.timestamp
                return newest.timestamp if believed else None
    except BadBatch:
        pass
    finally:
        os.close(fd)
    return None
