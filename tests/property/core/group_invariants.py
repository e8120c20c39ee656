"""What must hold of a consumer group after every step, whatever its members do."""

from __future__ import annotations

from broker.core.group.machine import Machine
from broker.core.group.states import GroupState


def check_group(group: Machine) -> None:
    """The parts of a group agree with each other, and time leads on from wherever it is."""
    _check_members(group)
    _check_state(group)
    if group.state is not GroupState.DEAD:
        _check_deadlines(group)


def _check_members(group: Machine) -> None:
    members = group.members
    ids = [member.member_id for member in members]
    assert members.joining == sum(member.waiting_join is not None for member in members)
    assert members.size_bytes == sum(member.size for member in members)
    assert (members.leader is None) == (not ids)
    assert members.leader is None or members.leader in members
    assert not set(members.pending) & set(ids)
    assert members.pending_sync <= set(ids)
    instances = {member.group_instance_id: member.member_id for member in members if member.is_static}
    assert members._static_ids == instances
    assert len(instances) == sum(member.is_static for member in members)
    common = set.intersection(*(set(member.protocol_names) for member in members)) if ids else set()
    assert not ids or members.candidates() == common
    assert not ids or common, "members that have no protocol in common"


def _check_state(group: Machine) -> None:
    members = group.members
    assert (group.join_phase is not None) == (group.state is GroupState.PREPARING_REBALANCE)
    if group.state is GroupState.EMPTY:
        assert not len(members)
        assert group.protocol is None
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        assert len(members)
        assert sum(not member.is_static for member in members) <= group.settings.max_size
        assert group.protocol in members.candidates()
        assert (group.sync_deadline_ms is not None) == bool(members.pending_sync)
    else:
        assert group.sync_deadline_ms is None
        assert not members.pending_sync
    if group.state is not GroupState.COMPLETING_REBALANCE:
        assert all(member.waiting_sync is None for member in members)


def _check_deadlines(group: Machine) -> None:
    members = group.members
    for member in members:
        if member.is_new or not member.is_waiting:
            assert member.member_id in group.deadlines, f"{member.member_id} may be silent for ever"
    assert all(member_id in group.deadlines for member_id in members.pending)
    assert set(group.deadlines._due) <= {member.member_id for member in members} | set(members.pending)
