"""Who may commit offsets, and heartbeats.

Source: GroupCoordinator.validateOffsetCommit, doCommitOffsets, handleHeartbeat; KIP-447 (transactional commits).
"""

from __future__ import annotations

from broker.core.group.effects import HeartbeatResult
from broker.core.group.machine import Machine
from broker.core.group.requests import UNKNOWN_MEMBER, Heartbeat
from broker.core.group.states import GroupState
from broker.wire.errors import ErrorCode


def heartbeat(group: Machine, waiter: object, request: Heartbeat, now_ms: float) -> None:
    """Answered at once; a rebalance that waits for members is announced by its error."""
    group.reply(waiter, HeartbeatResult(_heartbeat_error(group, request, now_ms)))


def _heartbeat_error(group: Machine, request: Heartbeat, now_ms: float) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = _check_generation(group, request.member_id, request.generation, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    group.begin_session(group.members[request.member_id], now_ms)
    rebalancing = group.state is GroupState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE


def check_commit(
    group: Machine, member_id: str, generation: int, group_instance_id: str | None, now_ms: float
) -> ErrorCode:
    """Of OffsetCommit. A valid one of a member counts as a heartbeat."""
    error = _check(group, member_id, generation, group_instance_id, transactional=False)
    if error is not ErrorCode.NONE or group.state is GroupState.EMPTY:
        return error
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member knows the new generation, and has no partitions of it yet.
        return ErrorCode.REBALANCE_IN_PROGRESS
    group.begin_session(group.members[member_id], now_ms)
    return ErrorCode.NONE


def check_transactional_commit(
    group: Machine, member_id: str, generation: int, group_instance_id: str | None
) -> ErrorCode:
    """Of TxnOffsetCommit, which before version 3 names neither member nor generation and is then always taken."""
    return _check(group, member_id, generation, group_instance_id, transactional=True)


def _check(
    group: Machine, member_id: str, generation: int, group_instance_id: str | None, transactional: bool
) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is GroupState.EMPTY:
        # A consumer that assigns its own partitions, or an administrator.
        return ErrorCode.NONE
    if generation >= 0 or member_id != UNKNOWN_MEMBER or group_instance_id is not None:
        return _check_generation(group, member_id, generation, group_instance_id)
    if not transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def _check_generation(group: Machine, member_id: str, generation: int, group_instance_id: str | None) -> ErrorCode:
    error = group.check_member(member_id, group_instance_id)
    if error is ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error
