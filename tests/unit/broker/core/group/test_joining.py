"""JoinGroup: who is let in, in which state, with which id."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.group.effects import JoinResult
from broker.core.group.settings import GroupSettings
from broker.wire.errors import ErrorCode
from tests.support.groups import DELAY_MS, PROTOCOLS, DrivenGroup, joining

pytestmark = pytest.mark.guarantee("group-rules")

OTHER = (("range", b"changed"), ("roundrobin", b"rr"))


@pytest.mark.parametrize(
    ("session_ms", "error"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
        (-1, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_session_timeouts_have_bounds(session_ms: int, error: ErrorCode) -> None:
    group = DrivenGroup()
    waiter = group.join(joining(session_timeout_ms=session_ms, requires_known_member_id=True))
    assert group.joined(waiter).error is error
    assert group.state == "Empty"


def test_dynamic_member_gets_its_id_before_it_joins() -> None:
    group = DrivenGroup()
    answer = group.joined(group.join(joining(requires_known_member_id=True)))
    assert answer == JoinResult(ErrorCode.MEMBER_ID_REQUIRED, "client-id1")
    assert group.state == "Empty"
    waiter = group.join(joining("client-id1"))
    group.pass_ms(DELAY_MS)
    assert group.joined(waiter).leader == "client-id1"


def test_static_member_gets_its_id_as_it_joins_and_from_its_instance() -> None:
    group = DrivenGroup()
    waiter = group.join(joining(instance="i", requires_known_member_id=True))
    group.pass_ms(DELAY_MS)
    assert group.joined(waiter).member_id == "i-id1"


def test_pending_id_is_no_static_members() -> None:
    group = DrivenGroup()
    pending = group.joined(group.join(joining(requires_known_member_id=True))).member_id
    assert group.joined(group.join(joining(pending, instance="i"))).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_id_that_the_group_did_not_give_is_unknown() -> None:
    group = DrivenGroup()
    assert group.joined(group.join(joining("made up"))) == JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, "made up")
    assert group.state == "Empty"
    group.stable(joining())
    assert group.joined(group.join(joining("made up"))).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.state == "Stable"


def test_long_client_id_makes_no_member_id_that_a_response_cannot_hold() -> None:
    group = DrivenGroup()
    answer = group.joined(group.join(joining(client_id="ä" * 30_000, requires_known_member_id=True)))
    assert answer.member_id.startswith("ä")
    assert len(answer.member_id.encode()) < 2**15


@pytest.mark.parametrize(
    "fields",
    [{"protocol_type": ""}, {"protocols": ()}],
)
def test_first_member_must_name_a_protocol(fields: dict[str, Any]) -> None:
    group = DrivenGroup()
    assert group.joined(group.join(joining(**fields))).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.state == "Empty"


@pytest.mark.parametrize(
    "fields",
    [{"protocol_type": "connect"}, {"protocols": ()}, {"protocols": (("sticky", b""),)}],
)
def test_member_must_fit_to_those_that_are_there(fields: dict[str, Any]) -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    refused = JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert group.joined(group.join(joining(**fields))) == refused
    assert group.joined(group.join(joining(member, **fields))).error is refused.error
    assert group.state == "Stable"


def test_protocol_must_be_supported_by_all_not_by_some() -> None:
    group = DrivenGroup()
    both, one = (("a", b""), ("b", b"")), (("a", b""),)
    group.stable(joining(protocols=both), joining(protocols=one))
    refused = group.join(joining(protocols=(("b", b""),)))
    assert group.joined(refused).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_that_is_named_twice_counts_once() -> None:
    group = DrivenGroup()
    waiter = group.join(joining(protocols=(("a", b"1"), ("a", b"2"))))
    other = group.join(joining(protocols=(("a", b"3"),)))
    group.pass_ms(2 * DELAY_MS)
    assert group.joined(waiter).protocol_name == "a"
    assert [member.metadata for member in group.joined(waiter).members] == [b"1", b"3"]
    assert not group.waits(other)


def test_group_that_is_empty_again_takes_another_protocol_type() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    group.leave((member, None))
    group.write()
    waiter = group.join(joining(protocol_type="connect", protocols=(("x", b""),)))
    group.pass_ms(DELAY_MS)
    assert group.joined(waiter).protocol_type == "connect"


def test_second_join_of_a_waiting_member_replaces_the_first() -> None:
    group = DrivenGroup()
    group.join(joining())
    pending = group.joined(group.join(joining(requires_known_member_id=True))).member_id
    first = group.join(joining(pending))
    second = group.join(joining(pending, protocols=OTHER))
    assert group.joined(first) == JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, pending)
    group.pass_ms(2 * DELAY_MS)
    assert group.joined(second).error is ErrorCode.NONE


def completing() -> tuple[DrivenGroup, str, str]:
    group = DrivenGroup()
    waiters = [group.join(joining()), group.join(joining())]
    group.pass_ms(2 * DELAY_MS)
    leader, follower = (group.joined(waiter).member_id for waiter in waiters)
    return group, leader, follower


def test_member_that_asks_again_while_a_generation_begins_is_told_of_it_again() -> None:
    group, leader, follower = completing()
    again = group.joined(group.join(joining(follower)))
    assert (again.generation, again.leader, again.members) == (1, leader, ())
    of_leader = group.joined(group.join(joining(leader)))
    assert [member.member_id for member in of_leader.members] == [leader, follower]
    assert group.state == "CompletingRebalance"


def test_member_that_changed_while_a_generation_begins_starts_another() -> None:
    group, leader, follower = completing()
    sync = group.sync(leader, 1, {})
    again = group.join(joining(follower, protocols=OTHER))
    assert group.synced(sync).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.state == "PreparingRebalance"
    of_leader = group.join(joining(leader))
    assert group.joined(of_leader).generation == 2
    assert [member.metadata for member in group.joined(of_leader).members] == [b"r", b"changed"]
    assert not group.waits(again)


def test_follower_that_joins_a_stable_group_unchanged_is_told_of_its_generation() -> None:
    group = DrivenGroup()
    leader, follower = group.stable(joining(), joining())
    again = group.joined(group.join(joining(follower)))
    assert (again.generation, again.leader, again.protocol_name, again.members) == (1, leader, "range", ())
    assert group.state == "Stable"


def test_follower_that_joins_a_stable_group_changed_starts_a_rebalance() -> None:
    group = DrivenGroup()
    _, follower = group.stable(joining(), joining())
    waiter = group.join(joining(follower, protocols=OTHER))
    assert group.waits(waiter)
    assert group.state == "PreparingRebalance"


def test_follower_that_orders_its_protocols_otherwise_has_changed() -> None:
    group = DrivenGroup()
    _, follower = group.stable(joining(), joining())
    assert group.waits(group.join(joining(follower, protocols=PROTOCOLS[::-1])))


def test_leader_that_joins_a_stable_group_unchanged_starts_a_rebalance() -> None:
    group = DrivenGroup()
    leader, follower = group.stable(joining(), joining())
    waiter = group.join(joining(leader))
    assert group.waits(waiter)
    group.join(joining(follower))
    assert group.joined(waiter).generation == 2


def test_next_member_leads_when_the_leader_leaves() -> None:
    group = DrivenGroup()
    first, second, third = group.stable(joining(), joining(), joining())
    group.leave((first, None))
    waiters = [group.join(joining(third)), group.join(joining(second))]
    assert {group.joined(waiter).leader for waiter in waiters} == {second}


# Bounds


def test_full_group_takes_no_new_member() -> None:
    group = DrivenGroup(GroupSettings(max_size=2))
    first, _ = group.stable(joining(), joining())
    assert group.joined(group.join(joining())) == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert group.state == "Stable"
    assert group.waits(group.join(joining(first)))


def test_static_member_that_returns_to_a_full_group_takes_its_own_place() -> None:
    group = DrivenGroup(GroupSettings(max_size=1))
    group.stable(joining(instance="i"))
    waiter = group.join(joining(instance="i"))
    group.write()
    assert group.joined(waiter).error is ErrorCode.NONE
    assert group.joined(group.join(joining(instance="j"))).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_full_group_takes_members_again_that_join_while_it_rebalances() -> None:
    group = DrivenGroup(GroupSettings(max_size=2))
    first, second = group.stable(joining(), joining())
    waiter = group.join(joining(first))
    assert group.joined(group.join(joining(second))).generation == 2
    assert group.joined(waiter).generation == 2


def test_while_a_group_rebalances_those_that_join_first_are_in() -> None:
    group = DrivenGroup(GroupSettings(max_size=2))
    first, second = group.stable(joining(), joining())
    group.join(joining(first))
    new = group.join(joining())
    assert group.waits(new)
    assert group.joined(group.join(joining(second))).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.joined(new).generation == 2
    assert group.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_waits_may_ask_again_in_a_full_group() -> None:
    group = DrivenGroup(GroupSettings(max_size=1))
    group.stable(joining())
    group.leave(("client-id1", None))
    group.write()
    pending = group.joined(group.join(joining(requires_known_member_id=True))).member_id
    group.join(joining(pending))
    assert group.waits(group.join(joining(pending)))


def test_pending_id_is_forgotten_where_the_group_is_full() -> None:
    group = DrivenGroup(GroupSettings(max_size=1))
    pending = group.joined(group.join(joining(requires_known_member_id=True))).member_id
    waiter = group.join(joining())
    assert group.joined(group.join(joining(pending))).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    group.pass_ms(DELAY_MS)
    group.settle([waiter])


def test_of_too_many_pending_ids_the_oldest_is_forgotten() -> None:
    group = DrivenGroup(GroupSettings(max_pending_members=2))
    ids = [group.joined(group.join(joining(requires_known_member_id=True))).member_id for _ in range(3)]
    assert group.joined(group.join(joining(ids[0]))).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert all(group.waits(group.join(joining(member_id))) for member_id in ids[1:])


def test_members_that_hold_too_many_bytes_are_refused() -> None:
    group = DrivenGroup(GroupSettings(max_subscription_bytes=2_000))
    large = (("range", bytes(1_200)),)
    [member] = group.stable(joining(protocols=large))
    refused = group.joined(group.join(joining(protocols=large)))
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.joined(group.join(joining(member, protocols=(("range", bytes(2_000)),)))).error is refused.error
    assert group.state == "Stable"
    again = group.join(joining(member, protocols=(("range", bytes(1_500)),)))
    assert group.joined(again).error is ErrorCode.NONE
    assert 1_500 < group.group.size_bytes < 2_000


def test_many_empty_protocols_are_not_free() -> None:
    group = DrivenGroup(GroupSettings(max_subscription_bytes=100_000))
    many = tuple((str(n), b"") for n in range(1_000))
    assert group.joined(group.join(joining(protocols=many))).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_that_come_and_go_for_ever_leave_nothing_behind() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    for _ in range(1_000):
        pending = group.joined(group.join(joining(requires_known_member_id=True))).member_id
        group.join(joining(pending))
        group.leave((pending, None))
        assert group.heartbeat(member, group.group.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.join(joining(member))
    assert len(group.joined(again).members) == 1
    group.settle([again])
    machine = group.group._machine
    assert len(machine.members) == 1
    assert not machine.members.pending
    assert len(machine.deadlines._heap) <= 128
    assert machine.members.size_bytes == machine.members[member].size
