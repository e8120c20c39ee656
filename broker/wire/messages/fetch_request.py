"""Fetch requests, by hand (versions 4-17).

Partitions are one flat list in the order sent. Up to v12 they carry topic names, from v13 topic ids; the other of the
two is "" and the caller looks it up. Brokers speak 15 to each other. The directory id of v17 is read over.
Source: FetchRequest.json; KIP-227 (sessions, v7), KIP-320 (epochs, v9), KIP-392 (rack, v11), KIP-595 (v12),
KIP-516 (topic ids, v13), KIP-903 (broker epoch, v15), KIP-951 (v16), KIP-853 (directory id, v17).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from broker.wire.api import FLEXIBLE_FROM, ApiKey
from broker.wire.messages.grouping import by_topic
from broker.wire.primitives import ELEMENTS_MAX, NO_TOPIC_ID, Reader, Writer, topic_id_from_bytes, topic_id_to_bytes

CONSUMER_REPLICA_ID: Final = -1
DEBUGGING_CONSUMER_ID: Final = -2
"""Of Kafka's kafka-replica-verification, which reads every replica as a consumer reads the leader."""
NO_SESSION_ID: Final = 0
FINAL_SESSION_EPOCH: Final = -1
INITIAL_SESSION_EPOCH: Final = 0

FLEXIBLE: Final = FLEXIBLE_FROM[ApiKey.FETCH]
TOPIC_IDS: Final = 13
_REPLICA_STATE: Final = 15

_TAG_CLUSTER_ID: Final = 0
_TAG_REPLICA_STATE: Final = 1

_START_V4 = struct.Struct(">iiiib")
_START_V7 = struct.Struct(">iiiibii")
_START_V15 = struct.Struct(">iiibii")
_REPLICA = struct.Struct(">iq")
_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqi")
_PARTITION_V12_NO_TAGS = struct.Struct(">iiqiqiB")
_TOPIC_SIZE_MIN: Final = 2
_UUID_SIZE: Final = 16
_PARTITION_SIZE: Final = _PARTITION_V12_NO_TAGS.size
# What ends a follower's usual request: nothing forgotten, no rack, the replica's state as the only tagged field.
_USUAL_END = struct.Struct(">BBBBBiqB")
_USUAL_END_START: Final = (1, 1, 1, _TAG_REPLICA_STATE, _REPLICA.size + 1)
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much


class FetchPartition(NamedTuple):
    """log_start_offset: the follower's own. Epochs are −1 where the version or the sender has none."""

    topic: str = ""
    topic_id: str = NO_TOPIC_ID
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    max_bytes: int = 1024 * 1024


class ForgottenPartition(NamedTuple):
    """A partition that leaves the session."""

    topic: str = ""
    topic_id: str = NO_TOPIC_ID
    partition: int = 0


class FetchRequest(NamedTuple):
    """replica_id: −1 for a consumer. replica_epoch: the follower's broker epoch, v15 only."""

    replica_id: int = CONSUMER_REPLICA_ID
    replica_epoch: int = -1
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 0x7FFFFFFF
    isolation_level: int = 0
    session_id: int = NO_SESSION_ID
    session_epoch: int = FINAL_SESSION_EPOCH
    partitions: list[FetchPartition] = []  # noqa: RUF012 - read only, as every tuple's field
    forgotten: list[ForgottenPartition] = []  # noqa: RUF012
    rack_id: str = ""
    cluster_id: str | None = None


_NONE_FORGOTTEN: Final[list[ForgottenPartition]] = []  # read only, as every tuple's field


def decode_request(version: int, view: memoryview) -> FetchRequest:
    """view: the body. Raises MalformedFrame."""
    if version == _REPLICA_STATE:
        usual = _decode_followers(view)
        if usual is not None:
            return usual
    compact = version >= FLEXIBLE
    reader = Reader(view, 0, ELEMENTS_MAX)
    replica_id, replica_epoch = CONSUMER_REPLICA_ID, -1
    session_id, session_epoch = NO_SESSION_ID, FINAL_SESSION_EPOCH
    if version >= _REPLICA_STATE:
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = reader.unpack(
            _START_V15, "max_wait_ms…session_epoch"
        )
    elif version >= 7:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = reader.unpack(
            _START_V7, "replica_id…session_epoch"
        )
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = reader.unpack(
            _START_V4, "replica_id…isolation_level"
        )
    partitions = _decode_partitions(version, compact, reader)
    forgotten = _decode_forgotten(version, compact, reader) if version >= 7 else []
    rack_id = reader.string("rack_id", compact) if version >= 11 else ""
    cluster_id: str | None = None
    if compact:
        for tag, data in reader.tags("request tags"):
            inner = Reader(data)
            if tag == _TAG_CLUSTER_ID:
                cluster_id = inner.nullable_string("cluster_id", True)
            elif tag == _TAG_REPLICA_STATE and version >= _REPLICA_STATE:
                replica_id, replica_epoch = inner.unpack(_REPLICA, "replica_state")
                inner.skip_tags("replica_state tags")
            else:
                continue
            inner.expect_end("request tag")
    reader.expect_end("FetchRequest")
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        partitions,
        forgotten,
        rack_id,
        cluster_id,
    )


