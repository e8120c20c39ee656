"""DescribeLogDirs and AlterReplicaLogDirs. Loop thread.

A request for a move is answered once the move has begun; `runtime.replicas.moves` carries it out.
Source: kafka.server.ReplicaManager (describeLogDirs, alterReplicaLogDirs); KIP-113, KIP-827.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby

from broker.core.admin.replica_moves import Found, decide
from broker.model.ids import TopicPartition
from broker.model.log_dir_info import DiskSpace, LogDirInfo, LogInDir
from broker.model.log_errors import LogDirFailed
from broker.runtime.admin.ports import DescribedDirs, MovedReplicas
from broker.runtime.coordinators.slices import UNITS_PER_TURN, in_slices
from broker.runtime.ports import Loop
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
_UNITS_OF_A_MOVE = UNITS_PER_TURN // 4
"""A folder and some files are made, or renamed."""


class LogDirHandlers:
    """See the module."""

    def __init__(
        self, configured: Sequence[str], dirs: DescribedDirs, replicas: Replicas, moves: MovedReplicas, loop: Loop
    ) -> None:
        """configured: log.dirs as the settings have them; requests may name a dir so, or as it is described."""
        self._dirs = dirs
        self._moves = moves
        self._loop = loop
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
        if replica is None or replica.offline:
            lag = _NO_LAG
        elif log.is_future:
            lag = replica.log.log_end_offset - log.end_offset
        else:
            lag = max(replica.high_watermark - log.end_offset, 0)
        return DescribeLogDirsPartition(log.topic_partition.partition, log.size, lag, log.is_future)

    def handle_alter_replica_log_dirs(self, request: Request) -> None:
        """Respond once every move has begun, some in a turn; an error for each replica, as Kafka has them."""
        body = decode_or_refuse(request, AlterReplicaLogDirsRequest)
        if body is None:
            return
        asked = {
            TopicPartition(topic.name, index): log_dir.path
            for log_dir in body.dirs
            for topic in log_dir.topics
            for index in topic.partitions
        }
        errors: list[tuple[TopicPartition, ErrorCode]] = []

        def alter(item: tuple[TopicPartition, str]) -> int:
            topic_partition, path = item
            before = topic_partition in self._moves.targets
            errors.append((topic_partition, self._alter(topic_partition, self._names.get(path, path))))
            return 1 if before is (topic_partition in self._moves.targets) else _UNITS_OF_A_MOVE

        def reply() -> None:
            respond(request, _results(errors).encode(request.api_version))

        in_slices(self._loop, iter(asked.items()), alter, reply)

    def _alter(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        works = {info.path: info.works for info in self._dirs.describe_dirs(())}
        replica = self._replicas.by_partition.get(topic_partition)
        found = Found(
            works.get(path),
            all(works.values()),
            replica is not None and replica.offline,
            None if replica is None else self._moves.home(topic_partition),
            self._moves.targets.get(topic_partition),
            ErrorCode.NONE if replica is not None else self._replicas.unhosted_error(*topic_partition),
        )
        decision = decide(topic_partition, path, found)
        if decision.error is not ErrorCode.NONE:
            _log.warning(
                "AlterReplicaLogDirs: %s is not moved to %.300s: %s", topic_partition, path, decision.error.name
            )
        try:
            if decision.cancels:
                _log.info("%s: its move to %s is cancelled", topic_partition, found.target)
                self._moves.cancel(topic_partition)
            if decision.prefers:
                self._moves.prefer(topic_partition, path)
            if decision.begins:
                self._moves.begin(topic_partition, path)
        except LogDirFailed as failure:
            _log.error("%s: not moved to %s: %s", topic_partition, path, failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return decision.error


def _results(errors: Iterable[tuple[TopicPartition, ErrorCode]]) -> AlterReplicaLogDirsResponse:
    of_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for topic_partition, error in errors:
        result = AlterReplicaLogDirPartitionResult(topic_partition.partition, error)
        of_topic.setdefault(topic_partition.topic, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic, results) for topic, results in of_topic.items()]
    )
