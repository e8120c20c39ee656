"""JoinGroup: new members, members with an id, and who is refused.

Source: GroupCoordinator.handleJoinGroup, doNewMemberJoinGroup, doCurrentMemberJoinGroup; KIP-394 (ids first).
"""

from __future__ import annotations

from typing import Final

from broker.core.group import rebalance, static_members
from broker.core.group.effects import JoinResult
from broker.core.group.machine import Machine
from broker.core.group.member import Member
from broker.core.group.requests import UNKNOWN_MEMBER, JoinGroup
from broker.core.group.settings import GroupSettings
from broker.core.group.states import GroupState
from broker.wire.errors import ErrorCode

_ID_PREFIX_CHARACTERS_MAX: Final = 1_000
"""Of the client or instance id that a member id begins with: a member id has to fit into a string of the protocol."""


def check_session_timeout(settings: GroupSettings, session_timeout_ms: int) -> ErrorCode:
    """Known before there is a group: who asks for a session outside the bounds creates none."""
    if settings.min_session_timeout_ms <= session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.NONE
    return ErrorCode.INVALID_SESSION_TIMEOUT


def join(group: Machine, waiter: object, request: JoinGroup, now_ms: float) -> None:
    """Answered at once, or when the rebalance that it takes part in completes."""
    member_id = request.member_id
    error = check_session_timeout(group.settings, request.session_timeout_ms)
    if error is not ErrorCode.NONE:
        group.reply(waiter, JoinResult(error, member_id))
        return
    if not _has_place(group, _present_id(group, request)):
        group.remove(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        group.reply(waiter, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER))
    else:
        error = _check(group, request)
        if error is not ErrorCode.NONE:
            group.reply(waiter, JoinResult(error, member_id))
        elif member_id == UNKNOWN_MEMBER:
            _join_new(group, waiter, request, now_ms)
        elif member_id in group.members.pending:
            _add(group, waiter, request, member_id, now_ms)
        else:
            _join_again(group, waiter, request, group.members[member_id], now_ms)
    rebalance.maybe_complete(group, now_ms)


def _present_id(group: Machine, request: JoinGroup) -> str:
    """A static member that returns takes its own place."""
    if request.member_id == UNKNOWN_MEMBER and request.group_instance_id is not None:
        return group.members.static_id(request.group_instance_id) or UNKNOWN_MEMBER
    return request.member_id


def _has_place(group: Machine, member_id: str) -> bool:
    """While a rebalance is on those count that have joined, so that a group that is too large shrinks by it."""
    members, size_max = group.members, group.settings.max_size
    match group.state:
        case GroupState.EMPTY | GroupState.DEAD:
            return True
        case GroupState.PREPARING_REBALANCE:
            member = members.get(member_id)
            return (member is not None and member.waiting_join is not None) or members.joining < size_max
        case _:
            return member_id in members or len(members) < size_max


def _check(group: Machine, request: JoinGroup) -> ErrorCode:
    members = group.members
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group.state is GroupState.EMPTY:
        supported = bool(request.protocol_type and request.protocols)
    else:
        supported = group.protocol_type == request.protocol_type and members.supports_any(request.protocols)
    if not supported:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.member_id in members.pending:
        # An id is given out to dynamic members alone.
        if request.group_instance_id is not None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif request.member_id != UNKNOWN_MEMBER:
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
    if members.size_with(request.member_id, request.protocols) > group.settings.max_subscription_bytes:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    return ErrorCode.NONE


def _join_new(group: Machine, waiter: object, request: JoinGroup, now_ms: float) -> None:
    instance_id = request.group_instance_id
    prefix = (request.client_id if instance_id is None else instance_id)[:_ID_PREFIX_CHARACTERS_MAX]
    new_id = f"{prefix}-{group.sources.new_member_suffix()}"
    if instance_id is None and request.requires_known_member_id:
        _add_pending(group, new_id, request.session_timeout_ms, now_ms)
        group.reply(waiter, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, new_id))
    elif instance_id is not None and (old_id := group.members.static_id(instance_id)) is not None:
        static_members.replace(group, waiter, request, old_id, new_id, now_ms)
    else:
        _add(group, waiter, request, new_id, now_ms)


def _add_pending(group: Machine, member_id: str, session_timeout_ms: int, now_ms: float) -> None:
    pending = group.members.pending
    if len(pending) >= group.settings.max_pending_members:
        group.remove(next(iter(pending)), ErrorCode.UNKNOWN_MEMBER_ID)
    pending[member_id] = None
    group.deadlines.set(member_id, now_ms + session_timeout_ms)


def _add(group: Machine, waiter: object, request: JoinGroup, member_id: str, now_ms: float) -> None:
    member = Member(
        member_id,
        request.group_instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        request.protocols,
    )
    member.is_new = True
    if group.join_phase is not None and group.generation == 0:
        group.join_phase.member_added = True
    if not group.members:
        group.protocol_type = request.protocol_type
    group.members.add(member, waiter)
    group.begin_wait(member, now_ms)
    rebalance.maybe_prepare(group, now_ms)


def _join_again(group: Machine, waiter: object, request: JoinGroup, member: Member, now_ms: float) -> None:
    unchanged = member.protocols == request.protocols
    leads = member.member_id == group.members.leader
    if unchanged and (
        group.state is GroupState.COMPLETING_REBALANCE or (group.state is GroupState.STABLE and not leads)
    ):
        # The answer to its first JoinGroup may have been lost, or it is a follower that may sync again.
        group.reply(waiter, rebalance.current_generation(group, member.member_id))
        return
    # A leader joins again in order to assign anew, for partitions may have been added.
    group.rejoin(member, waiter, request)
    rebalance.maybe_prepare(group, now_ms)
