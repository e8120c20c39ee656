"""LeaderAndIsr: the controller sends a replica's broker the leader and the ISR.

The minimum of eligible replicas (docs/adr/0010) is highwater's own; Kafka passes over tags that it does not know.

Written by tools/messages.py.
Source: LeaderAndIsrRequest.json, LeaderAndIsrResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import OWN_TAG, array, boolean, int8, int16, int32, int32_array, int64, string, uuid
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class LeaderAndIsrPartitionState(Struct):
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")
    leader: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = int32_array("0+")
    partition_epoch: int = int32("0+")
    replicas: list[int] = int32_array("0+")
    adding_replicas: list[int] = int32_array("3+", ignorable=True)
    removing_replicas: list[int] = int32_array("3+", ignorable=True)
    is_new: bool = boolean("1+", ignorable=True)
    leader_recovery_state: int = int8("6+")
    elr_min_isr: int = int32("6+", tag=OWN_TAG, tagged="6+", ignorable=True)


@dataclass(slots=True)
class LeaderAndIsrTopicState(Struct):
    topic_name: str = string("2+")
    topic_id: str = uuid("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


@dataclass(slots=True)
class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32("0+")
    host_name: str = string("0+")
    port: int = int32("0+")


@dataclass(slots=True)
class LeaderAndIsrRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.LEADER_AND_ISR

    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("7+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("2+", -1, ignorable=True)
    type: int = int8("5+")
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader, "0+")


@dataclass(slots=True)
class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@dataclass(slots=True)
class LeaderAndIsrTopicError(Struct):
    topic_id: str = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


@dataclass(slots=True)
class LeaderAndIsrResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.LEADER_AND_ISR

    error_code: int = int16("0+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")
