"""From a snapshot in the log back to a group, when its coordinator moved here.

Source: GroupMetadata.loadGroup, GroupCoordinator.onGroupLoaded.
"""

from __future__ import annotations

from broker.core.group import rebalance
from broker.core.group.machine import Machine
from broker.core.group.member import Member
from broker.core.group.settings import GroupSettings, Sources
from broker.core.group.snapshot import GroupSnapshot
from broker.core.group.states import GroupState
from broker.wire.errors import ErrorCode


def restore(snapshot: GroupSnapshot, now_ms: float, settings: GroupSettings, sources: Sources) -> Machine:
    """Stable with members, Empty without; sessions begin now. A group above max_size begins to shrink at once.

    Members without a protocol, which no coordinator writes, are left out.
    """
    group = Machine(snapshot.group_id, settings, sources)
    group.generation = snapshot.generation
    group.protocol_type = snapshot.protocol_type or None
    group.protocol = snapshot.protocol
    if snapshot.protocol is not None:
        _add_members(group, snapshot, snapshot.protocol, now_ms)
    if group.members:
        # Only here a state has no predecessor.
        group.state = GroupState.STABLE
    else:
        group.protocol = None
    group.current_state_timestamp = snapshot.current_state_timestamp
    group.compute_subscribed_topics()
    if len(group.members) > settings.max_size:
        rebalance.prepare(group, now_ms)
    return group


def _add_members(group: Machine, snapshot: GroupSnapshot, protocol: str, now_ms: float) -> None:
    members = group.members
    for stored in snapshot.members:
        if stored.group_instance_id is not None and (old := members.static_id(stored.group_instance_id)) is not None:
            group.remove(old, ErrorCode.NONE)
        group.remove(stored.member_id, ErrorCode.NONE)
        member = Member(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.rebalance_timeout_ms,
            stored.session_timeout_ms,
            snapshot.protocol_type,
            ((protocol, stored.subscription),),
            stored.assignment,
        )
        members.add(member, None)
        group.begin_session(member, now_ms)
    if snapshot.leader is not None and snapshot.leader in members:
        members.leader = snapshot.leader
