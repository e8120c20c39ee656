"""SyncGroup: who is refused, who is answered at once."""

from __future__ import annotations

import pytest

from broker.core.group.effects import SyncResult
from broker.wire.errors import ErrorCode
from tests.support.groups import DELAY_MS, DrivenGroup, joining

pytestmark = pytest.mark.guarantee("group-rules")


def completing() -> tuple[DrivenGroup, str]:
    group = DrivenGroup()
    waiter = group.join(joining())
    group.pass_ms(DELAY_MS)
    return group, group.joined(waiter).member_id


def test_member_that_syncs_a_stable_group_gets_its_assignment_again() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    sync = group.sync(member, 1, {member: b"another"})
    assert group.synced(sync) == SyncResult(ErrorCode.NONE, "consumer", "range", member.encode())
    assert not group.stores


def test_sync_counts_as_a_sign_of_life() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    group.pass_ms(9_999)
    group.sync(member, 1)
    group.pass_ms(9_999)
    assert group.state == "Stable"


@pytest.mark.parametrize("generation", [0, 2])
def test_sync_of_another_generation_is_refused(generation: int) -> None:
    group, member = completing()
    assert group.synced(group.sync(member, generation, {})) == SyncResult(ErrorCode.ILLEGAL_GENERATION)
    assert not group.stores


def test_sync_of_who_is_no_member_is_refused() -> None:
    group, _ = completing()
    assert group.synced(group.sync("anybody", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_of_another_protocol_is_refused() -> None:
    group, member = completing()
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.synced(group.sync(member, 1, {}, protocol_type="connect")).error is inconsistent
    assert group.synced(group.sync(member, 1, {}, protocol_name="sticky")).error is inconsistent
    assert group.waits(group.sync(member, 1, {}, protocol_type="consumer", protocol_name="range"))


def test_sync_while_a_rebalance_waits_sends_the_member_to_join() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    group.join(joining())
    assert group.synced(group.sync(member, 1)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_sync_of_an_empty_group_is_refused() -> None:
    group = DrivenGroup()
    assert group.synced(group.sync("anybody", 0)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_second_sync_of_a_waiting_follower_replaces_the_first() -> None:
    group = DrivenGroup()
    waiters = [group.join(joining()), group.join(joining())]
    group.pass_ms(2 * DELAY_MS)
    leader, follower = (group.joined(waiter).member_id for waiter in waiters)
    first, second = group.sync(follower, 1), group.sync(follower, 1)
    assert group.synced(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    group.sync(leader, 1, {follower: b"2"})
    group.write()
    assert group.synced(second).assignment == b"2"


def test_follower_that_syncs_after_the_write_is_answered_at_once() -> None:
    group = DrivenGroup()
    waiters = [group.join(joining()), group.join(joining())]
    group.pass_ms(2 * DELAY_MS)
    leader, follower = (group.joined(waiter).member_id for waiter in waiters)
    group.sync(leader, 1, {follower: b"2"})
    group.write()
    assert group.synced(group.sync(follower, 1)).assignment == b"2"
