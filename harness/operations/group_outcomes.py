"""Which errors prove that a commit of offsets had no effect, and how requests of membership came out.

As `outcomes`, for requests to a group's coordinator. Invariant: the list is closed.
Source: GroupCoordinator.validateOffsetCommit (before the append), GroupMetadataManager.maybeConvertOffsetCommitError
(after it).
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.wire.errors import ErrorCode
from harness.operations.op import Outcome
from harness.operations.outcomes import NO_RESPONSE, NOTHING_SENT

BEFORE_COMMIT = frozenset(
    error.name
    for error in (
        # The member, its instance and its generation are compared before anything is appended.
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        # A coordinator that has not read its log appends nothing to it.
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    )
)
# Absent on purpose:
#   NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE: also what NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS_AFTER_APPEND and
#     KAFKA_STORAGE_ERROR become once the append is made.
#   REQUEST_TIMED_OUT: by definition after the append.


def commit_outcome(errors: Iterable[str | None]) -> Outcome:
    """Of a commit with these errors for its partitions: ok where there is none, fail where each proves that nothing was
    committed.
    """
    found = set(errors)
    if found == {None}:
        return "ok"
    return "fail" if all(error in BEFORE_COMMIT or error in NOTHING_SENT for error in found) else "info"


def membership_outcome(error: str | None) -> Outcome:
    """Of join, sync, heartbeat and leave. `fail`: an error came back, and the member got nothing of what it asked for;
    the coordinator may have changed its state all the same.
    """
    if error is None:
        return "ok"
    return "info" if error in NO_RESPONSE else "fail"
