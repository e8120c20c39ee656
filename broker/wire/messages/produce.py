"""Produce, by hand: the request that a broker decodes for every batch it takes (versions 3-9).

The usual shape, one partition and no transaction, goes through a few `struct` calls; whatever else comes, damaged
bytes included, goes through the careful reader, which alone raises. The same for the answer.
Records stay views into the frame; nothing is built per record. Partitions are one flat list in the order sent, and
answers go out in the order of `results`, neighbours of one topic under one name.
Source: ProduceRequest.json, ProduceResponse.json; KIP-467 (v8), KIP-482 (v9).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.wire.api import FLEXIBLE_FROM, SUPPORTED, ApiKey
from broker.wire.messages.grouping import by_topic
from broker.wire.primitives import Reader, Writer

_FLEXIBLE: Final = FLEXIBLE_FROM[ApiKey.PRODUCE]
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_RESULT_V3 = struct.Struct(">ihqq")
_RESULT_V5 = struct.Struct(">ihqqq")
# transactional id null, acks, time-out, one topic, length of its name
_USUAL_START = struct.Struct(">hhiih")
_USUAL_START_COMPACT = struct.Struct(">bhiBB")
# one partition, its index (, length of its records)
_USUAL_PARTITION = struct.Struct(">iii")
_USUAL_PARTITION_COMPACT = struct.Struct(">Bi")
_THREE_TIMES_NO_TAGS: Final = b"\0\0\0"
_USUAL_RESULT_START = struct.Struct(">ih")
_USUAL_RESULT = {
    version: struct.Struct(">iihqq" + ("q" if version >= 5 else "") + ("ih" if version >= 8 else "") + "i")
    for version in range(SUPPORTED[ApiKey.PRODUCE].first, _FLEXIBLE)
}
_USUAL_RESULT_COMPACT = struct.Struct(">BihqqqBBBBiB")
_PARTITION_SIZE_MIN: Final = 5
_TOPIC_SIZE_MIN: Final = 2


class ProducePartition(NamedTuple):
    """records: whole batches, a view into the request's frame; None when the client sent null."""

    topic: str
    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    """acks: 0, 1 or −1 for all, unchecked."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[ProducePartition]


class ProducePartitionResult(NamedTuple):
    """error_message is dropped before v8, log_start_offset before v5."""

    topic: str
    partition: int
    error: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


class ProduceResponse(NamedTuple):
    results: list[ProducePartitionResult]
    throttle_time_ms: int = 0


def decode_request(version: int, view: memoryview) -> ProduceRequest:
    """view: the body. Raises MalformedFrame."""
    compact = version >= _FLEXIBLE
    usual = _decode_usual_compact(view) if compact else _decode_usual(view)
    return _decode_any(compact, view) if usual is None else usual


def _decode_usual(view: memoryview) -> ProduceRequest | None:
    """A request of one partition in the classic layout; None when it is anything else."""
    try:
        no_transaction, acks, timeout_ms, topics, name_length = _USUAL_START.unpack_from(view)
        name_end = _USUAL_START.size + name_length
        if no_transaction != -1 or topics != 1 or name_length < 0:
            return None
        partitions, index, records_length = _USUAL_PARTITION.unpack_from(view, name_end)
        start = name_end + _USUAL_PARTITION.size
        if partitions != 1 or records_length < 0 or start + records_length != len(view):
            return None
        topic = str(view[_USUAL_START.size : name_end], "utf-8")
    except (struct.error, UnicodeDecodeError):
        return None
    return ProduceRequest(None, acks, timeout_ms, [ProducePartition(topic, index, view[start:])])


def _decode_usual_compact(view: memoryview) -> ProduceRequest | None:
    """A request of one partition in the flexible layout, without tagged fields; None when it is anything else."""
    try:
        no_transaction, acks, timeout_ms, topics, name_length = _USUAL_START_COMPACT.unpack_from(view)
        name_end = _USUAL_START_COMPACT.size + name_length - 1
        if no_transaction != 0 or topics != 2 or not 0 < name_length < 0x80:
            return None
        partitions, index = _USUAL_PARTITION_COMPACT.unpack_from(view, name_end)
        start = name_end + _USUAL_PARTITION_COMPACT.size
        length = shift = 0
        while True:
            byte = view[start]
            start += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        end = start + length - 1
        if partitions != 2 or length == 0 or shift > 28 or bytes(view[end:]) != _THREE_TIMES_NO_TAGS:
            return None
        topic = str(view[_USUAL_START_COMPACT.size : name_end], "utf-8")
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    return ProduceRequest(None, acks, timeout_ms, [ProducePartition(topic, index, view[start:end])])


def _decode_any(compact: bool, view: memoryview) -> ProduceRequest:
    reader = Reader(view)
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
    """The answer for one partition without an error message, as two layouts around the name."""
    topic, index, error, base_offset, append_time, log_start_offset, _ = result
    name = topic.encode("utf-8")
    if compact:
        if len(name) > 126:
            return None
        return (
            bytes((2, len(name) + 1))
            + name
            + _USUAL_RESULT_COMPACT.pack(
                2, index, error, base_offset, append_time, log_start_offset, 1, 0, 0, 0, throttle_ms, 0
            )
        )
    layout = _USUAL_RESULT[version]
    start = _USUAL_RESULT_START.pack(1, len(name)) + name
    if version >= 8:
        return start + layout.pack(1, index, error, base_offset, append_time, log_start_offset, 0, -1, throttle_ms)
    if version >= 5:
        return start + layout.pack(1, index, error, base_offset, append_time, log_start_offset, throttle_ms)
    return start + layout.pack(1, index, error, base_offset, append_time, throttle_ms)


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
