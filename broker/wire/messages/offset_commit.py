"""OffsetCommit: a group's positions in partitions, with metadata of the client's own.

Written by tools/messages.py.
Source: OffsetCommitRequest.json, OffsetCommitResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, int64, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("6+", -1, ignorable=True)
    committed_metadata: str | None = nullable_string("0+")


@dataclass(slots=True)
class OffsetCommitRequestTopic(Struct):
    name: str = string("0+")
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+")


@dataclass(slots=True)
class OffsetCommitRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT

    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", -1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = nullable_string("7+", nullable="7+")
    retention_time_ms: int = int64("2-4", -1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+")


@dataclass(slots=True)
class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@dataclass(slots=True)
class OffsetCommitResponseTopic(Struct):
    name: str = string("0+")
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+")


@dataclass(slots=True)
class OffsetCommitResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+")
