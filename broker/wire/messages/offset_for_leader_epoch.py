"""OffsetForLeaderEpoch: where a leader epoch ends in the leader's log (KIP-101, KIP-320).

Written by tools/messages.py.
Source: OffsetForLeaderEpochRequest.json, OffsetForLeaderEpochResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, int64, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class OffsetForLeaderPartition(Struct):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("2+", -1, ignorable=True)
    leader_epoch: int = int32("0+")


@dataclass(slots=True)
class OffsetForLeaderTopic(Struct):
    topic: str = string("0+")
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, "0+")


@dataclass(slots=True)
class OffsetForLeaderEpochRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH

    replica_id: int = int32("3+", -2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, "0+")


@dataclass(slots=True)
class EpochEndOffset(Struct):
    error_code: int = int16("0+")
    partition: int = int32("0+")
    leader_epoch: int = int32("1+", -1, ignorable=True)
    end_offset: int = int64("0+", -1)


@dataclass(slots=True)
class OffsetForLeaderTopicResult(Struct):
    topic: str = string("0+")
    partitions: list[EpochEndOffset] = array(EpochEndOffset, "0+")


@dataclass(slots=True)
class OffsetForLeaderEpochResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, "0+")
