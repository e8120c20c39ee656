"""UpdateMetadata: the controller sends every broker what its Metadata responses should contain.

The live brokers' epochs (docs/adr/0011) and `whole` are highwater's own; Kafka passes over tags that it does not know.

Written by tools/messages.py.
Source: UpdateMetadataRequest.json, UpdateMetadataResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import (
    OWN_TAG,
    array,
    boolean,
    int8,
    int16,
    int32,
    int32_array,
    int64,
    nullable_string,
    string,
    uuid,
)
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class UpdateMetadataPartitionState(Struct):
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")
    leader: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = int32_array("0+")
    zk_version: int = int32("0+")
    replicas: list[int] = int32_array("0+")
    offline_replicas: list[int] = int32_array("4+", ignorable=True)


@dataclass(slots=True)
class UpdateMetadataTopicState(Struct):
    topic_name: str = string("5+")
    topic_id: str = uuid("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "5+")


@dataclass(slots=True)
class UpdateMetadataEndpoint(Struct):
    port: int = int32("1+")
    host: str = string("1+")
    listener: str = string("3+", ignorable=True)
    security_protocol: int = int16("1+")


@dataclass(slots=True)
class UpdateMetadataBroker(Struct):
    id: int = int32("0+")
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", ignorable=True)
    rack: str | None = nullable_string("2+", ignorable=True)
    broker_epoch: int = int64("6+", -1, tag=OWN_TAG, tagged="6+", ignorable=True)


@dataclass(slots=True)
class UpdateMetadataRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.UPDATE_METADATA

    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("8+")
    type: int = int8("8+", tag=0, tagged="8+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("5+", -1, ignorable=True)
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker, "0+")
    whole: bool = boolean("6+", tag=OWN_TAG, tagged="6+", ignorable=True)
    """There are no topics but those that it names."""


@dataclass(slots=True)
class UpdateMetadataResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.UPDATE_METADATA

    error_code: int = int16("0+")
