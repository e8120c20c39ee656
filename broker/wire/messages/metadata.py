"""Metadata: brokers, controller, topics and their leaders.

v0 reads an empty topic array as "all topics"; v1+ reads null as all and empty as none. From v10 responses have the
topic's id, and requests of v12 may name a topic by it, with null for the name.

Written by tools/messages.py.
Source: MetadataRequest.json, MetadataResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int16, int32, int32_array, nullable_array, nullable_string, string, uuid
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class MetadataRequestTopic(Struct):
    topic_id: str = uuid("10+", ignorable=True)
    name: str | None = nullable_string("0+", "", nullable="10+")


@dataclass(slots=True)
class MetadataRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.METADATA

    topics: list[MetadataRequestTopic] | None = nullable_array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@dataclass(slots=True)
class MetadataResponseBroker(Struct):
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = nullable_string("1+", nullable="1+", ignorable=True)


@dataclass(slots=True)
class MetadataResponsePartition(Struct):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("7+", -1, ignorable=True)
    replica_nodes: list[int] = int32_array("0+")
    isr_nodes: list[int] = int32_array("0+")
    offline_replicas: list[int] = int32_array("5+", ignorable=True)


@dataclass(slots=True)
class MetadataResponseTopic(Struct):
    error_code: int = int16("0+")
    name: str | None = nullable_string("0+", "", nullable="12+")
    topic_id: str = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition, "0+")
    topic_authorized_operations: int = int32("8+", -2147483648)


@dataclass(slots=True)
class MetadataResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.METADATA

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker, "0+")
    cluster_id: str | None = nullable_string("2+", nullable="2+", ignorable=True)
    controller_id: int = int32("1+", -1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int = int32("8-10", -2147483648)