def _decode_followers(view: memoryview) -> FetchRequest | None:
    """A follower's usual v15 request: few topics, no tags but the one expected. None for anything else."""
    end = len(view) - _USUAL_END.size
    position = _START_V15.size + 1
    if end < position:
        return None
    *end_start, replica_id, replica_epoch, no_tags = _USUAL_END.unpack_from(view, end)
    topics = view[position - 1]
    if tuple(end_start) != _USUAL_END_START or no_tags or not 0 < topics < 0x80:
        return None
    partitions: list[FetchPartition] = []
    for _ in range(topics - 1):
        if position + _UUID_SIZE >= end:
            return None
        topic_id = topic_id_from_bytes(view[position : position + _UUID_SIZE])
        position += _UUID_SIZE
        count = view[position]
        start, position = position + 1, position + 1 + (count - 1) * _PARTITION_SIZE
        if not 0 < count < 0x80 or position >= end or view[position]:
            return None
        for index, epoch, offset, fetched, log_start, max_bytes, tags in _PARTITION_V12_NO_TAGS.iter_unpack(
            view[start:position]
        ):
            if tags:
                return None
            row = ("", topic_id, index, epoch, offset, fetched, log_start, max_bytes)
            partitions.append(_new(FetchPartition, row))
        position += 1
    if position != end:
        return None
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _START_V15.unpack_from(view)
    head = (replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch)
    return _new(FetchRequest, (*head, partitions, _NONE_FORGOTTEN, "", None))


def _decode_partitions(version: int, compact: bool, reader: Reader) -> list[FetchPartition]:
    partitions: list[FetchPartition] = []
    topic, topic_id = "", NO_TOPIC_ID
    layout = _partition_layout(version)
    for _ in range(reader.count("topics", compact, _TOPIC_SIZE_MIN)):
        if version >= TOPIC_IDS:
            topic_id = reader.uuid("topic_id")
        else:
            topic = reader.string("topic", compact)
        count = reader.count("partitions", compact, layout.size)
        block = reader.view[reader.pos : reader.pos + count * layout.size]
        if compact and any(block[layout.size - 1 :: layout.size]):
            partitions += _decode_tagged_partitions(reader, count, topic, topic_id)
        else:
            reader.pos += len(block)
            partitions += _decode_block(version, layout, block, topic, topic_id)
        if compact:
            reader.skip_tags("topic tags")
    return partitions


def _partition_layout(version: int) -> struct.Struct:
    if version >= 12:
        return _PARTITION_V12_NO_TAGS
    if version >= 9:
        return _PARTITION_V9
    return _PARTITION_V5 if version >= 5 else _PARTITION_V4


def _decode_block(
    version: int, layout: struct.Struct, block: memoryview, topic: str, topic_id: str
) -> list[FetchPartition]:
    """A topic's partitions when none has tagged fields, so that all are of one size."""
    rows = layout.iter_unpack(block)
    if version >= 12:
        return [FetchPartition(topic, topic_id, i, e, o, f, s, m) for i, e, o, f, s, m, _ in rows]
    if version >= 9:
        return [FetchPartition(topic, topic_id, i, e, o, -1, s, m) for i, e, o, s, m in rows]
    if version >= 5:
        return [FetchPartition(topic, topic_id, i, -1, o, -1, s, m) for i, o, s, m in rows]
    return [FetchPartition(topic, topic_id, i, -1, o, -1, -1, m) for i, o, m in rows]


def _decode_tagged_partitions(reader: Reader, count: int, topic: str, topic_id: str) -> list[FetchPartition]:
    partitions: list[FetchPartition] = []
    for _ in range(count):
        index, leader_epoch, offset, fetched_epoch, log_start, max_bytes = reader.unpack(_PARTITION_V12, "partition")
        reader.skip_tags("partition tags")
        partitions.append(
            FetchPartition(topic, topic_id, index, leader_epoch, offset, fetched_epoch, log_start, max_bytes)
        )
    return partitions


