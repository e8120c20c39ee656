"""ListPartitionReassignments: which reassignments are under way (KIP-455).

Written by tools/messages.py.
Source: ListPartitionReassignmentsRequest.json, ListPartitionReassignmentsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, int32_array, nullable_array, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class ListPartitionReassignmentsTopics(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = int32_array("0+")


@dataclass(slots=True)
class ListPartitionReassignmentsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS

    timeout_ms: int = int32("0+", 60000)
    topics: list[ListPartitionReassignmentsTopics] | None = nullable_array(
        ListPartitionReassignmentsTopics, "0+", null_default=True
    )


@dataclass(slots=True)
class OngoingPartitionReassignment(Struct):
    partition_index: int = int32("0+")
    replicas: list[int] = int32_array("0+")
    adding_replicas: list[int] = int32_array("0+")
    removing_replicas: list[int] = int32_array("0+")


@dataclass(slots=True)
class OngoingTopicReassignment(Struct):
    name: str = string("0+")
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+")


@dataclass(slots=True)
class ListPartitionReassignmentsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+")
