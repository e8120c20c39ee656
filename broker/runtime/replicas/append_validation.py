"""What a leader checks of a batch that it is to append: that the bytes are one sound batch, and one its topic takes.

A batch is checked once (header, CRC) and stays opaque, but for compacted topics, which look for keys. Knows no log.
Source: kafka.log.LogValidator, UnifiedLog.analyzeAndValidateRecords; ProduceRequest.validateRecords.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.runtime.replicas.keyless_records import refuse_keyless
from broker.runtime.replicas.replica import Replica
from broker.wire.compression import Compression
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import (
    COMPRESSION_MASK,
    LENGTH_PREFIX_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    check_crc,
    read_header,
    validate_produced,
)

_ZSTD = int(Compression.ZSTD)
_REFUSED_BITS = TRANSACTIONAL_BIT | TIMESTAMP_TYPE_BIT
_ONE_BATCH = "a Produce request must carry exactly one batch"


class Refusal(NamedTuple):
    """Why a batch is not appended. malformed: its bytes are no batch that any producer should send."""

    error: ErrorCode
    reason: str
    malformed: bool = False


def validated(replica: Replica, records: memoryview | None, zstd_from: int | None) -> BatchHeader | Refusal:
    """The header of a batch that may be appended. zstd_from: see `Appender.append_records`."""
    header = _sound_header(records, replica.max_batch_bytes)
    if isinstance(header, Refusal) or records is None:
        return header
    refusal = _feature_refusal(replica, header, records, zstd_from)
    return header if refusal is None else refusal


def _sound_header(records: memoryview | None, max_batch_bytes: int) -> BatchHeader | Refusal:
    """The header of the one batch that `records` must be, whose CRC is right and whose counts can be true."""
    if not records:
        return Refusal(ErrorCode.INVALID_RECORD, _ONE_BATCH, True)
    try:
        header = read_header(records, 0)
        size = header.batch_length + LENGTH_PREFIX_SIZE
        if size != len(records):
            return Refusal(ErrorCode.INVALID_RECORD, _ONE_BATCH, True)
        if size > max_batch_bytes:
            text = f"a batch of {size} bytes, max.message.bytes is {max_batch_bytes}"
            return Refusal(ErrorCode.MESSAGE_TOO_LARGE, text)
        check_crc(records, 0, header)
    except UnsupportedMagic as magic:
        return Refusal(ErrorCode.INVALID_RECORD, str(magic), True)
    except CorruptBatch as corrupt:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(corrupt), True)
    invalid = validate_produced(header)
    if invalid is not None:
        return Refusal(invalid.error, invalid.reason, True)
    return header


def _feature_refusal(
    replica: Replica, header: BatchHeader, records: memoryview, zstd_from: int | None
) -> Refusal | None:
    """Why this broker or this topic does not take such a batch."""
    attributes = header.attributes
    if zstd_from is not None and attributes & COMPRESSION_MASK == _ZSTD:
        text = f"zstd needs a Produce request of version {zstd_from} at least"
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
    if attributes & _REFUSED_BITS:
        if attributes & TRANSACTIONAL_BIT:
            return Refusal(ErrorCode.INVALID_TXN_STATE, "transactions are not served")
        text = "a producer should not set the timestamp type to LogAppendTime"
        return Refusal(ErrorCode.INVALID_TIMESTAMP, text)
    if replica.compacted:
        invalid = refuse_keyless(header, records, replica.name)
        if invalid is not None:
            return Refusal(invalid.error, invalid.reason)
    return None
