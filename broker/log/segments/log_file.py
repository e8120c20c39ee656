"""The `.log` file of one segment: opened, measured, read batch by batch, found cut or damaged.

`size` counts complete batches only: nothing beyond it is ever read. The size in the file system is compared with the
bytes that were counted in, so that a file that somebody has cut or removed is reported as damage, by its name.
Source: kafka FileRecords.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

from broker.log.files.batch_scan import BadBatch, BatchAt, parse_header, walk
from broker.log.files.names import LOG_SUFFIX, segment_path
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog
from broker.wire.record_batch import HEADER_SIZE

INT32_MAX = 2**31 - 1

T = TypeVar("T")


def _open_to_write(path: str) -> int:
    return os.open(path, os.O_RDWR)


class LogFile:
    """Batches with offsets from base_offset on, one behind the other."""

    __slots__ = ("base_offset", "directory", "fd", "gaps", "size", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, directory: str, base_offset: Offset, gaps: bool) -> None:
        """Name a file; it is not touched. gaps: offsets may be missing, as compaction leaves it."""
        self.topic_partition = topic_partition
        self.directory = directory
        self.base_offset = base_offset
        self.gaps = gaps
        self.fd = -1
        """−1 while it is not open."""
        self.size = -1
        """Bytes of complete batches; −1 until the file system was queried."""

    @property
    def path(self) -> str:
        """Of the `.log` file, by the folder's present name: a folder is renamed when its partition is deleted."""
        return segment_path(self.directory, self.base_offset, LOG_SUFFIX)

    def create(self) -> None:
        """An empty file, whatever was there."""
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self.size = 0

    def open(self) -> None:
        """Raises OSError, CorruptLog."""
        if self.fd >= 0:
            return
        self.fd = self._call_on_path(_open_to_write)
        self.size = os.fstat(self.fd).st_size

    def open_or_create(self) -> None:
        """Open it to be written anew; one that somebody removed is made again. Raises OSError."""
        if self.fd < 0:
            self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def stat(self) -> os.stat_result:
        """Raises OSError, CorruptLog."""
        return self._call_on_path(os.stat)

    def _call_on_path(self, call: Callable[[str], T]) -> T:
        """The result of a system call on the file's path. Raises OSError; CorruptLog where just this file is gone."""
        try:
            return call(self.path)
        except FileNotFoundError as error:
            if not os.path.isdir(self.directory):
                raise  # the whole log, or the mount
            raise self.corrupt(BadBatch(0, "somebody removed the file")) from error

    def check_whole(self) -> None:
        """Raises CorruptLog where somebody has cut the open file: it is shorter than the bytes that were counted in."""
        stands = os.lseek(self.fd, 0, os.SEEK_END)  # all reads and writes name their place
        if stands < self.size:
            raise self.cut_short(stands, self.size)

    def cut(self, size: int) -> None:
        """Cut the file to this size, durably. Raises OSError."""
        if os.fstat(self.fd).st_size != size:
            os.ftruncate(self.fd, size)
            os.fsync(self.fd)
        self.size = size

    def walk(self, position: int, end: int = -1, verify_crc: bool = False) -> Iterator[BatchAt]:
        """Batches from position to end (of the segment by default), whose offsets follow one another."""
        expected = self.base_offset if position == 0 else None
        try:
            for batch in walk(self.fd, position, self.size if end < 0 else end, verify_crc):
                if expected is not None and batch.base_offset != expected:
                    self.check_gap(batch, expected)
                yield batch
                expected = batch.last_offset + 1
        except BadBatch as bad:
            raise self.corrupt(bad) from bad

    def check_gap(self, batch: BatchAt, expected: Offset) -> None:
        """Raises CorruptLog where this batch must not stand where `expected` is due."""
        if batch.base_offset < expected or not self.gaps or batch.last_offset - self.base_offset > INT32_MAX:
            raise self.corrupt(BadBatch(batch.position, f"base offset {batch.base_offset} where {expected} is due"))

    def header_at(self, position: int) -> BatchAt:
        """Raises OSError, CorruptLog."""
        try:
            return self.parse_at(position)
        except BadBatch as bad:
            raise self.corrupt(bad) from bad

    def parse_at(self, position: int) -> BatchAt:
        """Raises OSError, BadBatch."""
        data = os.pread(self.fd, HEADER_SIZE, position)
        return parse_header(data, 0, position, self.size)[0]

    def cut_short(self, stands: int, known: int) -> CorruptLog:
        """What to raise for a file that ends at `stands`, though `known` bytes were written."""
        return self.corrupt(BadBatch(stands, f"the file ends here, {known} bytes were written"))

    def corrupt(self, bad: BadBatch) -> CorruptLog:
        """The error, to be raised, that names partition, file and what is wrong with a batch of it."""
        return CorruptLog(self.topic_partition, self.path, str(bad))
