"""From a reason to rebalance to the next generation: PreparingRebalance, then CompletingRebalance or Empty.

Source: GroupCoordinator.prepareRebalance, onCompleteJoin, InitialDelayedJoin, DelayedJoin.
"""

from __future__ import annotations

from broker.core.group.effects import JoinedMember, JoinResult, SyncResult
from broker.core.group.machine import JoinPhase, Machine
from broker.core.group.states import VALID_PREDECESSORS, GroupState
from broker.wire.errors import ErrorCode


def maybe_prepare(group: Machine, now_ms: float) -> None:
    """A rebalance begins unless one is on already."""
    if group.state in VALID_PREDECESSORS[GroupState.PREPARING_REBALANCE]:
        prepare(group, now_ms)


def prepare(group: Machine, now_ms: float) -> None:
    """Members are to join anew: those that wait for assignments are told so, others learn it by heartbeat."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
    group.members.pending_sync.clear()
    group.sync_deadline_ms = None
    timeout_ms = group.members.rebalance_timeout_ms
    if group.state is GroupState.EMPTY:
        delay_ms = group.settings.initial_rebalance_delay_ms
        remaining_ms = max(timeout_ms - delay_ms, 0)
        phase = JoinPhase(now_ms + delay_ms, True, delay_ms, remaining_ms)
    else:
        phase = JoinPhase(now_ms + timeout_ms)
    group.transition(GroupState.PREPARING_REBALANCE)
    group.join_phase = phase
    maybe_complete(group, now_ms)


def reset_assignments(group: Machine, error: ErrorCode, now_ms: float) -> None:
    """Nobody has an assignment of this generation, and who waits for one is told the error."""
    for member in group.members:
        member.assignment = b""
        group.answer_sync(member, SyncResult(error), now_ms)


def maybe_complete(group: Machine, now_ms: float) -> None:
    """The next generation begins if nobody has to be waited for. The first rebalance runs its time."""
    phase = group.join_phase
    if phase is not None and not phase.is_initial and group.members.all_joined:
        complete(group, now_ms)


def on_deadline(group: Machine, now_ms: float) -> None:
    """The time for joining is over. The first rebalance is put off while members keep coming, up to their time-out."""
    phase = group.join_phase
    assert phase is not None
    if phase.is_initial and phase.member_added and phase.remaining_ms:
        delay_ms = min(group.settings.initial_rebalance_delay_ms, phase.remaining_ms)
        remaining_ms = max(phase.remaining_ms - phase.delay_ms, 0)
        group.join_phase = JoinPhase(now_ms + max(delay_ms, 1), True, delay_ms, remaining_ms)
    else:
        complete(group, now_ms)


def complete(group: Machine, now_ms: float) -> None:
    """Dynamic members that did not join are out. Static ones stay until their session or the time for sync ends."""
    members = group.members
    for member in [member for member in members if member.waiting_join is None and not member.is_static]:
        group.remove(member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    if not members.elect_joined_leader():
        # Static members alone, all silent: their sessions end them.
        group.join_phase = JoinPhase(now_ms + max(members.rebalance_timeout_ms, 1))
        return
    group.join_phase = None
    group.generation += 1
    members.pending_sync.clear()
    if members:
        _begin_generation(group, now_ms)
    else:
        group.protocol = None
        group.compute_subscribed_topics()
        group.transition(GroupState.EMPTY)
        group.store({}, None)


def _begin_generation(group: Machine, now_ms: float) -> None:
    members = group.members
    group.protocol = members.select_protocol()
    group.compute_subscribed_topics()
    group.transition(GroupState.COMPLETING_REBALANCE)
    for member in members:
        group.answer_join(member, current_generation(group, member.member_id), now_ms)
        group.begin_session(member, now_ms)
        member.is_new = False
        members.pending_sync.add(member.member_id)
    group.sync_deadline_ms = now_ms + max(members.rebalance_timeout_ms, 1)


def current_generation(group: Machine, member_id: str, skip_assignment: bool = False) -> JoinResult:
    """What a member is told when it has joined the generation that is on."""
    leader = group.members.leader or ""
    return JoinResult(
        ErrorCode.NONE,
        member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        leader,
        joined_members(group) if member_id == leader else (),
        skip_assignment,
    )


def joined_members(group: Machine) -> tuple[JoinedMember, ...]:
    """All members with their metadata for the group's protocol, as the leader assigns by it."""
    protocol = group.protocol or ""
    return tuple(
        JoinedMember(member.member_id, member.group_instance_id, member.metadata(protocol)) for member in group.members
    )
