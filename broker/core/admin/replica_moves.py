"""What AlterReplicaLogDirs does to one replica of this broker. Pure.

Source: kafka.server.ReplicaManager.alterReplicaLogDirs, Partition.maybeCreateFutureReplica; KIP-113.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.model.ids import TopicPartition
from broker.wire.errors import ErrorCode

_SUFFIX_BYTES = len(".") + 32 + len("-future")
_NAME_MAX = 255


@dataclass(frozen=True, slots=True)
class Found:
    """What a request meets.

    dir_works: None where no such dir is configured. all_dirs_work: of this broker. home: path of the dir that the
    replica's log is in, None without a replica. target: of the one that it is being moved to. unhosted: why it has no
    replica here.
    """

    dir_works: bool | None
    all_dirs_work: bool
    offline: bool
    home: str | None
    target: str | None
    unhosted: ErrorCode


@dataclass(frozen=True, slots=True)
class Decision:
    """cancels: the move under way is over. prefers: a log that is made later is made there. begins: a move there."""

    error: ErrorCode
    cancels: bool = False
    prefers: bool = False
    begins: bool = False


def decide(topic_partition: TopicPartition, wanted: str, found: Found) -> Decision:
    """wanted: path of the dir. What is done is done where there is an error, too."""
    if len(str(topic_partition)) + _SUFFIX_BYTES > _NAME_MAX:
        return Decision(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if found.dir_works is None:
        return Decision(ErrorCode.LOG_DIR_NOT_FOUND)
    if not found.dir_works or found.offline:
        return Decision(ErrorCode.KAFKA_STORAGE_ERROR)
    if found.home is None:
        hidden = found.unhosted is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return Decision(ErrorCode.REPLICA_NOT_AVAILABLE if hidden else found.unhosted, prefers=True)
    cancels = found.target not in (None, wanted)
    if wanted == found.home:
        return Decision(ErrorCode.NONE, cancels)
    if wanted == found.target:
        return Decision(ErrorCode.NONE)
    if not found.all_dirs_work:
        # A copy of it may be in a dir that is away: there must not be two.
        return Decision(ErrorCode.KAFKA_STORAGE_ERROR, cancels, prefers=True)
    return Decision(ErrorCode.NONE, cancels, begins=True)
