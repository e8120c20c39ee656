"""Whether a log is damaged where a cleaning says so, or its files are as they were left. Runs on the loop's thread.

A cleaning opens files by name while the log's owner may cut, hide or delete them, so a missing or short file proves no
damage. On the loop's thread the log does not change during the check: whatever differs from what the log wrote is the
work of another program or of the disk.
Source: none in Kafka, which marks such a log uncleanable and goes on serving it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import islice

from broker.core.compaction import LONG_MAX
from broker.log.files.batch_scan import BadBatch, walk
from broker.log.files.names import LOG_SUFFIX
from broker.log.files.open_segments import NO_DESCRIPTOR
from broker.log.log import PartitionLog
from broker.log.segments.segment import Segment
from broker.model.log_errors import CorruptLog


def has_all(log: PartitionLog, segments: Iterable[Segment]) -> bool:
    """Whether all of these are still inactive segments of this log, none removed by retention."""
    inactive = set(log.cleaning.inactive_segments(LONG_MAX))
    return all(segment in inactive for segment in segments)


def find_damage(
    log: PartitionLog, sizes: Mapping[Segment, int], bad: Segment | None = None, position: int = 0
) -> CorruptLog | None:
    """The damage in those of these segments that the log still has; the log has cut none since they had these sizes.

    bad, position: the segment, and the position in it, at which the batch and the one after it are checked. None where
    nothing is wrong, where that cannot be found out now, and where the log's whole folder is gone: its disk may be
    unmounted, and no new log may be made in its place.
    """
    try:
        inactive = set(log.cleaning.inactive_segments(LONG_MAX))
        for segment, size in sizes.items():
            if segment in inactive:
                _check_file(segment, size)
        if bad is not None and bad in inactive:
            log.committed.check(bad.base_offset)
            _check_batches(bad, sizes[bad], position)
    except CorruptLog as damage:
        return damage if os.path.isdir(log.path) else None
    except OSError as error:
        if error.errno not in NO_DESCRIPTOR:
            log.read_failed(error)
    return None


def _check_file(segment: Segment, size: int) -> None:
    """Raises CorruptLog where the file is gone, or shorter, OSError."""
    path = segment.path(LOG_SUFFIX)
    try:
        found = os.stat(path).st_size
    except FileNotFoundError as error:
        raise CorruptLog(segment.topic_partition, path, f"the file is gone, {size} bytes were in it") from error
    if found < size:
        raise CorruptLog(segment.topic_partition, path, f"the file ends at {found}, it had {size} bytes")


def _check_batches(segment: Segment, size: int, position: int) -> None:
    """The batch at position, and that the next one follows on it. Raises CorruptLog, OSError."""
    path = segment.path(LOG_SUFFIX)
    expected = segment.base_offset
    fd = os.open(path, os.O_RDONLY)
    try:
        for batch in islice(walk(fd, position, size, verify_crc=True), 2):
            if batch.base_offset < expected:
                raise BadBatch(batch.position, f"base offset {batch.base_offset}, {expected} is due")
            expected = batch.last_offset + 1
    except BadBatch as bad:
        raise CorruptLog(segment.topic_partition, path, str(bad)) from bad
    finally:
        os.close(fd)
