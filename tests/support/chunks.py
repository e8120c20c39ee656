"""Chunks of answers and of reads as bytes."""

from __future__ import annotations

import os

from broker.wire.chunks import Chunk, FileSlice


def chunk_view(chunk: Chunk) -> memoryview:
    """The bytes of a chunk, read if they are in a file."""
    if isinstance(chunk, FileSlice):
        data = os.pread(chunk.fd, chunk.length, chunk.position)
        assert len(data) == chunk.length
        return memoryview(data)
    return memoryview(chunk)
