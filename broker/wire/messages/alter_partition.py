"""AlterPartition: a leader proposes a new ISR to the controller (KIP-497, KIP-841, KIP-903).

The minimum of eligible replicas (docs/adr/0010) is highwater's own; Kafka passes over tags that it does not know.

Written by tools/messages.py.
Source: AlterPartitionRequest.json, AlterPartitionResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import OWN_TAG, array, int8, int16, int32, int32_array, int64, uuid
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class BrokerState(Struct):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", -1)


@dataclass(slots=True)
class RequestPartitionData(Struct):
    partition_index: int = int32("0+")
    leader_epoch: int = int32("0+")
    new_isr: list[int] = int32_array("0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32("0+")


@dataclass(slots=True)
class RequestTopicData(Struct):
    topic_id: str = uuid("2+", ignorable=True)
    partitions: list[RequestPartitionData] = array(RequestPartitionData, "0+")


@dataclass(slots=True)
class AlterPartitionRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", -1)
    topics: list[RequestTopicData] = array(RequestTopicData, "0+")


@dataclass(slots=True)
class ResponsePartitionData(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = int32_array("0+")
    leader_recovery_state: int = int8("1+", ignorable=True)
    partition_epoch: int = int32("0+")
    elr_min_isr: int = int32("0+", tag=OWN_TAG, tagged="0+", ignorable=True)


@dataclass(slots=True)
class ResponseTopicData(Struct):
    topic_id: str = uuid("2+", ignorable=True)
    partitions: list[ResponsePartitionData] = array(ResponsePartitionData, "0+")


@dataclass(slots=True)
class AlterPartitionResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    topics: list[ResponseTopicData] = array(ResponseTopicData, "0+")
