"""TxnOffsetCommit: positions that count once the transaction has committed (KIP-98, KIP-447).

Written by tools/messages.py.
Source: TxnOffsetCommitRequest.json, TxnOffsetCommitResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, int64, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("2+", -1, ignorable=True)
    committed_metadata: str | None = nullable_string("0+")


@dataclass(slots=True)
class TxnOffsetCommitRequestTopic(Struct):
    name: str = string("0+")
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+")


@dataclass(slots=True)
class TxnOffsetCommitRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.TXN_OFFSET_COMMIT

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id: int = int32("3+", -1)
    member_id: str = string("3+")
    group_instance_id: str | None = nullable_string("3+", nullable="3+")
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+")


@dataclass(slots=True)
class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@dataclass(slots=True)
class TxnOffsetCommitResponseTopic(Struct):
    name: str = string("0+")
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition, "0+")


@dataclass(slots=True)
class TxnOffsetCommitResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.TXN_OFFSET_COMMIT

    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+")
