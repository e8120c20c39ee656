"""What a group wants done: replies to be sent, snapshots to be written.

A waiter is an object of the runtime's, which stands for one request; each gets exactly one Reply, at once or later.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.group.requests import NO_GENERATION
from broker.core.group.snapshot import GroupSnapshot
from broker.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader is told of it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """members: for the leader alone, empty for all others."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncResult:
    """With an error everything else is empty."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """REBALANCE_IN_PROGRESS: join again."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeftMember:
    """Ids as they were asked for."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveResult:
    """error: of the whole request. members: in the order asked for, empty with an error."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()


Result = JoinResult | SyncResult | HeartbeatResult | LeaveResult


@dataclass(frozen=True, slots=True)
class Reply:
    """The one answer to a waiter's request."""

    waiter: object
    result: Result


@dataclass(frozen=True, slots=True)
class Store:
    """Write the snapshot to the log, then call `Group.stored(token, error, now_ms)`, once, whatever became of it."""

    snapshot: GroupSnapshot
    token: int


Effect = Reply | Store
