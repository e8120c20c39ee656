"""StopReplica: the controller has a broker stop replicas, and delete them where the request says so (KIP-570).

The topic id is highwater's own: Kafka names topics here by name alone, and passes over tags that it does not know.

Written by tools/messages.py.
Source: StopReplicaRequest.json, StopReplicaResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import OWN_TAG, array, boolean, int16, int32, int64, string, uuid
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class StopReplicaPartitionState(Struct):
    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", -1)
    delete_partition: bool = boolean("3+")


@dataclass(slots=True)
class StopReplicaTopicState(Struct):
    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")
    topic_id: str = uuid("3+", tag=OWN_TAG, tagged="3+")


@dataclass(slots=True)
class StopReplicaRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.STOP_REPLICA

    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("4+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("1+", -1, ignorable=True)
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


@dataclass(slots=True)
class StopReplicaPartitionError(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@dataclass(slots=True)
class StopReplicaResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.STOP_REPLICA

    error_code: int = int16("0+")
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError, "0+")
