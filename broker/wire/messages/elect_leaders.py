"""ElectLeaders: preferred (0) or unclean (1) elections of named partitions, or of all (null) (KIP-460).

Written by tools/messages.py.
Source: ElectLeadersRequest.json, ElectLeadersResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int8, int16, int32, int32_array, nullable_array, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class TopicPartitions(Struct):
    topic: str = string("0+")
    partitions: list[int] = int32_array("0+")


@dataclass(slots=True)
class ElectLeadersRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS

    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = nullable_array(TopicPartitions, "0+")
    timeout_ms: int = int32("0+", 60000)


@dataclass(slots=True)
class PartitionResult(Struct):
    partition_id: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")


@dataclass(slots=True)
class ReplicaElectionResult(Struct):
    topic: str = string("0+")
    partition_result: list[PartitionResult] = array(PartitionResult, "0+")


@dataclass(slots=True)
class ElectLeadersResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+")