def _decode_forgotten(version: int, compact: bool, reader: Reader) -> list[ForgottenPartition]:
    forgotten: list[ForgottenPartition] = []
    topic, topic_id = "", NO_TOPIC_ID
    for _ in range(reader.count("forgotten_topics_data", compact, _TOPIC_SIZE_MIN)):
        if version >= TOPIC_IDS:
            topic_id = reader.uuid("topic_id")
        else:
            topic = reader.string("topic", compact)
        for _ in range(reader.count("forgotten partitions", compact, 4)):
            index = reader.int32("forgotten partition")
            forgotten.append(ForgottenPartition(topic, topic_id, index))
        if compact:
            reader.skip_tags("forgotten topic tags")
    return forgotten


def encode_request(version: int, request: FetchRequest) -> bytes:
    """The body. Raises ValueError when the version cannot carry a session or forgotten partitions that are set."""
    if version == _REPLICA_STATE and not (request.forgotten or request.rack_id or request.cluster_id is not None):
        usual = _encode_followers(request)
        if usual is not None:
            return usual
    if version < 7 and (request.session_id != NO_SESSION_ID or request.forgotten):
        raise ValueError(f"fetch version {version} has no sessions, 7 is the first")
    compact = version >= FLEXIBLE
    writer = Writer()
    if version >= _REPLICA_STATE:
        writer.buffer += _START_V15.pack(*request[2:8])
    elif version >= 7:
        writer.buffer += _START_V7.pack(request.replica_id, *request[2:8])
    else:
        writer.buffer += _START_V4.pack(request.replica_id, *request[2:6])
    _encode_partitions(version, compact, writer, request.partitions)
    if version >= 7:
        _encode_forgotten(version, compact, writer, request.forgotten)
    if version >= 11:
        writer.string(request.rack_id, compact)
    if compact:
        writer.tags(_request_tags(version, request))
    return bytes(writer.buffer)


def _encode_followers(request: FetchRequest) -> bytes | None:
    """A follower's usual v15 request, None for one with many topics or partitions, or that no follower sends."""
    groups = by_topic(request.partitions, 1)
    if request.replica_id < 0 or len(groups) > 0x7E:
        return None
    parts = [_START_V15.pack(*request[2:8]), bytes((len(groups) + 1,))]
    for key, group in groups:
        if len(group) > 0x7E:
            return None
        parts += (topic_id_to_bytes(key), bytes((len(group) + 1,)))
        parts += [_PARTITION_V12_NO_TAGS.pack(*row[2:], 0) for row in group]
        parts.append(b"\0")
    parts.append(_USUAL_END.pack(*_USUAL_END_START, request.replica_id, request.replica_epoch, 0))
    return b"".join(parts)


def _request_tags(version: int, request: FetchRequest) -> list[tuple[int, bytes | bytearray]]:
    tags: list[tuple[int, bytes | bytearray]] = []
    if request.cluster_id is not None:
        inner = Writer()
        inner.nullable_string(request.cluster_id, True)
        tags.append((_TAG_CLUSTER_ID, inner.buffer))
    if version >= _REPLICA_STATE and (request.replica_id, request.replica_epoch) != (CONSUMER_REPLICA_ID, -1):
        tags.append((_TAG_REPLICA_STATE, _REPLICA.pack(request.replica_id, request.replica_epoch) + b"\0"))
    return tags


def _encode_topic(version: int, compact: bool, writer: Writer, key: str) -> None:
    if version >= TOPIC_IDS:
        writer.uuid(key)
    else:
        writer.string(key, compact)


def _encode_partitions(version: int, compact: bool, writer: Writer, partitions: list[FetchPartition]) -> None:
    groups = by_topic(partitions, 1 if version >= TOPIC_IDS else 0)
    writer.length(len(groups), compact, wide=True)
    for key, group in groups:
        _encode_topic(version, compact, writer, key)
        writer.length(len(group), compact, wide=True)
        for _, _, index, leader_epoch, offset, fetched_epoch, log_start, max_bytes in group:
            if version >= 12:
                writer.buffer += _PARTITION_V12.pack(index, leader_epoch, offset, fetched_epoch, log_start, max_bytes)
                writer.buffer.append(0)
            elif version >= 9:
                writer.buffer += _PARTITION_V9.pack(index, leader_epoch, offset, log_start, max_bytes)
            elif version >= 5:
                writer.buffer += _PARTITION_V5.pack(index, offset, log_start, max_bytes)
            else:
                writer.buffer += _PARTITION_V4.pack(index, offset, max_bytes)
        if compact:
            writer.uvarint(0)


def _encode_forgotten(version: int, compact: bool, writer: Writer, forgotten: list[ForgottenPartition]) -> None:
    groups = by_topic(forgotten, 1 if version >= TOPIC_IDS else 0)
    writer.length(len(groups), compact, wide=True)
    for key, group in groups:
        _encode_topic(version, compact, writer, key)
        writer.length(len(group), compact, wide=True)
        for partition in group:
            writer.int32(partition.partition)
        if compact:
            writer.uvarint(0)
