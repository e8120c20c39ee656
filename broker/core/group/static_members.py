"""Static members that come back without their member id (KIP-345): the instance goes on under a new one.

Source: GroupCoordinator.updateStaticMemberAndRebalance; KIP-814 (a leader that skips the assignment).
"""

from __future__ import annotations

from broker.core.group import rebalance
from broker.core.group.effects import JoinResult, SyncResult
from broker.core.group.machine import Machine, StoredReplacement
from broker.core.group.requests import UNKNOWN_MEMBER, JoinGroup
from broker.core.group.states import GroupState
from broker.wire.errors import ErrorCode


def replace(group: Machine, waiter: object, request: JoinGroup, old_id: str, new_id: str, now_ms: float) -> None:
    """The instance joins as new_id, and old_id is fenced.

    A stable group stays so where the vote for a protocol would end as before: the new id is written, then answered.
    """
    members = group.members
    member = members[old_id]
    write = StoredReplacement(
        group.generation,
        old_id,
        new_id,
        members.leader or "",
        request.supports_skipping_assignment,
        member.protocols,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
    )
    _rename(group, old_id, new_id, now_ms)
    group.rejoin(member, waiter, request)
    if member.is_new:
        group.begin_wait(member, now_ms)
    else:
        group.begin_session(member, now_ms)
    if group.state is GroupState.STABLE and members.select_protocol() == group.protocol:
        group.store(group.assignments(), write)
    else:
        # While a generation begins its leader may assign to the old id, which nobody could fetch with the new one.
        rebalance.maybe_prepare(group, now_ms)


def _rename(group: Machine, old_id: str, new_id: str, now_ms: float) -> None:
    """Whoever still waits with the old id is fenced."""
    member = group.members[old_id]
    group.answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id), now_ms)
    group.answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID), now_ms)
    group.deadlines.remove(old_id)
    group.members.rename(member, new_id)
    group.begin_session(member, now_ms)


def stored(group: Machine, write: StoredReplacement, error: ErrorCode, now_ms: float) -> None:
    """Answers the returned instance. Nothing happens where a rebalance has begun since: its end answers."""
    member = group.members.get(write.new_member_id)
    if group.state is not GroupState.STABLE or group.generation != write.generation or member is None:
        return
    if error is not ErrorCode.NONE:
        _take_back(group, write, error, now_ms)
        return
    group.compute_subscribed_topics()
    if write.supports_skipping_assignment:
        leads = group.members.leader == write.new_member_id
        result = rebalance.current_generation(group, write.new_member_id, skip_assignment=leads)
    else:
        # An older client that is told it leads would assign, in vain: it is told the id that led before.
        result = JoinResult(
            ErrorCode.NONE,
            write.new_member_id,
            group.generation,
            group.protocol_type,
            group.protocol,
            write.old_leader,
        )
    group.answer_join(member, result, now_ms)


def _take_back(group: Machine, write: StoredReplacement, error: ErrorCode, now_ms: float) -> None:
    """The log has the old id, so the group has it again; the client comes once more."""
    member = group.members[write.new_member_id]
    result = JoinResult(error, UNKNOWN_MEMBER, group.generation, group.protocol_type, group.protocol, write.old_leader)
    group.answer_join(member, result, now_ms)
    group.members.update(member, write.protocols, write.rebalance_timeout_ms, write.session_timeout_ms)
    _rename(group, write.new_member_id, write.old_member_id, now_ms)
