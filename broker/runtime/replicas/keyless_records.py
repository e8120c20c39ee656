"""What a compacted topic refuses of a producer: records without a key, of which compaction could keep none.

The one check that looks into a produced batch; only compacted topics pay for it.
Source: LogValidator.validateKey, processRecordErrors; RecordError.
"""

from __future__ import annotations

from broker.wire.compression import CodecMissing, CompressionError, InflatesTooFar
from broker.wire.errors import ErrorCode
from broker.wire.raw_records import inflated, raw_records
from broker.wire.record_batch import BatchHeader, CorruptBatch, ImpossibleTimestamp, InvalidBatch

RECORDS_MAX = 500_000
_SHOWN_MAX = 3


def refuse_keyless(header: BatchHeader, batch: memoryview, name: str) -> InvalidBatch | None:
    """None when every record has a key. name: the partition's, as Kafka prints it."""
    if header.record_count > RECORDS_MAX:
        # The check holds up other clients' requests; a few hundred KB can hold records that take more than a minute.
        text = f"a batch of {header.record_count} records; a compacted topic takes at most {RECORDS_MAX} in one"
        return InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, text)
    try:
        payload = inflated(header, batch)
        keyless = [place for place, record in enumerate(raw_records(header, payload)) if record.key is None]
    except InflatesTooFar as too_far:
        return InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, f"to be looked at for its keys: {too_far}")
    except CodecMissing as missing:
        # Not CORRUPT_MESSAGE: producers send that again until their time is over.
        return InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(missing))
    except ImpossibleTimestamp as impossible:
        return InvalidBatch(ErrorCode.INVALID_TIMESTAMP, impossible.reason)
    except (CompressionError, CorruptBatch) as corrupt:
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, str(corrupt))
    if not keyless:
        return None
    text = f"Compacted topic cannot accept message without key in topic partition {name}"
    shown = ", ".join(f"RecordError(batchIndex={place}, message='{text}')" for place in keyless[:_SHOWN_MAX])
    return InvalidBatch(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(keyless)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]",
    )
