"""Record batches, magic 2: their header, their check, and where the broker may write into them.

A produced batch stays opaque: base offset and partition leader epoch lie outside the CRC and are stamped in place,
nothing is re-encoded. Magic 0 and 1 are refused. Bytes that are no batch raise `CorruptBatch` and nothing else.
`records` builds batches and reads single records; the broker's hot path needs neither.
Source: KIP-98; org.apache.kafka.common.record.DefaultRecordBatch; kafka LogValidator.validateBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import crc32c

from broker.wire.compression import Compression
from broker.wire.errors import ErrorCode

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LENGTH_PREFIX_SIZE: Final = 12  # base offset and batch length, which batch_length does not count
CRC_START: Final = 21  # attributes: the first byte under the CRC
MAGIC: Final = 2
RECORD_SIZE_MIN: Final = 7  # without key, value and headers
_LENGTH_OF_NO_RECORDS: Final = HEADER_SIZE - LENGTH_PREFIX_SIZE

COMPRESSION_MASK: Final = 0x07
_COMPRESSION_MAX: Final = int(Compression.ZSTD)  # an enum member costs a slow lookup
# Bytes that a byte inflates to at most, by codec: an RLE block of zstd, a copy of snappy, a run length of lz4.
_INFLATED_MAX: Final = (1, 1032, 22, 256, 32768)
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

_new = tuple.__new__  # a NamedTuple's own constructors cost two to three times as much
_PREFIX = struct.Struct(">qiib")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_CRC_AT: Final = 17


class CorruptBatch(Exception):
    """Bytes that are no whole, undamaged batch. position: where the batch starts in the view."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"corrupt batch at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class ImpossibleTimestamp(CorruptBatch):
    """A record's timestamp, base plus delta, does not fit in 64 bits. Kafka's wraps around."""


class UnsupportedMagic(CorruptBatch):
    """A message set of the formats before 0.11."""

    def __init__(self, position: int, magic: int) -> None:
        super().__init__(position, f"magic {magic}; only magic 2 (Kafka 0.11 and later) is served")
        self.magic = magic


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, as they are."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_PREFIX_SIZE

    @property
    def last_offset(self) -> int:
        """Inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Inclusive; sequences wrap from 2^31 − 1 to 0. −1 without a sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> int:
        """A `Compression` value, or one of 5-7, which nobody uses."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Timestamps are the leader's; a record's own deltas count for nothing."""
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction: records of it, or its marker (`is_control`)."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Holds a transaction's marker, and no record of a client."""
        return bool(self.attributes & CONTROL_BIT)


class InvalidBatch(NamedTuple):
    """Why a producer may not append this batch."""

    error: ErrorCode
    reason: str


def read_header(view: memoryview, position: int = 0) -> BatchHeader:
    """The header at position; raises CorruptBatch when the batch is not whole, too short, or not magic 2."""
    left = len(view) - position
    if left >= HEADER_SIZE:
        values = HEADER.unpack_from(view, position)
        if values[3] == MAGIC and HEADER_SIZE <= values[1] + LENGTH_PREFIX_SIZE <= left:
            return _new(BatchHeader, values)
    raise _why_no_header(view, position, left)


def _why_no_header(view: memoryview, position: int, left: int) -> CorruptBatch:
    if left < _PREFIX.size:
        return CorruptBatch(position, f"{left} bytes left, too few for a batch header")
    _, batch_length, _, magic = _PREFIX.unpack_from(view, position)
    if magic in (0, 1):
        return UnsupportedMagic(position, magic)
    if magic != MAGIC:
        return CorruptBatch(position, f"magic {magic} does not exist")
    if batch_length < HEADER_SIZE - LENGTH_PREFIX_SIZE:
        return CorruptBatch(position, f"batch length {batch_length}, which is shorter than a header")
    return CorruptBatch(position, f"batch length {batch_length} with {left - LENGTH_PREFIX_SIZE} bytes left")


