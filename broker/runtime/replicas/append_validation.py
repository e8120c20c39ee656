"""What a leader checks of a batch that it is to append: that the bytes are one sound batch, and one its topic takes.

A batch is checked once (header, CRC) and stays opaque, but for compacted topics, which look for keys. Knows no log.
Source: kafka.log.LogValidator, UnifiedLog.analyzeAndValidateRecords; ProduceRequest.validateRecords.
"""

from __future__ import annotations

from typing import Final

from broker.runtime.replicas.keyless_records import refuse_keyless
from broker.runtime.replicas.replica import PendingAppend, Replica
from broker.wire.compression import Compression
from broker.wire.control_records import EndOfTransaction, marker_of
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

_ZSTD: Final = int(Compression.ZSTD)
_REFUSED_BITS: Final = TRANSACTIONAL_BIT | TIMESTAMP_TYPE_BIT
_ONE_BATCH: Final = "a Produce request must carry exactly one batch"


def validated(
    append: PendingAppend, replica: Replica, records: memoryview | None, zstd_from: int | None
) -> BatchHeader | None:
    """The header of a batch that may be appended; None where `append` now says why not.

    zstd_from: see `Appender.append_records`.
    """
    header = _sound_header(append, records, replica.max_batch_bytes)
    if header is None or records is None:
        return None
    invalid = validate_produced(header)
    if invalid is not None:
        append.refuse_malformed(invalid.error, invalid.reason)
        return None
    if not (zstd_from is not None or header.attributes & _REFUSED_BITS or replica.compacted):
        return header  # the usual batch: nothing below looks at more of it
    return None if _lacks_feature(append, replica, header, records, zstd_from) else header


def coordinators_header(append: PendingAppend, replica: Replica, records: memoryview | None) -> BatchHeader | None:
    """The header of a batch that a coordinator of this cluster has made; None where `append` now says why not.

    A batch of a transaction and a marker have to fit their producer's epoch, a marker its coordinators' too.
    """
    header = _sound_header(append, records, replica.max_batch_bytes)
    if header is None or records is None:
        return None
    producers = replica.log.producers
    if header.is_control:
        end = _marker(append, header, records)
        if end is None:
            return None
        error = producers.check_marker(header.producer_id, header.producer_epoch, end.coordinator_epoch)
    elif header.producer_id < 0:
        return header
    else:
        error = producers.check_epoch(header.producer_id, header.producer_epoch)
    if error is not ErrorCode.NONE:
        append.refuse(error, f"producer {header.producer_id} epoch {header.producer_epoch}")
        return None
    return header


def _marker(append: PendingAppend, header: BatchHeader, records: memoryview) -> EndOfTransaction | None:
    """What the batch says of its transaction's end: no other control record has a place in a partition."""
    if header.producer_id < 0 or header.producer_epoch < 0:
        text = f"a marker of producer {header.producer_id} epoch {header.producer_epoch}: both must be 0 or above"
        append.refuse_malformed(ErrorCode.INVALID_RECORD, text)
        return None
    try:
        end = marker_of(header, records)
    except CorruptBatch as corrupt:
        append.refuse_malformed(ErrorCode.CORRUPT_MESSAGE, str(corrupt))
        return None
    if end is None:
        append.refuse_malformed(ErrorCode.INVALID_RECORD, "a control batch must hold a marker: COMMIT or ABORT")
    return end


def _sound_header(append: PendingAppend, records: memoryview | None, max_batch_bytes: int) -> BatchHeader | None:
    """The header of the one batch that `records` must be, whose CRC is right."""
    if not records:
        append.refuse_malformed(ErrorCode.INVALID_RECORD, _ONE_BATCH)
        return None
    try:
        header = read_header(records, 0)
        size = header.batch_length + LENGTH_PREFIX_SIZE
        if size != len(records):
            append.refuse_malformed(ErrorCode.INVALID_RECORD, _ONE_BATCH)
            return None
        if size > max_batch_bytes:
            text = f"a batch of {size} bytes, max.message.bytes is {max_batch_bytes}"
            append.refuse(ErrorCode.MESSAGE_TOO_LARGE, text)
            return None
        check_crc(records, 0, header)
    except UnsupportedMagic as magic:
        append.refuse_malformed(ErrorCode.INVALID_RECORD, str(magic))
        return None
    except CorruptBatch as corrupt:
        append.refuse_malformed(ErrorCode.CORRUPT_MESSAGE, str(corrupt))
        return None
    return header


def _lacks_feature(
    append: PendingAppend, replica: Replica, header: BatchHeader, records: memoryview, zstd_from: int | None
) -> bool:
    """Whether this broker or this topic does not take such a batch; `append` says why then."""
    attributes = header.attributes
    if zstd_from is not None and attributes & COMPRESSION_MASK == _ZSTD:
        text = f"zstd needs a Produce request of version {zstd_from} at least"
        append.refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
        return True
    if attributes & _REFUSED_BITS:
        if attributes & TIMESTAMP_TYPE_BIT:
            text = "a producer should not set the timestamp type to LogAppendTime"
            append.refuse(ErrorCode.INVALID_TIMESTAMP, text)
            return True
        if not append.in_transaction:
            text = "a batch of a transaction in a request without a transactional id"
            append.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)
            return True
    if replica.compacted:
        invalid = refuse_keyless(header, records, replica.name)
        if invalid is not None:
            append.refuse(invalid.error, invalid.reason)
            return True
    return False
