"""AlterReplicaLogDirs: have a broker's replicas in other dirs of its log.dirs (KIP-113).

Written by tools/messages.py.
Source: AlterReplicaLogDirsRequest.json, AlterReplicaLogDirsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.wire.api import ApiKey
from broker.wire.fields import array, int16, int32, int32_array, string
from broker.wire.schema import Message, Struct


@dataclass(slots=True)
class AlterReplicaLogDirTopic(Struct):
    name: str = string("0+")
    partitions: list[int] = int32_array("0+")


@dataclass(slots=True)
class AlterReplicaLogDir(Struct):
    path: str = string("0+")
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic, "0+")


@dataclass(slots=True)
class AlterReplicaLogDirsRequest(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_REPLICA_LOG_DIRS

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir, "0+")


@dataclass(slots=True)
class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@dataclass(slots=True)
class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = string("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult, "0+")


@dataclass(slots=True)
class AlterReplicaLogDirsResponse(Message):
    API: ClassVar[ApiKey] = ApiKey.ALTER_REPLICA_LOG_DIRS

    throttle_time_ms: int = int32("0+")
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult, "0+")
