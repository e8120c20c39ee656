"""OffsetFetch: a group's committed positions, all of them for null; from v8 of several groups (KIP-709).

Written by tools/messages.py.
Source: OffsetFetchRequest.json, OffsetFetchResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int16, int32, int32_array, int64, nullable_array, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class OffsetFetchRequestTopic(Struct):
    name: str = string("0-7")
    partition_indexes: list[int] = int32_array("0-7")


@dataclass(slots=True)
class OffsetFetchRequestTopics(Struct):
    name: str = string("8+")
    partition_indexes: list[int] = int32_array("8+")


@dataclass(slots=True)
class OffsetFetchRequestGroup(Struct):
    group_id: str = string("8+")
    member_id: str | None = nullable_string("9+", nullable="9+", ignorable=True)
    member_epoch: int = int32("9+", -1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = nullable_array(OffsetFetchRequestTopics, "8+", nullable="8+")


@dataclass(slots=True)
class OffsetFetchRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH

    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = nullable_array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


@dataclass(slots=True)
class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32("0-7")
    committed_offset: int = int64("0-7")
    committed_leader_epoch: int = int32("5-7", -1, ignorable=True)
    metadata: str | None = nullable_string("0-7", nullable="0-7")
    error_code: int = int16("0-7")


@dataclass(slots=True)
class OffsetFetchResponseTopic(Struct):
    name: str = string("0-7")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")


@dataclass(slots=True)
class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32("8+")
    committed_offset: int = int64("8+")
    committed_leader_epoch: int = int32("8+", -1, ignorable=True)
    metadata: str | None = nullable_string("8+", nullable="8+")
    error_code: int = int16("8+")


@dataclass(slots=True)
class OffsetFetchResponseTopics(Struct):
    name: str = string("8+")
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+")


@dataclass(slots=True)
class OffsetFetchResponseGroup(Struct):
    group_id: str = string("8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
    error_code: int = int16("8+")


@dataclass(slots=True)
class OffsetFetchResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
