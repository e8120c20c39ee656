"""Pieces of a response that are sent one after the other without being joined.

A `FileSlice` stands for bytes that never enter this process's memory when they are many (sendfile).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class FileSlice(NamedTuple):
    """Bytes [position, position + length) of an open file, for sendfile or pread.

    The file must stay open and keep these bytes until they are sent. A sender that reads short closes its
    connection: the length prefix has gone out, so nothing else can be right.
    """

    fd: int
    position: int
    length: int


Chunk = bytes | bytearray | memoryview | FileSlice


def chunk_length(chunk: Chunk) -> int:
    """Bytes that this chunk puts on the wire. A memoryview must be one of bytes (format B)."""
    return chunk.length if isinstance(chunk, FileSlice) else len(chunk)


def chunks_length(chunks: Iterable[Chunk]) -> int:
    """Bytes that these chunks put on the wire together."""
    length = 0
    for chunk in chunks:
        length += chunk.length if isinstance(chunk, FileSlice) else len(chunk)
    return length
