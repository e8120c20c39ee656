"""CreateTopics: topics with a counted or a manual placement.

Written by tools/messages.py.
Source: CreateTopicsRequest.json, CreateTopicsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    int32_array,
    nullable_array,
    nullable_string,
    string,
    uuid,
)
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class CreatableReplicaAssignment(Struct):
    partition_index: int = int32("0+")
    broker_ids: list[int] = int32_array("0+")


@dataclass(slots=True)
class CreatableTopicConfig(Struct):
    name: str = string("0+")
    value: str | None = nullable_string("0+")


@dataclass(slots=True)
class CreatableTopic(Struct):
    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")


@dataclass(slots=True)
class CreateTopicsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS

    topics: list[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", 60000)
    validate_only: bool = boolean("1+")


@dataclass(slots=True)
class CreatableTopicConfigs(Struct):
    name: str = string("5+")
    value: str | None = nullable_string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", -1, ignorable=True)
    is_sensitive: bool = boolean("5+")


@dataclass(slots=True)
class CreatableTopicResult(Struct):
    name: str = string("0+")
    topic_id: str = uuid("7+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("1+", ignorable=True)
    topic_config_error_code: int = int16("5+", tag=0, tagged="5+", ignorable=True)
    num_partitions: int = int32("5+", -1, ignorable=True)
    replication_factor: int = int16("5+", -1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = nullable_array(
        CreatableTopicConfigs, "5+", nullable="5+", ignorable=True
    )


@dataclass(slots=True)
class CreateTopicsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+")
