"""WriteTxnMarkers: a transaction's coordinator has leaders write how it ended (KIP-98).

Written by tools/messages.py.
Source: WriteTxnMarkersRequest.json, WriteTxnMarkersResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int16, int32, int32_array, int64, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class WritableTxnMarkerTopic(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = int32_array("0+")


@dataclass(slots=True)
class WritableTxnMarker(Struct):
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_result: bool = boolean("0+")
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+")
    coordinator_epoch: int = int32("0+")


@dataclass(slots=True)
class WriteTxnMarkersRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS

    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+")


@dataclass(slots=True)
class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@dataclass(slots=True)
class WritableTxnMarkerTopicResult(Struct):
    name: str = string("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult, "0+")


@dataclass(slots=True)
class WritableTxnMarkerResult(Struct):
    producer_id: int = int64("0+")
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+")


@dataclass(slots=True)
class WriteTxnMarkersResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+")
