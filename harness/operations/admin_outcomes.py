"""Which errors prove that a change of a topic's settings, or of its number of partitions, had no effect; or that a
topic was not made, or not deleted.

As `outcomes`, for requests of administrators. Invariant: the lists are closed.
Source: kafka.server.ZkAdminManager (incrementalAlterConfigs, createPartitions, createTopics, deleteTopics), KafkaApis
(CreatePartitions, CreateTopics, DeleteTopics).
"""

from __future__ import annotations

from broker.wire.errors import ErrorCode
from harness.operations.op import Outcome
from harness.operations.outcomes import NOTHING_SENT

_OF_ANY = (
    # Names, callers and versions are looked at before anything is read.
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.POLICY_VIOLATION,
)
BEFORE_CHANGE = frozenset(error.name for error in (*_OF_ANY, ErrorCode.INVALID_CONFIG))
"""Of settings: a value is checked before it is written."""
BEFORE_GROWTH = frozenset(
    error.name
    for error in (
        *_OF_ANY,
        # Who is no controller reads nothing.
        ErrorCode.NOT_CONTROLLER,
        # What ZooKeeper holds is compared with what is asked for before it is written.
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    )
)
"""Of partitions."""
BEFORE_MAKING = frozenset(
    error.name
    for error in (
        *_OF_ANY,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    )
)
"""Of new topics."""
BEFORE_END = frozenset(
    error.name
    for error in (
        *_OF_ANY,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.TOPIC_DELETION_DISABLED,
        # An id is looked up before anything is written.
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)
"""Of deletions of topics by their ids."""
# Absent on purpose:
#   TOPIC_ALREADY_EXISTS: what a broker finds that writes again, after a write whose answer was lost.
#   UNKNOWN_TOPIC_OR_PARTITION: what a broker that tries again looks up, perhaps after an attempt that was written.
#   REQUEST_TIMED_OUT: it may be written, or wait for leaders.


def change_outcome(error: str | None) -> Outcome:
    """Of a change of a setting."""
    return _outcome(error, BEFORE_CHANGE)


def growth_outcome(error: str | None) -> Outcome:
    """Of a growth of partitions."""
    return _outcome(error, BEFORE_GROWTH)


def making_outcome(error: str | None) -> Outcome:
    """Of a new topic."""
    return _outcome(error, BEFORE_MAKING)


def end_outcome(error: str | None) -> Outcome:
    """Of the deletion of a topic by its id."""
    return _outcome(error, BEFORE_END)


def _outcome(error: str | None, without_effect: frozenset[str]) -> Outcome:
    if error is None:
        return "ok"
    return "fail" if error in without_effect or error in NOTHING_SENT else "info"
