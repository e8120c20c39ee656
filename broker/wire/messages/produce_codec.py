"""Produce, by hand: the request that a broker decodes for every batch it takes (versions 3-9).

The usual shape, one partition and no transaction, goes through a few `struct` calls; whatever else comes, damaged
bytes included, goes through the careful reader, which alone raises. So does the response. Records stay views into the
frame; nothing is built per record. Partitions are one flat list in the order sent, and the response lists them in the
order of `results`, neighbours of one topic under one name.
Source: ProduceRequest.json, ProduceResponse.json; KIP-467 (v8), KIP-482 (v9).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from broker.wire.api import FLEXIBLE_FROM, SUPPORTED, ApiKey
from broker.wire.messages.grouping import by_topic
from broker.wire.messages.produce_fields import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
    UsualProduce,
)
from broker.wire.primitives import ELEMENTS_MAX, Reader, Writer

_FLEXIBLE: Final = FLEXIBLE_FROM[ApiKey.PRODUCE]
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_RESULT_V3 = struct.Struct(">ihqq")
_RESULT_V5 = struct.Struct(">ihqqq")
# transactional id null, acks, time-out, one topic, length of its name
_USUAL_START = struct.Struct(">hhiih")
_USUAL_START_COMPACT = struct.Struct(">bhiBB")
_NAME_LENGTH_AT: Final = 12
_NAME_LENGTH_COMPACT_AT: Final = 8
# one partition, its index; the length of its records comes next
_USUAL_PARTITION = struct.Struct(">ii")
_USUAL_PARTITION_COMPACT = struct.Struct(">Bi")
# Five bytes of a length. A frame may be 100 MB of bytes that say that another one follows.
_LENGTH_BITS: Final = 35
_INT32 = struct.Struct(">i")
_USUAL_RESULT_START = struct.Struct(">ih")
_USUAL_RESULT = {
    version: struct.Struct(">iihqq" + ("q" if version >= 5 else "") + ("ih" if version >= 8 else "") + "i")
    for version in range(SUPPORTED[ApiKey.PRODUCE].first, _FLEXIBLE)
}
_USUAL_RESULT_COMPACT = struct.Struct(">ihqqqBBBBiB")
_PARTITION_SIZE_MIN: Final = 5
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much
_TOPIC_SIZE_MIN: Final = 2
_TOPIC_NAME_MAX: Final = 249


def decode_usual(version: int, view: memoryview) -> UsualProduce | None:
    """view: the body. None for every other request, and for damaged bytes: `decode_request` takes those."""
    try:
        if version < _FLEXIBLE:
            return _decode_usual_classic(view)
        start = _USUAL_START_COMPACT.size + view[_NAME_LENGTH_COMPACT_AT] - 1 + _USUAL_PARTITION_COMPACT.size
        known = _read_compact(bytes(view[:start]))
        if known is None:
            return None
        byte = view[start]
        start += 1
        length = byte & 0x7F
        shift = 7
        while byte > 0x7F and shift <= _LENGTH_BITS:
            byte = view[start]
            start += 1
            length |= (byte & 0x7F) << shift
            shift += 7
        end = start + length - 1
        if length == 0 or shift > _LENGTH_BITS or end + 3 != len(view) or view[end] or view[end + 1] or view[end + 2]:
            return None
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    acks, timeout_ms, topic, index = known
    return _new(UsualProduce, (acks, timeout_ms, topic, index, view[start:end]))


def decode_request(version: int, view: memoryview) -> ProduceRequest:
    """view: the body. Raises MalformedFrame."""
    usual = decode_usual(version, view)
    if usual is None:
        return _decode_any(version >= _FLEXIBLE, view)
    return ProduceRequest(
        None, usual.acks, usual.timeout_ms, [ProducePartition(usual.topic, usual.partition, usual.records)]
    )


def _decode_usual_classic(view: memoryview) -> UsualProduce | None:
    if view[_NAME_LENGTH_AT]:
        return None  # a name of 256 bytes or more
    start = _USUAL_START.size + view[_NAME_LENGTH_AT + 1] + _USUAL_PARTITION.size
    known = _read_classic(bytes(view[:start]))
    (length,) = _INT32.unpack_from(view, start)
    start += _INT32.size
    if known is None or length < 0 or start + length != len(view):
        return None
    acks, timeout_ms, topic, index = known
    return _new(UsualProduce, (acks, timeout_ms, topic, index, view[start:]))


# A producer repeats the bytes before the records with every request to a partition. Keys are at most some 280 bytes.
@lru_cache(maxsize=16384)
def _read_classic(raw: bytes) -> tuple[int, int, str, int] | None:
    """(acks, time-out, topic, partition) of the bytes before the records' length."""
    no_transaction, acks, timeout_ms, topics, name_length = _USUAL_START.unpack_from(raw)
    name_end = _USUAL_START.size + name_length
    partitions, index = _USUAL_PARTITION.unpack_from(raw, name_end)
    if no_transaction != -1 or topics != 1 or partitions != 1:
        return None
    return acks, timeout_ms, str(raw[_USUAL_START.size : name_end], "utf-8"), index


