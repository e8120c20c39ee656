"""DescribeLogDirs and AlterReplicaLogDirs. Loop thread.

Replicas are not moved between log dirs here: a request for that is refused, unless the replica is where it is wanted.
Source: kafka.server.ReplicaManager (describeLogDirs, alterReplicaLogDirs); KIP-113, KIP-827.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby

from broker.model.ids import TopicPartition
from broker.model.log_dir_info import DiskSpace, LogDirInfo, LogInDir
from broker.runtime.admin.ports import DescribedDirs
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from broker.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_log = logging.getLogger("broker.admin")

_UNKNOWN_SPACE = DiskSpace(-1, -1)
_NO_LAG = -1


class LogDirHandlers:
    """See the module."""

    def __init__(self, configured: Sequence[str], dirs: DescribedDirs, replicas: Replicas) -> None:
        """configured: log.dirs as the settings have them; requests may name a dir so, or as it is described."""
        self._dirs = dirs
        self._replicas = replicas
        self._names = {os.path.abspath(path): os.path.realpath(path) for path in configured}
        self._names |= {path: path for path in self._names.values()}

    def handle_describe_log_dirs(self, request: Request) -> None:
        """Respond once the file systems have said how much space they have."""
        body = decode_or_refuse(request, DescribeLogDirsRequest)
        if body is None:
            return
        wanted = (
            None
            if body.topics is None
            else [TopicPartition(topic.topic, index) for topic in body.topics for index in topic.partitions]
        )
        self._dirs.measure_dirs(partial(self._describe, request, wanted))

    def _describe(
        self, request: Request, wanted: Sequence[TopicPartition] | None, spaces: Mapping[str, DiskSpace]
    ) -> None:
        results = [self._result(info, spaces.get(info.path)) for info in self._dirs.describe_dirs(wanted)]
        respond(request, DescribeLogDirsResponse(results=results).encode(request.api_version))

    def _result(self, info: LogDirInfo, space: DiskSpace | None) -> DescribeLogDirsResult:
        if not info.works or space is None:
            return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, info.path)
        return DescribeLogDirsResult(
            0,
            info.path,
            [
                DescribeLogDirsTopic(topic, [self._partition(log) for log in logs])
                for topic, logs in groupby(sorted(info.logs), lambda log: log.topic_partition.topic)
            ],
            space.total,
            space.usable,
        )

    def _partition(self, log: LogInDir) -> DescribeLogDirsPartition:
        replica = self._replicas.by_partition.get(log.topic_partition)
        lag = _NO_LAG if replica is None or replica.offline else max(replica.high_watermark - log.end_offset, 0)
        return DescribeLogDirsPartition(log.topic_partition.partition, log.size, lag, False)

    def handle_alter_replica_log_dirs(self, request: Request) -> None:
        """Respond at once. A dir that is not configured: LOG_DIR_NOT_FOUND; a move: UNSUPPORTED_VERSION."""
        body = decode_or_refuse(request, AlterReplicaLogDirsRequest)
        if body is None:
            return
        asked = {
            TopicPartition(topic.name, index): log_dir.path
            for log_dir in body.dirs
            for topic in log_dir.topics
            for index in topic.partitions
        }
        infos = {info.path: info for info in self._dirs.describe_dirs(asked)}
        here = {log.topic_partition: info.path for info in infos.values() for log in info.logs}
        errors = [(one, self._error(one, path, infos, here.get(one))) for one, path in asked.items()]
        refused = sum(error is ErrorCode.UNSUPPORTED_VERSION for _, error in errors)
        if refused:
            _log.warning(
                "AlterReplicaLogDirs: %d replicas stay where they are: none is moved between log dirs", refused
            )
        respond(request, _results(errors).encode(request.api_version))

    def _error(
        self, topic_partition: TopicPartition, path: str, infos: Mapping[str, LogDirInfo], home: str | None
    ) -> ErrorCode:
        target = self._names.get(path)
        if target is None or target not in infos:
            return ErrorCode.LOG_DIR_NOT_FOUND
        replica = self._replicas.by_partition.get(topic_partition)
        if not infos[target].works or (replica is not None and replica.offline):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if replica is None or home is None:
            return ErrorCode.REPLICA_NOT_AVAILABLE
        return ErrorCode.NONE if home == target else ErrorCode.UNSUPPORTED_VERSION


def _results(errors: Iterable[tuple[TopicPartition, ErrorCode]]) -> AlterReplicaLogDirsResponse:
    of_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for topic_partition, error in errors:
        result = AlterReplicaLogDirPartitionResult(topic_partition.partition, error)
        of_topic.setdefault(topic_partition.topic, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic, results) for topic, results in of_topic.items()]
    )
