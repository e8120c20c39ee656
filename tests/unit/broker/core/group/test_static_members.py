"""Static members (KIP-345): who returns, who is fenced, who is removed by an administrator."""

from __future__ import annotations

import pytest

from broker.core.group.effects import JoinedMember, JoinResult, SyncResult
from broker.wire.errors import ErrorCode
from tests.support.groups import DELAY_MS, PROTOCOLS, REBALANCE_MS, SESSION_MS, DrivenGroup, joining, subscription

pytestmark = pytest.mark.guarantee("group-rules")


def stable() -> tuple[DrivenGroup, str, str]:
    """Instances a, which leads, and b, and their member ids."""
    group = DrivenGroup()
    leader, follower = group.stable(joining(instance="a"), joining(instance="b"))
    return group, leader, follower


def test_instance_that_returns_to_a_stable_group_gets_its_assignment_without_a_rebalance() -> None:
    group, leader, follower = stable()
    waiter = group.join(joining(instance="b"))
    assert group.waits(waiter)
    [store] = group.stores
    assert [(member.member_id, member.assignment) for member in store.snapshot.members] == [
        (leader, leader.encode()),
        ("b-id3", follower.encode()),
    ]
    assert store.snapshot.generation == 1
    group.write()
    assert group.joined(waiter) == JoinResult(ErrorCode.NONE, "b-id3", 1, "consumer", "range", leader)
    assert group.state == "Stable"
    sync = group.sync("b-id3", 1, instance="b")
    assert group.synced(sync) == SyncResult(ErrorCode.NONE, "consumer", "range", follower.encode())


def test_leader_that_returns_leads_and_skips_the_assignment() -> None:
    group, _, follower = stable()
    waiter = group.join(joining(instance="a"))
    group.write()
    members = {JoinedMember("a-id3", "a", b"r"), JoinedMember(follower, "b", b"r")}
    answer = group.joined(waiter)
    assert set(answer.members) == members
    assert (answer.leader, answer.skip_assignment) == ("a-id3", True)


def test_leader_that_returns_with_an_older_client_is_told_that_another_leads() -> None:
    group, leader, _ = stable()
    waiter = group.join(joining(instance="a", supports_skipping_assignment=False))
    group.write()
    answer = group.joined(waiter)
    assert (answer.member_id, answer.leader, answer.members, answer.skip_assignment) == ("a-id3", leader, (), False)


def test_former_id_of_an_instance_that_returned_is_fenced() -> None:
    group, _, follower = stable()
    group.join(joining(instance="b"))
    group.write()
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert group.heartbeat(follower, 1, instance="b") is fenced
    assert group.commit(follower, 1, instance="b") is fenced
    assert group.group.check_transactional_commit(follower, 1, "b") is fenced
    assert group.synced(group.sync(follower, 1, instance="b")).error is fenced
    assert group.joined(group.join(joining(follower, instance="b"))).error is fenced
    assert group.leave((follower, "b")) == [fenced]
    assert group.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat("b-id3", 1, instance="b") is ErrorCode.NONE


def test_instance_that_is_not_there_is_unknown() -> None:
    group, _, follower = stable()
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(follower, 1, instance="c") is unknown
    assert group.joined(group.join(joining(follower, instance="c"))).error is unknown
    assert group.commit(follower, 1, instance="c") is unknown


