"""From joining to a stable generation and to the next one."""

from __future__ import annotations

import pytest

from broker.core.group.effects import JoinedMember, JoinResult, SyncResult
from broker.core.group.settings import GroupSettings
from broker.wire.errors import ErrorCode
from tests.support.groups import DELAY_MS, REBALANCE_MS, SESSION_MS, DrivenGroup, joining

pytestmark = pytest.mark.guarantee("group-rules")


def test_first_member_joins_when_the_initial_delay_is_over_and_leads() -> None:
    group = DrivenGroup()
    waiter = group.join(joining())
    assert group.state == "PreparingRebalance"
    group.pass_ms(DELAY_MS - 1)
    assert group.waits(waiter)
    group.pass_ms(1)
    assert group.joined(waiter) == JoinResult(
        ErrorCode.NONE,
        "client-id1",
        1,
        "consumer",
        "range",
        "client-id1",
        (JoinedMember("client-id1", None, b"r"),),
    )
    assert group.state == "CompletingRebalance"


def test_assignments_are_told_once_they_are_written() -> None:
    group = DrivenGroup()
    waiters = [group.join(joining()), group.join(joining())]
    group.pass_ms(2 * DELAY_MS)
    leader, follower = (group.joined(waiter).member_id for waiter in waiters)
    assert group.joined(waiters[1]).members == ()
    assert group.joined(waiters[1]).leader == leader
    syncs = [group.sync(follower, 1), group.sync(leader, 1, {leader: b"one", follower: b"two", "nobody": b"x"})]
    assert group.asked == set(syncs)
    [store] = group.stores
    assert store.snapshot.generation == 1
    assert store.snapshot.leader == leader
    assert store.snapshot.protocol == "range"
    assert [(member.member_id, member.subscription, member.assignment) for member in store.snapshot.members] == [
        (leader, b"r", b"one"),
        (follower, b"r", b"two"),
    ]
    group.write()
    assert group.synced(syncs[0]) == SyncResult(ErrorCode.NONE, "consumer", "range", b"two")
    assert group.synced(syncs[1]) == SyncResult(ErrorCode.NONE, "consumer", "range", b"one")
    assert group.state == "Stable"


def test_new_members_extend_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    group = DrivenGroup()
    first = group.join(joining(rebalance_timeout_ms=2 * DELAY_MS + 500))
    for _ in range(2):
        group.pass_ms(DELAY_MS - 1)
        group.join(joining(rebalance_timeout_ms=2 * DELAY_MS + 500))
        assert group.waits(first)
        group.pass_ms(1)
    assert group.waits(first)
    group.pass_ms(500)
    assert group.joined(first).error is ErrorCode.NONE
    assert len(group.joined(first).members) == 3


def test_new_members_extend_the_delay_of_a_new_group_alone() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    group.leave((member, None))
    group.write()
    first, second = group.join(joining()), group.join(joining())
    group.pass_ms(DELAY_MS)
    assert len(group.joined(first).members) == 2
    assert not group.waits(second)


def test_rebalance_leaves_no_assignment_of_the_generation_that_did_not_become_stable() -> None:
    group = DrivenGroup()
    leader, follower = group.stable(joining(), joining())
    waiters = [group.join(joining(leader)), group.join(joining(follower))]
    assert group.joined(waiters[0]).generation == 2
    group.join(joining())
    assert {member.assignment for member in group.group.snapshot().members} == {b""}


def test_without_new_members_the_initial_delay_is_not_extended() -> None:
    group = DrivenGroup()
    waiter = group.join(joining())
    group.pass_ms(DELAY_MS)
    assert not group.waits(waiter)


def test_group_without_initial_delay_rebalances_at_once() -> None:
    group = DrivenGroup(GroupSettings(initial_rebalance_delay_ms=0))
    waiter = group.join(joining())
    group.pass_ms(0)
    assert group.joined(waiter).generation == 1


def test_another_member_makes_all_join_again() -> None:
    group = DrivenGroup()
    [first] = group.stable(joining())
    new = group.join(joining())
    assert group.state == "PreparingRebalance"
    assert group.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.join(joining(first))
    assert group.joined(again).generation == group.joined(new).generation == 2
    assert group.joined(new).leader == first
    group.settle([again, new])


