"""OffsetDelete: forget a group's positions in topics to which no member subscribes (KIP-496).

Written by tools/messages.py.
Source: OffsetDeleteRequest.json, OffsetDeleteResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32("0+")


@dataclass(slots=True)
class OffsetDeleteRequestTopic(Struct):
    name: str = string("0+")
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition, "0+")


@dataclass(slots=True)
class OffsetDeleteRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE

    group_id: str = string("0+")
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic, "0+")


@dataclass(slots=True)
class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@dataclass(slots=True)
class OffsetDeleteResponseTopic(Struct):
    name: str = string("0+")
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition, "0+")


@dataclass(slots=True)
class OffsetDeleteResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE

    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, "0+")
