"""Record batch headers read from a file, with or without the CRC of their content.

Decides whether bytes at a position can be a batch (magic 2, sane length, CRC32C); knows nothing of which offsets a
log expects there. Memory stays bounded whatever a damaged length says. Source: DefaultRecordBatch (KIP-98).
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from broker.model.ids import Offset
from broker.wire.record_batch import CRC_START, HEADER, HEADER_SIZE, LENGTH_PREFIX_SIZE, MAGIC, CorruptBatch

# The front of wire's header, as far as the log needs it:
# base offset, batch length, leader epoch, magic, crc, attributes, last offset delta, base and max timestamp
_HEADER = struct.Struct(">qiibIhiqq")
_SMALLEST_LENGTH = HEADER_SIZE - LENGTH_PREFIX_SIZE
_WINDOW_BYTES = 8192
_CRC_CHUNK_BYTES = 1 << 20
_LOOK_BYTES = 4096


class BatchAt(NamedTuple):
    """A batch's place in a segment and what the log needs of its header. Offsets [base_offset, last_offset]."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    epoch: int
    max_timestamp: int
    attributes: int

    @property
    def end(self) -> int:
        """Position in the file of the first byte behind the batch."""
        return self.position + self.size


class BadBatch(ValueError):
    """Bytes at `position` are no valid batch."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at position {position}: {reason}")
        self.position = position
        self.reason = reason


def walk(fd: int, position: int, end: int, verify_crc: bool = False) -> Iterator[BatchAt]:
    """Batches of [position, end), one after the other. Raises BadBatch at the first that cannot be one.

    Without verify_crc only headers are read.
    """
    window_bytes = _CRC_CHUNK_BYTES if verify_crc else _WINDOW_BYTES
    window = b""
    window_at = position
    while position < end:
        offset = position - window_at
        if not 0 <= offset <= len(window) - HEADER_SIZE:
            window = os.pread(fd, min(window_bytes, end - position), position)
            window_at, offset = position, 0
        batch, crc = parse_header(window, offset, position, end)
        if verify_crc:
            if offset + batch.size > len(window) and batch.size <= window_bytes:
                window = os.pread(fd, min(window_bytes, end - position), position)
                window_at, offset = position, 0
            if offset + batch.size <= len(window):
                _compare(batch, crc32c(memoryview(window)[offset + CRC_START : offset + batch.size]), crc)
            else:
                _check_crc(fd, batch, crc)
        yield batch
        position += batch.size


def parse_header(data: bytes | memoryview, offset: int, position: int, end: int) -> tuple[BatchAt, int]:
    """The batch whose header is at data[offset:] and which starts at file position `position`, and its stored CRC.

    Raises BadBatch unless it lies within the file's first `end` bytes.
    """
    if len(data) - offset < HEADER_SIZE:
        raise BadBatch(position, f"{end - position} bytes are too few for a batch header")
    base, length, epoch, magic, crc, attributes, delta, _, max_timestamp = _HEADER.unpack_from(data, offset)
    if magic != MAGIC:
        raise BadBatch(position, f"magic {magic}, only {MAGIC} is stored")
    if length < _SMALLEST_LENGTH:
        raise BadBatch(position, f"batch length {length} is below {_SMALLEST_LENGTH}")
    size = length + LENGTH_PREFIX_SIZE
    if size > end - position:
        raise BadBatch(position, f"batch of {size} bytes, {end - position} are left")
    if base < 0 or delta < 0:
        raise BadBatch(position, f"base offset {base} and last offset delta {delta}: neither may be negative")
    return BatchAt(position, size, base, base + delta, epoch, max_timestamp, attributes), crc


def verify_bytes(data: memoryview, position: int) -> None:
    """Raise BadBatch unless `data`, read from file position `position`, is a sequence of whole valid batches."""
    offset = 0
    while offset < len(data):
        batch, crc = parse_header(data, offset, position + offset, position + len(data))
        _compare(batch, crc32c(data[offset + CRC_START : offset + batch.size]), crc)
        offset += batch.size


def end_offset_in_file(fd: int, start: int, length: int) -> Offset:
    """Next offset after the last batch of these bytes of a file, whole batches; little but their headers is read.

    Raises CorruptBatch where these bytes are no longer whole consecutive batches; OSError.
    """
    position, stop, end = start, start + length, -1
    block, block_at = b"", start
    while position < stop:
        if position + HEADER_SIZE > block_at + len(block):
            block, block_at = os.pread(fd, min(_LOOK_BYTES, stop - position), position), position
            if len(block) < HEADER_SIZE:
                raise CorruptBatch(position - start, f"{len(block)} bytes of the file are left")
        values = HEADER.unpack_from(block, position - block_at)
        base, size, delta = values[0], values[1] + LENGTH_PREFIX_SIZE, values[6]
        if size < HEADER_SIZE or position + size > stop or delta < 0 or base < max(end, 0):
            raise CorruptBatch(position - start, f"base offset {base}, {delta} more, {size} bytes: no such batch")
        end = base + delta + 1
        position += size
    return end


def find_valid_batch(fd: int, start: int, end: int, offset: int, limit_bytes: int = 64 << 20) -> BatchAt | None:
    """The first valid batch at or after position `start`, whose base offset is in [offset, offset + 2³¹).

    Looks through at most limit_bytes. Tells a torn tail (nothing valid follows) from damage in the middle.
    """
    end_of_search = min(end, start + limit_bytes)
    heads = {(offset >> 32).to_bytes(4, "big"), ((offset + (1 << 31)) >> 32).to_bytes(4, "big")}
    pattern = re.compile(b"(?=(?:" + b"|".join(re.escape(head) for head in sorted(heads)) + b")[\\s\\S]{12}\\x02)")
    overlap = HEADER_SIZE
    position = start
    while position < end_of_search:
        data = os.pread(fd, min(_CRC_CHUNK_BYTES, end_of_search - position) + overlap, position)
        for match in pattern.finditer(data):
            at = match.start()
            if at + HEADER_SIZE > len(data):
                break
            try:
                batch, crc = parse_header(data, at, position + at, end)
                if offset <= batch.base_offset < offset + (1 << 31):
                    _check_crc(fd, batch, crc)
                    return batch
            except BadBatch:
                continue
        position += _CRC_CHUNK_BYTES
    return None


def _check_crc(fd: int, batch: BatchAt, stored: int) -> None:
    position = batch.position + CRC_START
    crc = 0
    while position < batch.end:
        data = os.pread(fd, min(_CRC_CHUNK_BYTES, batch.end - position), position)
        if not data:
            raise BadBatch(batch.position, "the file ended while the batch was read")
        crc = crc32c(data, crc)
        position += len(data)
    _compare(batch, crc, stored)


def _compare(batch: BatchAt, found: int, stored: int) -> None:
    if found != stored:
        raise BadBatch(batch.position, f"CRC32C is {found:#010x}, the header says {stored:#010x}")