def test_member_that_does_not_join_again_is_out_at_the_rebalance_timeout() -> None:
    group = DrivenGroup()
    first, second = group.stable(joining(), joining())
    new = group.join(joining())
    again = group.join(joining(second))
    group.pass_alive(REBALANCE_MS - SESSION_MS, 1, first)
    assert group.waits(new)
    group.pass_alive(SESSION_MS, 1, first)
    assert group.joined(again).leader == second
    assert {member.member_id for member in group.joined(again).members} == {second, group.joined(new).member_id}
    assert group.heartbeat(first, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_vote_for_the_protocol() -> None:
    group = DrivenGroup()
    a_first = (("a", b""), ("b", b""), ("c", b""))
    b_first = (("b", b""), ("a", b""))
    waiters = [group.join(joining(protocols=protocols)) for protocols in (a_first, b_first, b_first)]
    group.pass_ms(2 * DELAY_MS)
    assert {group.joined(waiter).protocol_name for waiter in waiters} == {"b"}


def test_of_equal_votes_the_first_members_counts() -> None:
    group = DrivenGroup()
    waiter = group.join(joining(protocols=(("b", b""), ("a", b""))))
    group.join(joining(protocols=(("a", b""), ("b", b""))))
    group.pass_ms(2 * DELAY_MS)
    assert group.joined(waiter).protocol_name == "b"


def test_failed_write_resets_assignments_and_rebalances() -> None:
    group = DrivenGroup()
    waiters = [group.join(joining()), group.join(joining())]
    group.pass_ms(2 * DELAY_MS)
    leader, follower = (group.joined(waiter).member_id for waiter in waiters)
    syncs = [group.sync(leader, 1, {leader: b"1", follower: b"2"}), group.sync(follower, 1)]
    group.write(ErrorCode.NOT_COORDINATOR)
    for sync in syncs:
        assert group.synced(sync) == SyncResult(ErrorCode.NOT_COORDINATOR)
    assert group.state == "PreparingRebalance"
    assert {member.assignment for member in group.group.snapshot().members} == {b""}
    again = [group.join(joining(leader)), group.join(joining(follower))]
    assert group.joined(again[0]).generation == 2
    group.settle(again)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
def test_write_of_a_generation_that_is_over_changes_nothing(error: ErrorCode) -> None:
    group = DrivenGroup()
    waiter = group.join(joining())
    group.pass_ms(DELAY_MS)
    leader = group.joined(waiter).member_id
    sync = group.sync(leader, 1, {leader: b"1"})
    new = group.join(joining())
    assert group.synced(sync).error is ErrorCode.REBALANCE_IN_PROGRESS
    group.write(error)
    assert group.state == "PreparingRebalance"
    again = group.join(joining(leader))
    assert group.joined(again).generation == 2
    group.settle([again, new])


def test_leader_that_syncs_twice_is_written_once() -> None:
    group = DrivenGroup()
    waiter = group.join(joining())
    group.pass_ms(DELAY_MS)
    leader = group.joined(waiter).member_id
    first = group.sync(leader, 1, {leader: b"1"})
    second = group.sync(leader, 1, {leader: b"2"})
    assert len(group.stores) == 1
    assert group.synced(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    group.write()
    assert group.synced(second).assignment == b"1"


def test_last_member_leaves_an_empty_group_which_is_written() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    assert group.leave((member, None)) == [ErrorCode.NONE]
    assert group.state == "Empty"
    store = group.write(ErrorCode.NOT_COORDINATOR)
    assert (store.snapshot.generation, store.snapshot.protocol, store.snapshot.leader) == (2, None, None)
    assert store.snapshot.members == ()
    assert store.snapshot.protocol_type == "consumer"
    assert group.state == "Empty"
    assert group.group.next_deadline_ms is None


def test_member_that_is_missing_in_the_assignments_gets_an_empty_one() -> None:
    group = DrivenGroup()
    waiter = group.join(joining())
    group.pass_ms(DELAY_MS)
    leader = group.joined(waiter).member_id
    sync = group.sync(leader, 1, {})
    group.write()
    assert group.synced(sync) == SyncResult(ErrorCode.NONE, "consumer", "range", b"")
