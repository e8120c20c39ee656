"""What a failed write to `__consumer_offsets` means to the clients that wait for it.

Source: kafka.coordinator.group.GroupMetadataManager.storeGroup and maybeConvertOffsetCommitError.
"""

from __future__ import annotations

from typing import Final

from broker.wire.errors import ErrorCode

_OF_BOTH: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)

STORE_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    **_OF_BOTH,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    **dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
}
"""Error of an append → what SyncGroup and JoinGroup answer when a group's snapshot was not written."""

COMMIT_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    **_OF_BOTH,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    **dict.fromkeys(_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
}
"""Error of an append → what OffsetCommit and TxnOffsetCommit answer."""


def store_error(append_error: ErrorCode) -> ErrorCode:
    """What waiting members are told; errors without an entry are told as they are."""
    return STORE_ERRORS.get(append_error, append_error)


def commit_error(append_error: ErrorCode) -> ErrorCode:
    """What committing clients are told; errors without an entry are told as they are."""
    return COMMIT_ERRORS.get(append_error, append_error)
