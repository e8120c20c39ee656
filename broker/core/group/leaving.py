"""Members that go, by LeaveGroup or because their time is over.

Source: GroupCoordinator.handleLeaveGroup, removeMemberAndUpdateGroup.
"""

from __future__ import annotations

from broker.core.group import rebalance
from broker.core.group.effects import LeaveResult, LeftMember
from broker.core.group.machine import Machine
from broker.core.group.requests import UNKNOWN_MEMBER, LeaveGroup, LeavingMember
from broker.core.group.states import GroupState
from broker.wire.errors import ErrorCode


def leave(group: Machine, waiter: object, request: LeaveGroup, now_ms: float) -> None:
    """Each member by itself: an error of one does not keep the others."""
    if group.state is GroupState.DEAD:
        group.reply(waiter, LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    left = tuple(
        LeftMember(leaving.member_id, leaving.group_instance_id, _leave_one(group, leaving, now_ms))
        for leaving in request.members
    )
    group.reply(waiter, LeaveResult(ErrorCode.NONE, left))


def _leave_one(group: Machine, leaving: LeavingMember, now_ms: float) -> ErrorCode:
    members = group.members
    member_id = leaving.member_id
    if member_id == UNKNOWN_MEMBER:
        by_instance = None if leaving.group_instance_id is None else members.static_id(leaving.group_instance_id)
        if by_instance is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = by_instance
    elif member_id not in members.pending:
        error = group.check_member(member_id, leaving.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
    remove(group, member_id, now_ms)
    return ErrorCode.NONE


def remove(group: Machine, member_id: str, now_ms: float) -> None:
    """Without a member the others share its partitions; without a pending id there may be nobody left to wait for."""
    is_member = member_id in group.members
    group.remove(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    if group.state is GroupState.PREPARING_REBALANCE:
        rebalance.maybe_complete(group, now_ms)
    elif is_member:
        rebalance.maybe_prepare(group, now_ms)
