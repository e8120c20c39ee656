"""DeleteRecords: raise the log start offset of partitions (KIP-107).

Written by tools/messages.py.
Source: DeleteRecordsRequest.json, DeleteRecordsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, int64, string
from broker.wire.schema import Message, Struct

TO_HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1


@dataclass(slots=True)
class DeleteRecordsPartition(Struct):
    partition_index: int = int32("0+")
    offset: int = int64("0+")


@dataclass(slots=True)
class DeleteRecordsTopic(Struct):
    name: str = string("0+")
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+")


@dataclass(slots=True)
class DeleteRecordsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+")
    timeout_ms: int = int32("0+")


@dataclass(slots=True)
class DeleteRecordsPartitionResult(Struct):
    """low_watermark: smallest log start offset among the live replicas."""

    partition_index: int = int32("0+")
    low_watermark: int = int64("0+")
    error_code: int = int16("0+")


@dataclass(slots=True)
class DeleteRecordsTopicResult(Struct):
    name: str = string("0+")
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+")


@dataclass(slots=True)
class DeleteRecordsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS

    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+")