@lru_cache(maxsize=16384)
def _read_compact(raw: bytes) -> tuple[int, int, str, int] | None:
    no_transaction, acks, timeout_ms, topics, name_length = _USUAL_START_COMPACT.unpack_from(raw)
    if no_transaction != 0 or topics != 2 or not 0 < name_length < 0x80:
        return None
    name_end = _USUAL_START_COMPACT.size + name_length - 1
    partitions, index = _USUAL_PARTITION_COMPACT.unpack_from(raw, name_end)
    if partitions != 2:
        return None
    return acks, timeout_ms, str(raw[_USUAL_START_COMPACT.size : name_end], "utf-8"), index


def _decode_any(compact: bool, view: memoryview) -> ProduceRequest:
    reader = Reader(view, 0, ELEMENTS_MAX)
    transactional_id = reader.nullable_string("transactional_id", compact)
    acks, timeout_ms = reader.unpack(_ACKS_AND_TIMEOUT, "acks, timeout_ms")
    partitions: list[ProducePartition] = []
    for _ in range(reader.count("topic_data", compact, _TOPIC_SIZE_MIN)):
        topic = reader.string("topic", compact)
        for _ in range(reader.count("partition_data", compact, _PARTITION_SIZE_MIN)):
            index = reader.int32("index")
            records = reader.nullable_bytes("records", compact)
            if compact:
                reader.skip_tags("partition tags")
            partitions.append(ProducePartition(topic, index, records))
        if compact:
            reader.skip_tags("topic tags")
    if compact:
        reader.skip_tags("request tags")
    reader.expect_end("ProduceRequest")
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def encode_request(version: int, request: ProduceRequest) -> bytes:
    """The body; partitions of one topic should be neighbours."""
    compact = version >= _FLEXIBLE
    writer = Writer()
    writer.nullable_string(request.transactional_id, compact)
    writer.raw(_ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms))
    groups = by_topic(request.partitions)
    writer.length(len(groups), compact, wide=True)
    for topic, partitions in groups:
        writer.string(topic, compact)
        writer.length(len(partitions), compact, wide=True)
        for partition in partitions:
            writer.int32(partition.partition)
            writer.nullable_bytes(partition.records, compact)
            if compact:
                writer.uvarint(0)
        if compact:
            writer.uvarint(0)
    if compact:
        writer.uvarint(0)
    return bytes(writer.buffer)


