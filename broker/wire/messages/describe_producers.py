"""DescribeProducers: the producers that a partition's leader knows, with their open transactions (KIP-664).

Written by tools/messages.py.
Source: DescribeProducersRequest.json, DescribeProducersResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, int32_array, int64, nullable_string, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class TopicRequest(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = int32_array("0+")


@dataclass(slots=True)
class DescribeProducersRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS

    topics: list[TopicRequest] = array(TopicRequest, "0+")


@dataclass(slots=True)
class ProducerState(Struct):
    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", -1)
    last_timestamp: int = int64("0+", -1)
    coordinator_epoch: int = int32("0+")
    current_txn_start_offset: int = int64("0+", -1)


@dataclass(slots=True)
class PartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = nullable_string("0+")
    active_producers: list[ProducerState] = array(ProducerState, "0+")


@dataclass(slots=True)
class TopicResponse(Struct):
    name: str = string("0+")
    partitions: list[PartitionResponse] = array(PartitionResponse, "0+")


@dataclass(slots=True)
class DescribeProducersResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS

    throttle_time_ms: int = int32("0+")
    topics: list[TopicResponse] = array(TopicResponse, "0+")
