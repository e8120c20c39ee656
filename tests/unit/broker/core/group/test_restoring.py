"""Groups that come back from the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.group.settings import GroupSettings
from broker.core.group.snapshot import GroupSnapshot, MemberSnapshot
from broker.wire.errors import ErrorCode
from tests.support.groups import REBALANCE_MS, SESSION_MS, WALL_MS, DrivenGroup, joining, subscription

pytestmark = pytest.mark.guarantee("group-rules")


def member(name: str, instance: str | None = None, topics: tuple[str, ...] = ("t",)) -> MemberSnapshot:
    return MemberSnapshot(
        name, instance, "client", "/host", REBALANCE_MS, SESSION_MS, subscription(*topics), name.encode()
    )


def snapshot(*members: MemberSnapshot, protocol: str | None = "range", leader: str | None = "b") -> GroupSnapshot:
    return GroupSnapshot("g", "consumer", 7, protocol, leader, WALL_MS - 5, members)


def test_what_was_written_comes_back_as_it_was() -> None:
    group = DrivenGroup()
    leader, _ = group.stable(joining(), joining(instance="i"))
    group.join(joining(instance="i"))
    stored = group.write().snapshot
    back = DrivenGroup(snapshot=stored)
    assert back.group.snapshot() == stored
    assert back.state == "Stable"
    assert back.heartbeat(leader, 1) is ErrorCode.NONE
    assert back.heartbeat("i-id3", 1, instance="i") is ErrorCode.NONE
    assert back.heartbeat("i-id2", 1, instance="i") is ErrorCode.FENCED_INSTANCE_ID
    assert back.synced(back.sync(leader, 1)).assignment == leader.encode()


def test_group_with_members_is_stable_and_their_sessions_begin_anew() -> None:
    group = DrivenGroup(snapshot=snapshot(member("a"), member("b")))
    assert (group.state, group.group.generation, group.group.protocol_type) == ("Stable", 7, "consumer")
    assert group.group.current_state_timestamp == WALL_MS - 5
    assert group.group.subscribed_topics == frozenset({"t"})
    group.pass_ms(SESSION_MS - 1)
    assert group.heartbeat("a", 7) is ErrorCode.NONE
    group.pass_ms(1)
    assert group.heartbeat("b", 7) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat("a", 7) is ErrorCode.REBALANCE_IN_PROGRESS


def test_leader_of_the_log_leads() -> None:
    group = DrivenGroup(snapshot=snapshot(member("a"), member("b")))
    assert group.waits(group.join(joining("b", protocols=(("range", subscription("t")),))))
    assert group.state == "PreparingRebalance"


def test_leader_that_is_no_member_is_replaced() -> None:
    group = DrivenGroup(snapshot=snapshot(member("a"), member("c"), leader="gone"))
    assert group.group.snapshot().leader == "a"


def test_group_without_members_is_empty() -> None:
    group = DrivenGroup(snapshot=snapshot(protocol=None, leader=None))
    assert (group.state, group.group.generation) == ("Empty", 7)
    assert group.group.subscribed_topics == frozenset()
    assert group.group.next_deadline_ms is None
    assert not group.group.is_unused
    waiter = group.join(joining())
    group.pass_ms(3_000)
    assert group.joined(waiter).generation == 8


def test_group_of_no_protocol_type_has_none() -> None:
    stored = replace(snapshot(protocol=None, leader=None), protocol_type="")
    assert DrivenGroup(snapshot=stored).group.protocol_type is None


def test_members_without_a_protocol_are_left_out() -> None:
    group = DrivenGroup(snapshot=snapshot(member("a"), protocol=None))
    assert group.state == "Empty"
    assert group.group.snapshot().members == ()


def test_instance_that_the_log_has_twice_is_its_last_member() -> None:
    group = DrivenGroup(snapshot=snapshot(member("a", "i"), member("b", "i"), member("c"), member("c")))
    assert [each.member_id for each in group.group.snapshot().members] == ["b", "c"]
    assert group.heartbeat("b", 7, instance="i") is ErrorCode.NONE


def test_group_that_is_larger_than_allowed_shrinks() -> None:
    group = DrivenGroup(GroupSettings(max_size=2), snapshot(member("a"), member("b"), member("c")))
    assert group.state == "PreparingRebalance"
    assert group.commit("c", 7) is ErrorCode.NONE
    same = (("range", subscription("t")),)
    waiters = [group.join(joining(each, protocols=same)) for each in ("a", "b", "c")]
    assert group.joined(waiters[2]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(group.joined(waiters[1]).members) == 2
    group.settle(waiters[:2])


def test_silent_members_of_a_restored_group_that_shrinks_end() -> None:
    group = DrivenGroup(GroupSettings(max_size=1), snapshot(member("a"), member("b", "i")))
    group.pass_ms(REBALANCE_MS + SESSION_MS)
    assert group.state == "Empty"