def encode_response(version: int, results: Sequence[ProducePartitionResult], throttle_ms: int = 0) -> bytes:
    """The body."""
    compact = version >= _FLEXIBLE
    if len(results) == 1 and results[0].error_message is None:
        usual = _encode_usual(version, compact, results[0], throttle_ms)
        if usual is not None:
            return usual
    writer = Writer()
    groups = by_topic(results)
    writer.length(len(groups), compact, wide=True)
    for topic, group in groups:
        writer.string(topic, compact)
        writer.length(len(group), compact, wide=True)
        for _, partition, error, base_offset, log_append_time, log_start_offset, error_message in group:
            if version >= 5:
                writer.buffer += _RESULT_V5.pack(partition, error, base_offset, log_append_time, log_start_offset)
            else:
                writer.buffer += _RESULT_V3.pack(partition, error, base_offset, log_append_time)
            if version >= 8:
                writer.length(0, compact, wide=True)  # errors of single records: batches are refused whole
                writer.nullable_string(error_message, compact)
            if compact:
                writer.uvarint(0)
        if compact:
            writer.uvarint(0)
    writer.int32(throttle_ms)
    if compact:
        writer.uvarint(0)
    return bytes(writer.buffer)


def _encode_usual(version: int, compact: bool, result: ProducePartitionResult, throttle_ms: int) -> bytes | None:
    """The response for one partition without an error message, as two layouts around the name.

    None for names that no topic can have: they are not kept.
    """
    topic, index, error, base_offset, append_time, log_start_offset, _ = result
    if len(topic) > _TOPIC_NAME_MAX:
        return None
    if compact:
        start = _result_start_compact(topic)
        if not start:
            return None
        return start + _USUAL_RESULT_COMPACT.pack(
            index, error, base_offset, append_time, log_start_offset, 1, 0, 0, 0, throttle_ms, 0
        )
    layout = _USUAL_RESULT[version]
    start = _result_start(topic)
    if version >= 8:
        return start + layout.pack(1, index, error, base_offset, append_time, log_start_offset, 0, -1, throttle_ms)
    if version >= 5:
        return start + layout.pack(1, index, error, base_offset, append_time, log_start_offset, throttle_ms)
    return start + layout.pack(1, index, error, base_offset, append_time, throttle_ms)


@lru_cache(maxsize=4096)
def _result_start(topic: str) -> bytes:
    name = topic.encode("utf-8")
    return _USUAL_RESULT_START.pack(1, len(name)) + name


@lru_cache(maxsize=4096)
def _result_start_compact(topic: str) -> bytes:
    """One topic, its name, one partition; empty for a name too long for one byte's length."""
    name = topic.encode("utf-8")
    return bytes((2, len(name) + 1)) + name + b"\x02" if len(name) <= 126 else b""


def decode_response(version: int, view: memoryview) -> ProduceResponse:
    """view: the body. Errors of single records (v8+) are read over. Raises MalformedFrame."""
    compact = version >= _FLEXIBLE
    reader = Reader(view)
    results: list[ProducePartitionResult] = []
    for _ in range(reader.count("responses", compact, _TOPIC_SIZE_MIN)):
        topic = reader.string("topic", compact)
        for _ in range(reader.count("partition_responses", compact, _RESULT_V3.size)):
            log_start_offset = -1
            if version >= 5:
                index, error, base_offset, append_time, log_start_offset = reader.unpack(_RESULT_V5, "result")
            else:
                index, error, base_offset, append_time = reader.unpack(_RESULT_V3, "result")
            message: str | None = None
            if version >= 8:
                _skip_record_errors(reader, compact)
                message = reader.nullable_string("error_message", compact)
            if compact:
                reader.skip_tags("partition tags")
            results.append(
                ProducePartitionResult(topic, index, error, base_offset, append_time, log_start_offset, message)
            )
        if compact:
            reader.skip_tags("topic tags")
    throttle_time_ms = reader.int32("throttle_time_ms")
    if compact:
        reader.skip_tags("response tags")
    reader.expect_end("ProduceResponse")
    return ProduceResponse(results, throttle_time_ms)


def _skip_record_errors(reader: Reader, compact: bool) -> None:
    for _ in range(reader.count("record_errors", compact, _PARTITION_SIZE_MIN)):
        reader.int32("batch_index")
        reader.nullable_string("batch_index_error_message", compact)
        if compact:
            reader.skip_tags("record error tags")