def iter_batches(
    view: memoryview, *, verify_crc: bool, allow_partial_tail: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch in view, in order; raises CorruptBatch at the first bytes that are no batch.

    allow_partial_tail: stop silently where the last batch is cut off, as a broker may cut a fetch response.
    """
    position = 0
    end = len(view)
    while position < end:
        if allow_partial_tail and is_cut_off(view, position):
            return
        header = read_header(view, position)
        if verify_crc:
            check_crc(view, position, header)
        yield position, header
        position += header.batch_length + LENGTH_PREFIX_SIZE


def end_offset_of(view: memoryview) -> int:
    """Next offset after the last of the whole batches in view, −1 without any; raises CorruptBatch as read_header."""
    position, end = 0, -1
    while position < len(view):
        header = read_header(view, position)
        end = header.last_offset + 1
        position += header.size
    return end


def checked_headers(view: memoryview) -> tuple[list[BatchHeader], int]:
    """(headers, bytes) of the whole batches in view, their CRCs checked; a last batch may be cut off. Raises
    CorruptBatch at the first bytes that are no batch.
    """
    headers: list[BatchHeader] = []
    position = 0
    end = len(view)
    unpack, crc32c_of, new, keep = HEADER.unpack_from, crc32c.crc32c, _new, headers.append
    while end - position >= HEADER_SIZE:
        values = unpack(view, position)
        size = values[1] + LENGTH_PREFIX_SIZE
        if values[3] != MAGIC or size < HEADER_SIZE or size > end - position:
            break
        header = new(BatchHeader, values)
        if crc32c_of(view[position + CRC_START : position + size]) != values[4]:
            check_crc(view, position, header)
        keep(header)
        position += size
    if position < end and not is_cut_off(view, position):
        raise _why_no_header(view, position, end - position)
    return headers, position


def is_cut_off(view: memoryview, position: int) -> bool:
    """Whether view ends before the batch at position does."""
    left = len(view) - position
    if left < LENGTH_PREFIX_SIZE:
        return True
    batch_length: int = _PREFIX.unpack_from(view, position)[1] if left >= _PREFIX.size else left
    return batch_length + LENGTH_PREFIX_SIZE > left


def seal(header: BatchHeader, batch: memoryview) -> BatchHeader:
    """Write the header in front of its records, with a new CRC; returns the header with that CRC.

    batch: writable, filled by this batch.
    """
    HEADER.pack_into(batch, 0, *header)
    crc = crc32c.crc32c(batch[CRC_START:])
    _CRC.pack_into(batch, _CRC_AT, crc)
    return header._replace(crc=crc)


def check_crc(view: memoryview, position: int, header: BatchHeader) -> None:
    """Raises CorruptBatch unless the CRC32C over attributes to end is the header's."""
    computed = crc32c.crc32c(view[position + CRC_START : position + header.batch_length + LENGTH_PREFIX_SIZE])
    if computed != header.crc:
        raise CorruptBatch(position, f"CRC32C is {computed:#010x}, the header says {header.crc:#010x}")


def validate_produced(header: BatchHeader) -> InvalidBatch | None:
    """What a leader refuses of a producer beyond damaged bytes; None when the batch is fine.

    Records are not read; an impossible count is found without that (docs/adr/0018).
    """
    attributes = header.attributes
    count = header.record_count
    producer_id = header.producer_id
    if count <= 0:
        return InvalidBatch(ErrorCode.INVALID_RECORD, f"a batch of {count} records")
    if count != header.last_offset_delta + 1:
        return InvalidBatch(
            ErrorCode.INVALID_RECORD, f"{count} records, but offsets for {header.last_offset_delta + 1}"
        )
    compression = attributes & COMPRESSION_MASK
    if compression > _COMPRESSION_MAX:
        return InvalidBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression type {header.compression} does not exist"
        )
    size = header.batch_length - _LENGTH_OF_NO_RECORDS
    if count * RECORD_SIZE_MIN > size * _INFLATED_MAX[compression]:
        return InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"{count} records of {RECORD_SIZE_MIN} bytes or more in {size} bytes"
            + (f" of compression type {compression}" if compression else ""),
        )
    if attributes & CONTROL_BIT:
        return InvalidBatch(ErrorCode.INVALID_RECORD, "clients are not allowed to write control batches")
    if producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        return InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"producer {producer_id} with epoch {header.producer_epoch}, sequence {header.base_sequence}",
        )
    if attributes & TRANSACTIONAL_BIT and producer_id < 0:
        return InvalidBatch(ErrorCode.INVALID_RECORD, "a transactional batch without a producer id")
    return None


def stamp(view: memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and partition leader epoch in place; view must be writable."""
    _BASE_OFFSET.pack_into(view, position, base_offset)
    _LEADER_EPOCH.pack_into(view, position + LENGTH_PREFIX_SIZE, leader_epoch)