def test_return_that_was_not_written_is_taken_back() -> None:
    group, _, follower = stable()
    waiter = group.join(joining(instance="b", rebalance_timeout_ms=1, session_timeout_ms=2 * SESSION_MS))
    group.write(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = group.joined(waiter)
    assert (answer.error, answer.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert group.state == "Stable"
    assert group.heartbeat(follower, 1, instance="b") is ErrorCode.NONE
    assert group.heartbeat("b-id3", 1, instance="b") is ErrorCode.FENCED_INSTANCE_ID
    [_, member] = group.group.snapshot().members
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (REBALANCE_MS, SESSION_MS)
    group.pass_ms(SESSION_MS)
    assert group.heartbeat(follower, 1, instance="b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_instance_that_returns_with_another_choice_of_protocol_starts_a_rebalance() -> None:
    group, leader, _ = stable()
    waiters = [group.join(joining(instance="b", protocols=(("roundrobin", b""),)))]
    assert group.state == "PreparingRebalance"
    assert not group.stores
    waiters.append(group.join(joining(leader, instance="a")))
    assert {group.joined(waiter).protocol_name for waiter in waiters} == {"roundrobin"}
    group.settle(waiters)


def test_topics_of_an_instance_that_returned_count_once_it_is_written() -> None:
    group = DrivenGroup()
    group.stable(joining(instance="a", protocols=(("range", subscription("old")),)))
    group.join(joining(instance="a", protocols=(("range", subscription("new")),)))
    group.write()
    assert group.group.subscribed_topics == frozenset({"new"})


def test_second_return_fences_the_first_whose_write_is_under_way() -> None:
    group, _, _ = stable()
    first = group.join(joining(instance="b"))
    second = group.join(joining(instance="b"))
    assert group.joined(first) == JoinResult(ErrorCode.FENCED_INSTANCE_ID, "b-id3")
    group.write()
    assert group.waits(second)
    group.write()
    assert group.joined(second).member_id == "b-id4"


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_return_whose_write_a_rebalance_overtakes_is_part_of_the_rebalance(error: ErrorCode) -> None:
    group, leader, _ = stable()
    returned = group.join(joining(instance="b"))
    waiters = [returned, group.join(joining()), group.join(joining(leader, instance="a"))]
    assert group.joined(returned).generation == 2
    group.write(error)
    assert group.joined(returned).member_id == "b-id3"
    group.settle(waiters)


def test_return_whose_write_fails_after_the_next_generation_is_stable_stays() -> None:
    group, leader, _ = stable()
    returned = group.join(joining(instance="b"))
    leads = group.join(joining(leader, instance="a"))
    syncs = [group.sync("b-id3", 2, instance="b"), group.sync(leader, 2, {"b-id3": b"2"}, instance="a")]
    assert group.joined(leads).generation == group.joined(returned).generation == 2
    group.write(place=1)
    assert group.synced(syncs[0]).assignment == b"2"
    group.write(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert group.heartbeat("b-id3", 2, instance="b") is ErrorCode.NONE


def test_rebalance_that_begins_while_a_return_is_written_waits_for_the_others_alone() -> None:
    group, leader, _ = stable()
    returned = group.join(joining(instance="b"))
    leads = group.join(joining(leader, instance="a"))
    assert group.joined(leads).generation == 2
    assert group.joined(returned).generation == 2


def test_return_while_a_generation_begins_starts_another() -> None:
    group = DrivenGroup()
    waiters = [group.join(joining(instance="a")), group.join(joining(instance="b"))]
    group.pass_ms(2 * DELAY_MS)
    leader, follower = (group.joined(waiter).member_id for waiter in waiters)
    syncs = [group.sync(follower, 1, instance="b"), group.sync(leader, 1, {}, instance="a")]
    returned = group.join(joining(instance="b"))
    assert group.synced(syncs[0]).error is ErrorCode.FENCED_INSTANCE_ID
    assert group.synced(syncs[1]).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.waits(returned)
    group.join(joining(leader, instance="a"))
    assert group.joined(returned).generation == 2


def test_return_while_a_rebalance_waits_fences_the_join_that_waits() -> None:
    group = DrivenGroup()
    first = group.join(joining(instance="a"))
    second = group.join(joining(instance="a"))
    assert group.joined(first).error is ErrorCode.FENCED_INSTANCE_ID
    group.pass_ms(2 * DELAY_MS)
    assert len(group.joined(second).members) == 1


def test_new_instance_that_returns_while_its_first_join_waits_is_waited_with_as_long_as_any_new_member() -> None:
    group = DrivenGroup()
    [leader] = group.stable(joining(instance="a"))
    group.join(joining(instance="b"))
    returned = group.join(joining(instance="b"))
    group.pass_alive(2 * SESSION_MS, 1, leader)
    assert group.waits(returned), "a client sends no heartbeats while its JoinGroup waits"
    leads = group.join(joining(leader, instance="a"))
    assert group.joined(returned).generation == group.joined(leads).generation == 2


def test_static_member_that_is_away_during_a_rebalance_keeps_its_place_until_its_session_ends() -> None:
    long_ms = REBALANCE_MS + 2 * SESSION_MS
    group = DrivenGroup()
    leader, away = group.stable(joining(instance="a"), joining(instance="b", session_timeout_ms=long_ms))
    waiter = group.join(joining(leader, instance="a"))
    group.pass_ms(REBALANCE_MS)
    assert {member.member_id for member in group.joined(waiter).members} == {leader, away}
    sync = group.sync(leader, 2, {leader: b"1", away: b"2"})
    group.write()
    assert group.synced(sync).assignment == b"1"
    assert group.state == "Stable"
    returned = group.join(joining(instance="b", session_timeout_ms=long_ms))
    group.write()
    again = group.sync(group.joined(returned).member_id, 2, instance="b")
    assert group.synced(again).assignment == b"2"


def test_leader_that_is_away_during_a_rebalance_is_replaced_by_one_that_joined() -> None:
    long_ms = REBALANCE_MS + 2 * SESSION_MS
    group = DrivenGroup()
    _, follower = group.stable(joining(instance="a", session_timeout_ms=long_ms), joining(instance="b"))
    waiter = group.join(joining(follower, protocols=(("range", b"new"),), instance="b"))
    group.pass_ms(REBALANCE_MS)
    assert group.joined(waiter).leader == follower
    assert len(group.joined(waiter).members) == 2


def test_rebalance_without_anybody_goes_on_until_sessions_end() -> None:
    group = DrivenGroup()
    _, second = group.stable(
        joining(instance="a", session_timeout_ms=4 * REBALANCE_MS),
        joining(instance="b", session_timeout_ms=4 * REBALANCE_MS),
    )
    group.leave((second, "b"))
    group.pass_ms(2 * REBALANCE_MS)
    assert group.state == "PreparingRebalance"
    group.pass_ms(2 * REBALANCE_MS)
    assert group.state == "Empty"


def test_administrator_removes_members_by_instance() -> None:
    group, _, follower = stable()
    assert group.leave(("", "a"), ("", "c"), ("", None)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    waiter = group.join(joining(follower, instance="b", protocols=PROTOCOLS))
    assert [member.member_id for member in group.joined(waiter).members] == [follower]


def test_removed_instance_joins_as_a_new_member() -> None:
    group, _, _ = stable()
    group.leave(("", "a"), ("", "b"))
    waiter = group.join(joining(instance="a"))
    group.pass_ms(DELAY_MS)
    assert group.joined(waiter).member_id == "a-id3"
    assert len(group.joined(waiter).members) == 1
