"""DescribeLogDirs: a broker's log.dirs, their space, and the replicas in them with their sizes (KIP-113, KIP-827).

Written by tools/messages.py.
Source: DescribeLogDirsRequest.json, DescribeLogDirsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, boolean, int16, int32, int32_array, int64, nullable_array, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class DescribableLogDirTopic(Struct):
    topic: str = string("0+")
    partitions: list[int] = int32_array("0+")


@dataclass(slots=True)
class DescribeLogDirsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS

    topics: list[DescribableLogDirTopic] | None = nullable_array(DescribableLogDirTopic, "0+")


@dataclass(slots=True)
class DescribeLogDirsPartition(Struct):
    partition_index: int = int32("0+")
    partition_size: int = int64("0+")
    offset_lag: int = int64("0+")
    is_future_key: bool = boolean("0+")


@dataclass(slots=True)
class DescribeLogDirsTopic(Struct):
    name: str = string("0+")
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+")


@dataclass(slots=True)
class DescribeLogDirsResult(Struct):
    error_code: int = int16("0+")
    log_dir: str = string("0+")
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+")
    total_bytes: int = int64("4+", -1, ignorable=True)
    usable_bytes: int = int64("4+", -1, ignorable=True)


@dataclass(slots=True)
class DescribeLogDirsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+")
