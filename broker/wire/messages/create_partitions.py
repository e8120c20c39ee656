"""CreatePartitions: raise a topic's number of partitions (KIP-195).

Written by tools/messages.py.
Source: CreatePartitionsRequest.json, CreatePartitionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int16, int32, int32_array, nullable_array, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = int32_array("0+")


@dataclass(slots=True)
class CreatePartitionsTopic(Struct):
    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = nullable_array(
        CreatePartitionsAssignment, "0+", null_default=True
    )


@dataclass(slots=True)
class CreatePartitionsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


@dataclass(slots=True)
class CreatePartitionsTopicResult(Struct):
    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")


@dataclass(slots=True)
class CreatePartitionsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS

    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")
