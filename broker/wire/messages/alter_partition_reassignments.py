"""AlterPartitionReassignments: give partitions other replicas, or cancel that (null) (KIP-455).

Written by tools/messages.py.
Source: AlterPartitionReassignmentsRequest.json, AlterPartitionReassignmentsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, nullable_int32_array, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class ReassignablePartition(Struct):
    partition_index: int = int32("0+")
    replicas: list[int] | None = nullable_int32_array("0+")


@dataclass(slots=True)
class ReassignableTopic(Struct):
    name: str = string("0+")
    partitions: list[ReassignablePartition] = array(ReassignablePartition, "0+")


@dataclass(slots=True)
class AlterPartitionReassignmentsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS

    timeout_ms: int = int32("0+", 60000)
    topics: list[ReassignableTopic] = array(ReassignableTopic, "0+")


@dataclass(slots=True)
class ReassignablePartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")


@dataclass(slots=True)
class ReassignableTopicResponse(Struct):
    name: str = string("0+")
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse, "0+")


@dataclass(slots=True)
class AlterPartitionReassignmentsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse, "0+")
