"""What time alone does: sessions end, rebalances stop waiting, members that never sync are expelled.

Source: GroupCoordinator.onExpireHeartbeat, onExpirePendingSync; KIP-62.
"""

from __future__ import annotations

from broker.core.group import leaving, rebalance
from broker.core.group.machine import Machine
from broker.wire.errors import ErrorCode


def next_deadline_ms(group: Machine) -> float | None:
    """Nothing happens by time alone before that; None: nothing ever does."""
    times = [group.deadlines.next_ms(), group.sync_deadline_ms]
    if group.join_phase is not None:
        times.append(group.join_phase.deadline_ms)
    return min((when_ms for when_ms in times if when_ms is not None), default=None)


def on_time(group: Machine, now_ms: float) -> None:
    """All that is due by now, in the order in which it became due.

    Ends, for whatever it does sets deadlines after now alone.
    """
    while (when_ms := next_deadline_ms(group)) is not None and when_ms <= now_ms:
        if group.join_phase is not None and group.join_phase.deadline_ms <= when_ms:
            rebalance.on_deadline(group, now_ms)
        elif group.sync_deadline_ms is not None and group.sync_deadline_ms <= when_ms:
            _expel_without_sync(group, now_ms)
        elif (member_id := group.deadlines.pop_due(when_ms)) is not None:
            _end_session(group, member_id, now_ms)


def _end_session(group: Machine, member_id: str, now_ms: float) -> None:
    """A member that waits owes no sign of life, unless its first JoinGroup waits for longer than any client would."""
    member = group.members.get(member_id)
    if member is None or member.is_new or not member.is_waiting:
        leaving.remove(group, member_id, now_ms)


def _expel_without_sync(group: Machine, now_ms: float) -> None:
    for member_id in sorted(group.members.pending_sync):
        group.remove(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    rebalance.prepare(group, now_ms)
