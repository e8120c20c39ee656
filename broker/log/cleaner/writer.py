"""Writes one cleaned segment: `.log.cleaned` with all its indexes, durable before anyone may use it.

Index entries follow the rule of `segment.Segment.add`. Source: UnifiedLog.createNewCleanedSegment, LogSegment.append.
"""

from __future__ import annotations

import os

from broker.log.files.checkpoints import fsync_dir
from broker.log.files.names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    discard_cleaned,
    segment_path,
)
from broker.log.indexes import offset_index, time_index
from broker.model.ids import Offset

_FLUSH_BYTES = 1 << 20


class CleanedWriter:
    """Batches go in with rising offsets; `finish` or `discard` ends it."""

    def __init__(self, directory: str, base_offset: Offset, interval_bytes: int) -> None:
        """Raises FileExistsError when another cleaning is at work in this folder."""
        self.base_offset = base_offset
        self.size = 0
        self._directory = directory
        self._interval_bytes = interval_bytes
        self._since_index_bytes = 0
        self._max_timestamp = time_index.NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._last_indexed_timestamp = time_index.NO_TIMESTAMP
        self._index = bytearray()
        self._time_index = bytearray()
        self._aborted = bytearray()
        self._buffer = bytearray()
        self._fd = os.open(self._path(LOG_SUFFIX), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

    def add(self, data: bytes | memoryview, last_offset: Offset, max_timestamp: int) -> None:
        """One batch, whole. Raises OSError."""
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
        if self._since_index_bytes > self._interval_bytes:
            self._index += offset_index.pack_entry(last_offset - self.base_offset, self.size)
            self._index_time()
            self._since_index_bytes = 0
        self._since_index_bytes += len(data)
        self.size += len(data)
        self._buffer += data
        if len(self._buffer) >= _FLUSH_BYTES:
            self._write_out()

    def add_aborted(self, entries: bytes) -> None:
        """Entries of a `.txnindex`, whose markers are in the segment."""
        self._aborted += entries

    def finish(self, modified_ns: int) -> None:
        """All on disk, with the time at which the newest source was written: retention of records without a
        timestamp counts from it. Raises OSError.
        """
        self._write_out()
        self._index_time()
        os.fsync(self._fd)
        os.utime(self._fd, ns=(modified_ns, modified_ns))
        os.close(self._fd)
        self._fd = -1
        indexes = [(INDEX_SUFFIX, self._index), (TIME_INDEX_SUFFIX, self._time_index)]
        if self._aborted:
            indexes.append((TXN_INDEX_SUFFIX, self._aborted))
        for suffix, content in indexes:
            fd = os.open(self._path(suffix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                _write_all(fd, content)
                os.fsync(fd)
            finally:
                os.close(fd)
        fsync_dir(self._directory)

    def discard(self) -> None:
        """Remove all files of the segment."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        discard_cleaned(self._directory, self.base_offset)

    def _index_time(self) -> None:
        if self._max_timestamp > self._last_indexed_timestamp:
            relative = self._max_timestamp_offset - self.base_offset
            self._time_index += time_index.pack_entry(self._max_timestamp, relative)
            self._last_indexed_timestamp = self._max_timestamp

    def _write_out(self) -> None:
        _write_all(self._fd, self._buffer)
        self._buffer.clear()

    def _path(self, suffix: str) -> str:
        return segment_path(self._directory, self.base_offset, suffix) + CLEANED_SUFFIX


def _write_all(fd: int, data: bytearray) -> None:
    with memoryview(data) as view:
        written = 0
        while written < len(view):
            written += os.write(fd, view[written:])
