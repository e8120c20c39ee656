"""SyncGroup: the leader's assignments are written, then each member gets its own.

Source: GroupCoordinator.handleSyncGroup, doSyncGroup, setAndPropagateAssignment.
"""

from __future__ import annotations

from broker.core.group import rebalance
from broker.core.group.effects import SyncResult
from broker.core.group.machine import Machine, StoredAssignment
from broker.core.group.requests import SyncGroup
from broker.core.group.states import GroupState
from broker.wire.errors import ErrorCode


def sync(group: Machine, waiter: object, request: SyncGroup, now_ms: float) -> None:
    """Answered at once, or when the leader's assignments of this generation have been written."""
    error = _check(group, request)
    if error is not ErrorCode.NONE:
        group.reply(waiter, SyncResult(error))
        return
    member = group.members[request.member_id]
    _received(group, member.member_id)
    if group.state is GroupState.STABLE:
        group.reply(waiter, _assigned(group, member.assignment))
        group.begin_session(member, now_ms)
        return
    if member.waiting_sync is not None:
        group.reply(member.waiting_sync, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
    member.waiting_sync = waiter
    if member.member_id == group.members.leader and not _is_being_written(group):
        assignments = {
            member_id: request.assignments.get(member_id, b"")
            for member_id in (each.member_id for each in group.members)
        }
        group.store(assignments, StoredAssignment(group.generation, assignments))


def _check(group: Machine, request: SyncGroup) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _received(group: Machine, member_id: str) -> None:
    group.members.pending_sync.discard(member_id)
    if not group.members.pending_sync:
        group.sync_deadline_ms = None


def _is_being_written(group: Machine) -> bool:
    """The leader asks again: the assignments it sent first are on their way into the log, others must not follow."""
    return any(
        isinstance(write, StoredAssignment) and write.generation == group.generation for write in group.writes.values()
    )


def stored(group: Machine, write: StoredAssignment, error: ErrorCode, now_ms: float) -> None:
    """The generation is stable, or, where the write failed, another rebalance begins. Nothing if one has already."""
    if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != write.generation:
        return
    if error is not ErrorCode.NONE:
        rebalance.reset_assignments(group, error, now_ms)
        rebalance.prepare(group, now_ms)
        return
    for member in group.members:
        member.assignment = write.assignments[member.member_id]
        group.answer_sync(member, _assigned(group, member.assignment), now_ms)
    group.transition(GroupState.STABLE)


def _assigned(group: Machine, assignment: bytes) -> SyncResult:
    return SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol, assignment)
