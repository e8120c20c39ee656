"""ListOffsets: the offset for a timestamp, or a log's first (-2) or next (-1) offset.

Written by tools/messages.py.
Source: ListOffsetsRequest.json, ListOffsetsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int8, int16, int32, int64, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class ListOffsetsPartition(Struct):
    partition_index: int = int32("0+")
    current_leader_epoch: int = int32("4+", -1, ignorable=True)
    timestamp: int = int64("0+")


@dataclass(slots=True)
class ListOffsetsTopic(Struct):
    name: str = string("0+")
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, "0+")


@dataclass(slots=True)
class ListOffsetsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS

    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, "0+")


@dataclass(slots=True)
class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    timestamp: int = int64("1+", -1)
    offset: int = int64("1+", -1)
    leader_epoch: int = int32("4+", -1)


@dataclass(slots=True)
class ListOffsetsTopicResponse(Struct):
    name: str = string("0+")
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+")


@dataclass(slots=True)
class ListOffsetsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+")
