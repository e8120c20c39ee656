"""Entries of an `.index` or `.timeindex` file, for reading only, and the log that they are checked against.

A broker that runs, or was killed, may leave room at an index's end that Kafka took in advance: entries of zeros from
some point on are such room and not entries. Memory is bounded whatever the file's size. Source: AbstractIndex.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from broker.log.files.batch_scan import BadBatch, BatchAt, parse_header, walk
from broker.wire.record_batch import HEADER_SIZE

_ENTRIES_AT_ONCE = 4096


class BadIndex(ValueError):
    """The file as a whole cannot be right."""


def check_size(size: int, entry: struct.Struct) -> None:
    """Raises BadIndex."""
    if size % entry.size:
        whole = size - size % entry.size
        raise BadIndex(f"at position {whole}: {size} bytes, which is no multiple of the {entry.size} of an entry")


def entries(fd: int, entry: struct.Struct) -> Iterator[tuple[int, int, int]]:
    """(position in the file, both fields) of each entry before the unused room; a part of one at the end is left out.

    Raises BadIndex where something follows what looks like unused room.
    """
    unused_from = -1
    position = 0
    nothing = bytes(entry.size)
    while True:
        data = os.pread(fd, _ENTRIES_AT_ONCE * entry.size, position)
        if unused_from >= 0 and not any(data):
            if not data:
                return
            position += len(data)
            continue
        for at in range(0, len(data) - entry.size + 1, entry.size):
            if data[at : at + entry.size] == nothing:
                if unused_from < 0:
                    unused_from = position + at
                continue
            if unused_from >= 0:
                raise BadIndex(f"at position {unused_from}: zeros, with entries again from position {position + at} on")
            first, second = entry.unpack_from(data, at)
            yield position + at, first, second
        if len(data) < _ENTRIES_AT_ONCE * entry.size:
            return
        position += len(data)


class Log:
    """The `.log` file beside an index."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.size = os.fstat(fd).st_size

    def batch_at(self, position: int) -> BatchAt:
        """By its header alone. Raises BadBatch."""
        if not 0 <= position < self.size:
            raise BadBatch(position, f"the log has {self.size} bytes")
        return parse_header(os.pread(self._fd, HEADER_SIZE, position), 0, position, self.size)[0]

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[BatchAt]:
        """From position to the end. Raises BadBatch at the first that is none."""
        return walk(self._fd, position, self.size if end is None else min(end, self.size))
