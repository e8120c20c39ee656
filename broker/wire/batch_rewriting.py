"""A batch as a topic wants it stored, where that is not how it was sent: another codec, the leader's clock, or both.

Records keep their bytes; producer id, epoch, sequence, offset deltas, base timestamp and all other attributes stay.
A new timestamp alone is written in place. Records are not decoded: before they are compressed anew their lengths are
checked against the header's count, so that no record is lost that the old codec's reader left out.
Source: LogValidator (assignOffsetsNonCompressed, buildRecordsAndAssignOffsets), DefaultRecordBatch.setMaxTimestamp.
"""

from __future__ import annotations

from broker.wire.compression import Compression, compress, decompress
from broker.wire.raw_records import read_varint
from broker.wire.record_batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    RECORD_SIZE_MIN,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    CorruptBatch,
    seal,
)


def with_append_time(header: BatchHeader, batch: memoryview, append_time_ms: int) -> BatchHeader:
    """Write the leader's time into the batch, which is writable and fills its view; the header that it has then."""
    changed = header._replace(attributes=header.attributes | TIMESTAMP_TYPE_BIT, max_timestamp=append_time_ms)
    return seal(changed, batch)


def with_codec(
    header: BatchHeader,
    batch: memoryview,
    codec: Compression,
    level: int | None,
    inflated_max: int,
    append_time_ms: int | None = None,
) -> tuple[BatchHeader, memoryview]:
    """A new batch with the same records in `codec`, and append_time_ms for their timestamps if there is one.

    Raises CompressionError (InflatesTooFar above inflated_max bytes of records, CodecMissing); CorruptBatch unless
    the inflated bytes are as many records as the header says.
    """
    payload: memoryview | bytes = batch[HEADER_SIZE : header.size]
    if header.compression:
        payload = decompress(Compression(header.compression), payload, inflated_max)
    follow_lengths(payload, header.record_count)
    packed = compress(codec, payload, level)
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    if append_time_ms is not None:
        attributes |= TIMESTAMP_TYPE_BIT
    changed = header._replace(
        batch_length=HEADER_SIZE - LENGTH_PREFIX_SIZE + len(packed),
        attributes=attributes,
        max_timestamp=header.max_timestamp if append_time_ms is None else append_time_ms,
    )
    new = bytearray(HEADER_SIZE)
    new += packed
    view = memoryview(new)
    return seal(changed, view), view


def follow_lengths(payload: memoryview | bytes, count: int) -> None:
    """Raises CorruptBatch unless payload is `count` records by their lengths, and nothing else."""
    size = len(payload)
    if count * RECORD_SIZE_MIN > size:
        raise CorruptBatch(0, f"{count} records of {RECORD_SIZE_MIN} bytes or more in {size} bytes")
    position = 0
    try:
        for _ in range(count):
            length = payload[position]
            position += 1
            if length >= 0x80 or length & 1:
                length, position = read_varint(payload, position - 1)
                if length < 0:
                    raise CorruptBatch(0, f"a record of {length} bytes")
                position += length
            else:
                position += length >> 1
            if position > size:
                break
    except IndexError:
        position = size + 1
    if position != size:
        raise CorruptBatch(
            0, f"{count} records by the header, but their lengths do not fill the {size} bytes there are"
        )
