"""Fetch responses, by hand (versions 4-17).

Encoding copies no records: the response is a list of chunks, with the records as they were given, file slices included.
Decoding hands out views into the frame.
Source: FetchResponse.json; KIP-227 (sessions, v7), KIP-392 (preferred replica, v11), KIP-595 (diverging epoch, v12),
KIP-516 (topic ids, v13), KIP-951 (addresses of leaders, v16).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.wire.chunks import Chunk, chunks_length
from broker.wire.messages.fetch_request import FLEXIBLE, NO_SESSION_ID, TOPIC_IDS
from broker.wire.messages.grouping import by_topic
from broker.wire.primitives import (
    NO_TOPIC_ID,
    Reader,
    Writer,
    encode_uvarint,
    topic_id_from_bytes,
    topic_id_to_bytes,
)

_TAG_DIVERGING_EPOCH: Final = 0
_TAG_CURRENT_LEADER: Final = 1
_TAG_SNAPSHOT_ID: Final = 2
_TAG_NODE_ENDPOINTS: Final = 0
NODE_ENDPOINTS: Final = 16
"""The first version that tells where the leaders are which its errors name."""

_START_V7 = struct.Struct(">ihi")
_RESULT_V4 = struct.Struct(">ihqq")
_RESULT_V5 = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_EPOCH_END = struct.Struct(">iq")
_LEADER = struct.Struct(">ii")
_OFFSET_EPOCH = struct.Struct(">qi")
_TOPIC_SIZE_MIN: Final = 2
_NODE_SIZE_MIN: Final = 11
_UUID_SIZE: Final = 16
# partition, error, three offsets, no list of aborted transactions, preferred replica
_USUAL_RESULT = struct.Struct(">ihqqqBi")
_TAGGED_NOTHING: Final = (-1, -1, -1, -1, -1, -1)
_NOTHING_TAGGED: Final = list(_TAGGED_NOTHING)
_LENGTH_BITS: Final = 35  # of five bytes; others may say for ever that another one follows
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much


class AbortedTransaction(NamedTuple):
    """Records of this producer from first_offset on, up to its abort marker, are to be skipped by read_committed."""

    producer_id: int
    first_offset: int


class FetchPartitionResult(NamedTuple):
    """One partition's part of the response.

    records: chunks to send on the server's side; after decoding, a list of one view or none.
    diverging_epoch ≥ 0 (v12+): the follower must truncate to diverging_end_offset or below.
    current_leader_id ≥ 0 (v12+): who leads, when the error is about leadership.
    """

    topic: str = ""
    topic_id: str = NO_TOPIC_ID
    partition: int = 0
    error: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    records: Sequence[Chunk] = ()
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    current_leader_id: int = -1
    current_leader_epoch: int = -1
    snapshot_end_offset: int = -1
    snapshot_epoch: int = -1

    @property
    def records_view(self) -> memoryview:
        """The records after decoding; empty when there are none. Server-side file slices have no view."""
        if not self.records:
            return memoryview(b"")
        (chunk,) = self.records
        assert isinstance(chunk, memoryview)
        return chunk


class NodeEndpoint(NamedTuple):
    """Where a broker is reached that is named as a leader."""

    node_id: int
    host: str
    port: int
    rack: str | None


class FetchResponse(NamedTuple):
    """error: 70 and 71 for a session that the broker does not know or that is out of step."""

    throttle_time_ms: int
    error: int
    session_id: int
    results: list[FetchPartitionResult]
    endpoints: Sequence[NodeEndpoint] = ()


def encode_response(
    version: int,
    results: Sequence[FetchPartitionResult],
    *,
    error: int = 0,
    session_id: int = NO_SESSION_ID,
    throttle_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Chunk]:
    """The body as chunks. Before v7 there is no top-level error: the caller sets it on every partition.

    endpoints: of leaders that the results name; before v16 there is no place for them.
    """
    if version >= TOPIC_IDS and not endpoints:
        usual = _encode_to_follower(results, _START_V7.pack(throttle_ms, error, session_id))
        if usual is not None:
            return usual
    compact = version >= FLEXIBLE
    chunks: list[Chunk] = []
    writer = Writer()
    if version >= 7:
        writer.buffer += _START_V7.pack(throttle_ms, error, session_id)
    else:
        writer.int32(throttle_ms)
    groups = by_topic(results, 1 if version >= TOPIC_IDS else 0)
    writer.length(len(groups), compact, wide=True)
    for key, group in groups:
        if version >= TOPIC_IDS:
            writer.uuid(key)
        else:
            writer.string(key, compact)
        writer.length(len(group), compact, wide=True)
        for result in group:
            _encode_result(version, compact, writer, result)
            records = result.records
            length = chunks_length(records) if records else 0
            writer.length(length, compact, wide=True)
            if length:
                chunks.append(writer.buffer)
                chunks.extend(records)
                writer.buffer = bytearray()
            if compact:
                _encode_result_tags(writer, result)
        if compact:
            writer.buffer.append(0)
    if endpoints and version >= NODE_ENDPOINTS:
        writer.tags([(_TAG_NODE_ENDPOINTS, _encode_endpoints(endpoints))])
    elif compact:
        writer.buffer.append(0)
    if writer.buffer:
        chunks.append(writer.buffer)
    return chunks


def _encode_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytearray:
    inner = Writer()
    inner.length(len(endpoints), True, wide=True)
    for node_id, host, port, rack in endpoints:
        inner.int32(node_id)
        inner.string(host, True)
        inner.int32(port)
        inner.nullable_string(rack, True)
        inner.buffer.append(0)
    return inner.buffer


def _decode_endpoints(view: memoryview) -> list[NodeEndpoint]:
    """Raises MalformedFrame."""
    reader = Reader(view)
    found = []
    for _ in range(reader.count("node_endpoints", True, _NODE_SIZE_MIN)):
        node_id, host = reader.int32("node_id"), reader.string("host", True)
        found.append(NodeEndpoint(node_id, host, reader.int32("port"), reader.nullable_string("rack", True)))
        reader.skip_tags("node_endpoint tags")
    reader.expect_end("node_endpoints")
    return found


def _encode_to_follower(results: Sequence[FetchPartitionResult], start: bytes) -> list[Chunk] | None:
    """The usual response with topic ids: no tags, no aborted transactions, few topics. None for anything else."""
    groups = by_topic(results, 1)
    if len(groups) > 0x7E:
        return None
    chunks: list[Chunk] = []
    joined = start + bytes((len(groups) + 1,))
    for key, group in groups:
        if len(group) > 0x7E:
            return None
        joined += topic_id_to_bytes(key) + bytes((len(group) + 1,))
        for _, _, partition, code, watermark, stable, log_start, aborted, preferred, records, *tagged in group:
            if aborted is not None or tagged != _NOTHING_TAGGED:
                return None
            joined += _USUAL_RESULT.pack(partition, code, watermark, stable, log_start, 0, preferred)
            length = chunks_length(records) if records else 0
            joined += encode_uvarint(length + 1)
            if length:
                chunks.append(joined)
                chunks.extend(records)
                joined = b""
            joined += b"\0"
        joined += b"\0"
    chunks.append(joined + b"\0")
    return chunks


def _encode_result(version: int, compact: bool, writer: Writer, result: FetchPartitionResult) -> None:
    """Everything before the records."""
    _, _, partition, error, high_watermark, last_stable_offset, log_start_offset, aborted, preferred = result[:9]
    if version >= 5:
        writer.buffer += _RESULT_V5.pack(partition, error, high_watermark, last_stable_offset, log_start_offset)
    else:
        writer.buffer += _RESULT_V4.pack(partition, error, high_watermark, last_stable_offset)
    if aborted is None:
        writer.length(-1, compact, wide=True)
    else:
        writer.length(len(aborted), compact, wide=True)
        for transaction in aborted:
            writer.buffer += _ABORTED.pack(*transaction)
            if compact:
                writer.buffer.append(0)
    if version >= 11:
        writer.int32(preferred)


def _encode_result_tags(writer: Writer, result: FetchPartitionResult) -> None:
    diverging_epoch, diverging_end, leader_id, leader_epoch, snapshot_end, snapshot_epoch = result[10:16]
    if diverging_epoch < 0 and leader_id < 0 and snapshot_end < 0:
        writer.buffer.append(0)
        return
    tags: list[tuple[int, bytes | bytearray]] = []
    if diverging_epoch >= 0:
        tags.append((_TAG_DIVERGING_EPOCH, _EPOCH_END.pack(diverging_epoch, diverging_end) + b"\0"))
    if leader_id >= 0:
        tags.append((_TAG_CURRENT_LEADER, _LEADER.pack(leader_id, leader_epoch) + b"\0"))
    if snapshot_end >= 0:
        tags.append((_TAG_SNAPSHOT_ID, _OFFSET_EPOCH.pack(snapshot_end, snapshot_epoch) + b"\0"))
    writer.tags(tags)


def decode_response(version: int, view: memoryview) -> FetchResponse:
    """view: the body; the records are views into it. Raises MalformedFrame."""
    if version >= TOPIC_IDS:
        try:
            usual = _decode_to_follower(view)
        except (struct.error, IndexError):
            usual = None
        if usual is not None:
            return usual
    compact = version >= FLEXIBLE
    reader = Reader(view)
    error, session_id = 0, NO_SESSION_ID
    if version >= 7:
        throttle_time_ms, error, session_id = reader.unpack(_START_V7, "throttle_time_ms…session_id")
    else:
        throttle_time_ms = reader.int32("throttle_time_ms")
    results: list[FetchPartitionResult] = []
    topic, topic_id = "", NO_TOPIC_ID
    for _ in range(reader.count("responses", compact, _TOPIC_SIZE_MIN)):
        if version >= TOPIC_IDS:
            topic_id = reader.uuid("topic_id")
        else:
            topic = reader.string("topic", compact)
        for _ in range(reader.count("partitions", compact, _RESULT_V4.size)):
            result = _decode_result(version, compact, reader, topic, topic_id)
            results.append(result)
        if compact:
            reader.skip_tags("topic tags")
    endpoints: Sequence[NodeEndpoint] = ()
    if compact:
        for tag, data in reader.tags("response tags"):
            if tag == _TAG_NODE_ENDPOINTS and version >= NODE_ENDPOINTS:
                endpoints = _decode_endpoints(data)
    reader.expect_end("FetchResponse")
    return FetchResponse(throttle_time_ms, error, session_id, results, endpoints)


def _decode_to_follower(view: memoryview) -> FetchResponse | None:
    """The usual response with topic ids; None for anything else, damaged bytes included."""
    throttle_time_ms, error, session_id = _START_V7.unpack_from(view)
    position = _START_V7.size + 1
    total = len(view)
    topics = view[position - 1]
    if not 0 < topics < 0x80:
        return None
    results: list[FetchPartitionResult] = []
    for _ in range(topics - 1):
        count = view[position + _UUID_SIZE]
        if not 0 < count < 0x80:
            return None
        topic_id = topic_id_from_bytes(view[position : position + _UUID_SIZE])
        position += _UUID_SIZE + 1
        for _ in range(count - 1):
            partition, code, watermark, stable, log_start, aborted, preferred = _USUAL_RESULT.unpack_from(
                view, position
            )
            position += _USUAL_RESULT.size
            length = shift = 0
            while True:
                byte = view[position]
                position += 1
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80 or shift > _LENGTH_BITS:
                    break
            end = position + length - 1
            if aborted or length == 0 or shift > _LENGTH_BITS or end >= total or view[end]:
                return None
            records = [view[position:end]] if length > 1 else []
            row = ("", topic_id, partition, code, watermark, stable, log_start, None, preferred, records)
            results.append(_new(FetchPartitionResult, row + _TAGGED_NOTHING))
            position = end + 1
        if view[position]:
            return None
        position += 1
    if position + 1 != total or view[position]:
        return None
    return FetchResponse(throttle_time_ms, error, session_id, results)


def _decode_result(version: int, compact: bool, reader: Reader, topic: str, topic_id: str) -> FetchPartitionResult:
    log_start_offset = -1
    if version >= 5:
        partition, error, high_watermark, last_stable_offset, log_start_offset = reader.unpack(_RESULT_V5, "partition")
    else:
        partition, error, high_watermark, last_stable_offset = reader.unpack(_RESULT_V4, "partition")
    aborted: list[AbortedTransaction] | None = None
    count = reader.nullable_count("aborted_transactions", compact, _ABORTED.size)
    if count >= 0:
        aborted = []
        for _ in range(count):
            aborted.append(AbortedTransaction._make(reader.unpack(_ABORTED, "aborted_transaction")))
            if compact:
                reader.skip_tags("aborted_transaction tags")
    preferred = reader.int32("preferred_read_replica") if version >= 11 else -1
    records = reader.nullable_bytes("records", compact)
    diverging = (-1, -1)
    leader = (-1, -1)
    snapshot = (-1, -1)
    if compact:
        for tag, data in reader.tags("partition tags"):
            inner = Reader(data)
            if tag == _TAG_DIVERGING_EPOCH:
                diverging = _pair(inner, _EPOCH_END, "diverging_epoch")
            elif tag == _TAG_CURRENT_LEADER:
                leader = _pair(inner, _LEADER, "current_leader")
            elif tag == _TAG_SNAPSHOT_ID:
                snapshot = _pair(inner, _OFFSET_EPOCH, "snapshot_id")
    return FetchPartitionResult(
        topic,
        topic_id,
        partition,
        error,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        preferred,
        [records] if records else [],
        *diverging,
        *leader,
        *snapshot,
    )


def _pair(reader: Reader, layout: struct.Struct, field: str) -> tuple[int, int]:
    first, second = reader.unpack(layout, field)
    reader.skip_tags(field)
    reader.expect_end(field)
    return first, second
