"""Reads of one log from its segments' files: by offset, where the tail cache has nothing, and by time.

Errors of opening and reading are classified here: no descriptor is free, the log dir fails, or the log is damaged.
Source: kafka LocalLog.read, UnifiedLog.fetchOffsetByTimestamp.
"""

from __future__ import annotations

import os

from broker.log.local_log import LocalLog
from broker.log.segments.timestamp_lookup import Found, first_record_at, newest_timestamp
from broker.model.ids import Offset
from broker.wire.chunks import Chunk, FileSlice


class SegmentReads:
    """Every method raises LogDirFailed, NoDescriptorFree, CorruptLog."""

    __slots__ = ("_log",)

    def __init__(self, log: LocalLog) -> None:
        self._log = log

    def read(self, offset: Offset, max_bytes: int, limit: Offset, min_one_batch: bool) -> Chunk:
        """As `PartitionLog.read`, from the files. limit ≤ log end offset."""
        log = self._log
        segments = log.segments
        written = log.log_end_offset
        try:
            place = segments.floor(offset)
            while place < len(segments):
                segment = segments.at(place)
                end = segments.end_of(place, written)
                chunk = segment.read(offset, max_bytes, limit, end, min_one_batch)
                log.environment.open_segments.touch(segment)
                if chunk is not None:
                    return chunk if chunk.length else b""
                place += 1
        except OSError as error:
            log.read_failed(error)
        return b""

    def read_bytes(self, offset: Offset, max_bytes: int, limit: Offset, min_one_batch: bool) -> memoryview:
        """As `read`, with the bytes read, also of batches below the log's start that lie in its first segment."""
        log = self._log
        log.dir.check()
        with log.environment.open_segments.briefly():
            return self.bytes_of(self.read(offset, max_bytes, limit, min_one_batch))

    def bytes_of(self, chunk: Chunk) -> memoryview:
        """What `read` returned, with the bytes read."""
        return memoryview(self.content(chunk) if isinstance(chunk, FileSlice) else chunk)

    def content(self, piece: FileSlice) -> bytes:
        """The bytes of a slice that `read` returned; fewer where the file has become shorter."""
        try:
            return _content(piece)
        except OSError as error:
            self._log.fail(error)

    def newest_timestamp(self) -> int:
        """The largest timestamp that a written batch claims, −1 without any."""
        log = self._log
        log.dir.check()
        try:
            return newest_timestamp(log.segments)
        except OSError as error:
            log.read_failed(error)

    def offset_for_timestamp(self, timestamp: int, limit_offset: Offset) -> Found | None:
        """(timestamp, offset, epoch) of the first record at or after timestamp below limit_offset."""
        log = self._log
        log.dir.check()
        try:
            return first_record_at(log.segments, timestamp, log.log_start, min(limit_offset, log.log_end_offset))
        except OSError as error:
            log.read_failed(error)

    def forget_checked(self) -> None:
        """Check again, at its next read, everything that was written or checked before; damage is CorruptLog then."""
        self._log.tail.clear()
        for segment in self._log.segments.made():
            segment.forget_checked()


def _content(piece: FileSlice) -> bytes:
    data = b""
    while len(data) < piece.length:
        more = os.pread(piece.fd, piece.length - len(data), piece.position + len(data))
        if not more:
            break
        data += more
    return data
