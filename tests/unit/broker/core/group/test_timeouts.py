"""What time alone does to a group."""

from __future__ import annotations

import pytest

from broker.core.group.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from broker.wire.errors import ErrorCode
from tests.support.groups import DELAY_MS, REBALANCE_MS, SESSION_MS, DrivenGroup, joining

pytestmark = pytest.mark.guarantee("group-rules")


def test_silent_member_is_out_when_its_session_ends() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    group.pass_ms(SESSION_MS - 1)
    assert group.state == "Stable"
    group.pass_ms(1)
    assert group.state == "Empty"
    assert group.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_and_commits_keep_a_member_in() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    for show in (group.heartbeat, group.commit, group.heartbeat, group.commit):
        group.pass_ms(SESSION_MS - 1)
        assert show(member, 1) is ErrorCode.NONE
    assert group.state == "Stable"


def test_member_whose_join_waits_owes_no_heartbeat() -> None:
    group = DrivenGroup()
    first, second = group.stable(joining(), joining())
    waiter = group.join(joining(first))
    for _ in range(4):
        group.pass_ms(SESSION_MS - 1)
        assert group.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.waits(waiter)
    again = group.join(joining(second))
    group.settle([waiter, again])


def test_member_that_was_answered_owes_heartbeats_again() -> None:
    group = DrivenGroup()
    first, second = group.stable(joining(), joining())
    waiter = group.join(joining(first))
    for _ in range(3):
        group.pass_ms(SESSION_MS - 1)
        group.heartbeat(second, 1)
    group.join(joining(second))
    assert group.joined(waiter).generation == 2
    group.pass_ms(SESSION_MS)
    assert group.heartbeat(first, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_whose_sync_waits_owes_no_heartbeat_until_it_is_answered() -> None:
    group = DrivenGroup()
    waiter = group.join(joining())
    group.pass_ms(DELAY_MS)
    member = group.joined(waiter).member_id
    sync = group.sync(member, 1, {member: b"1"})
    group.pass_ms(4 * SESSION_MS)
    assert group.waits(sync)
    group.write()
    assert group.synced(sync).assignment == b"1"
    group.pass_ms(SESSION_MS)
    assert group.state == "Empty"


def test_members_that_never_sync_are_expelled_at_the_rebalance_timeout() -> None:
    group = DrivenGroup()
    waiters = [group.join(joining()), group.join(joining())]
    group.pass_ms(2 * DELAY_MS)
    leader, follower = (group.joined(waiter).member_id for waiter in waiters)
    sync = group.sync(follower, 1)
    group.pass_alive(REBALANCE_MS - SESSION_MS, 1, leader)
    assert group.waits(sync)
    assert group.heartbeat(leader, 1) is ErrorCode.NONE
    group.pass_alive(SESSION_MS, 1, leader)
    assert group.synced(sync).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.state == "PreparingRebalance"
    assert group.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    again = group.join(joining(follower))
    group.settle([again])


def test_follower_that_never_syncs_is_expelled_from_a_stable_group() -> None:
    group = DrivenGroup()
    waiters = [group.join(joining()), group.join(joining())]
    group.pass_ms(2 * DELAY_MS)
    leader, follower = (group.joined(waiter).member_id for waiter in waiters)
    group.sync(leader, 1, {})
    group.write()
    group.pass_alive(REBALANCE_MS - 2 * DELAY_MS - SESSION_MS, 1, leader, follower)
    assert group.state == "Stable"
    group.pass_alive(2 * SESSION_MS, 1, leader, follower)
    assert group.state == "PreparingRebalance"
    assert group.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_new_member_whose_join_waits_too_long_is_told_to_start_over() -> None:
    long_ms = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS
    group = DrivenGroup()
    [member] = group.stable(joining(rebalance_timeout_ms=long_ms))
    new = group.join(joining(rebalance_timeout_ms=long_ms))
    while group.waits(new):
        assert group.heartbeat(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        group.pass_ms(SESSION_MS / 2)
    assert group.joined(new).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.joined(new).member_id == ""
    again = group.join(joining(member))
    assert len(group.joined(again).members) == 1


def test_pending_member_holds_a_rebalance_until_its_id_expires() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    pending = group.joined(group.join(joining(requires_known_member_id=True)))
    assert pending.error is ErrorCode.MEMBER_ID_REQUIRED
    again = group.join(joining(member))
    group.pass_ms(SESSION_MS - 1)
    assert group.waits(again)
    group.pass_ms(1)
    assert len(group.joined(again).members) == 1
    assert group.joined(group.join(joining(pending.member_id))).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_id_that_joined_has_no_expiry_any_more() -> None:
    group = DrivenGroup()
    pending = group.joined(group.join(joining(requires_known_member_id=True))).member_id
    group.pass_ms(SESSION_MS - 1)
    waiter = group.join(joining(pending))
    group.pass_ms(DELAY_MS)
    assert group.joined(waiter).member_id == pending
    group.pass_ms(SESSION_MS - 1)
    assert group.heartbeat(pending, 1) is ErrorCode.NONE


def test_nothing_is_due_in_a_group_that_nobody_has_joined() -> None:
    assert DrivenGroup().group.next_deadline_ms is None
