"""Members of a group at their coordinator: what they are told, what is stored, and who still knows them afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.wire.chunks import Chunk
from broker.wire.errors import ErrorCode
from broker.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from broker.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.group_world import GroupWorld, answer, commit_error
from tests.support.memory_node import FakeSlot

pytestmark = pytest.mark.guarantee("K2")

OK = ErrorCode.NONE
SESSION_MS = 10_000
REBALANCE_MS = 60_000
FENCE_CHECK_MS = 1_000
JOIN, SYNC = 9, 5


def join(world: GroupWorld, member_id: str = "", version: int = JOIN, instance: str | None = None) -> FakeSlot:
    return world.send(join_request(member_id, instance), version)


def join_request(member_id: str, instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        "g",
        SESSION_MS,
        REBALANCE_MS,
        member_id,
        instance,
        "consumer",
        [JoinGroupRequestProtocol("range", b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")],
    )


def joined(slot: FakeSlot, version: int = JOIN) -> JoinGroupResponse:
    return answer(slot, version, JoinGroupResponse)


def sync(world: GroupWorld, member_id: str, generation: int, **assignments: bytes) -> FakeSlot:
    return world.send(sync_request(member_id, generation, **assignments), SYNC)


def sync_request(member_id: str, generation: int, **assignments: bytes) -> SyncGroupRequest:
    entries = [SyncGroupRequestAssignment(member, data) for member, data in assignments.items()]
    return SyncGroupRequest("g", generation, member_id, None, "consumer", "range", entries)


def heartbeat(world: GroupWorld, member_id: str, generation: int) -> ErrorCode:
    body = HeartbeatRequest("g", generation, member_id)
    return ErrorCode(world.ask(body, 4, HeartbeatResponse).error_code)


def state(world: GroupWorld) -> str:
    (group,) = world.ask(DescribeGroupsRequest(["g"]), 5, DescribeGroupsResponse).groups
    return group.group_state


def new_member(world: GroupWorld) -> str:
    """A member id, as KIP-394 has it given out first."""
    response = joined(join(world))
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id.startswith("client-")
    return response.member_id


def stable_member(world: GroupWorld) -> str:
    """The only member of a stable group, in generation 1."""
    member_id = new_member(world)
    slot = join(world, member_id)
    world.advance(0)
    response = joined(slot)
    assert (response.error_code, response.generation_id, response.leader) == (OK, 1, member_id)
    assert [member.member_id for member in response.members] == [member_id]
    slot = world.send(
        SyncGroupRequest(
            "g", 1, member_id, None, "consumer", "range", [SyncGroupRequestAssignment(member_id, b"mine")]
        ),
        SYNC,
    )
    assert answer(slot, SYNC, SyncGroupResponse).assignment == b"mine"
    return member_id


def test_a_group_comes_together_and_commits(world: GroupWorld) -> None:
    member_id = stable_member(world)
    assert state(world) == "Stable"
    assert heartbeat(world, member_id, 1) is OK
    assert commit_error(world.commit(5, generation_id_or_member_epoch=1, member_id=member_id)) is OK
    wrong = world.commit(6, generation_id_or_member_epoch=0, member_id=member_id)
    assert commit_error(wrong) is ErrorCode.ILLEGAL_GENERATION
    assert commit_error(world.commit(6)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.committed() == (5, OK)


def test_an_assignment_is_handed_out_once_it_is_committed(world: GroupWorld) -> None:
    member_id = new_member(world)
    slot = join(world, member_id)
    world.advance(0)
    assert joined(slot).generation_id == 1
    world.committing = False
    slot = sync(world, member_id, 1, **{member_id: b"mine"})
    assert slot.response is None
    world.committing = True
    world.settle()
    assert answer(slot, SYNC, SyncGroupResponse).assignment == b"mine"


def test_an_assignment_that_is_not_stored_is_not_handed_out(world: GroupWorld) -> None:
    member_id = new_member(world)
    slot = join(world, member_id)
    world.advance(0)
    assert joined(slot).generation_id == 1
    world.committing = False
    slot = sync(world, member_id, 1, **{member_id: b"mine"})
    world.advance(6_000)
    response = answer(slot, SYNC, SyncGroupResponse)
    assert (response.error_code, response.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")


def test_who_waits_when_the_leadership_goes_is_sent_on(world: GroupWorld) -> None:
    stable_member(world)
    second = new_member(world)
    slot = join(world, second)
    assert slot.response is None
    world.resign()
    assert joined(slot).error_code == ErrorCode.NOT_COORDINATOR


def test_the_next_coordinator_knows_the_members(world: GroupWorld) -> None:
    member_id = stable_member(world)
    world.resign()
    assert heartbeat(world, member_id, 1) is ErrorCode.NOT_COORDINATOR
    world.lead(load=False)
    assert heartbeat(world, member_id, 1) is OK  # while it is loaded every member is one
    world.settle()
    assert heartbeat(world, member_id, 1) is OK
    assert heartbeat(world, "stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert state(world) == "Stable"
    slot = sync(world, member_id, 1)
    assert answer(slot, SYNC, SyncGroupResponse).assignment == b"mine"


def test_silent_members_leave_an_empty_group_behind(world: GroupWorld) -> None:
    stable_member(world)
    world.commit(3, generation_id_or_member_epoch=1, member_id="nobody")
    world.advance(SESSION_MS + 1)
    assert state(world) == "Empty"
    world.resign()
    world.lead()
    assert state(world) == "Empty"


def test_a_member_leaves(world: GroupWorld) -> None:
    member_id = stable_member(world)
    body = LeaveGroupRequest("g", members=[MemberIdentity(member_id), MemberIdentity("stranger")])
    response = world.ask(body, 5, LeaveGroupResponse)
    codes = [(member.member_id, member.error_code) for member in response.members]
    assert (response.error_code, codes) == (OK, [(member_id, OK), ("stranger", ErrorCode.UNKNOWN_MEMBER_ID)])
    assert state(world) == "Empty"
    old = world.ask(LeaveGroupRequest("g", "stranger"), 1, LeaveGroupResponse)
    assert old.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_groups_are_listed_by_state(world: GroupWorld) -> None:
    stable_member(world)
    world.commit(1, group="simple")

    def listed(states: list[str], types: list[str]) -> list[tuple[str, str, str]]:
        response = world.ask(ListGroupsRequest(states, types), 5, ListGroupsResponse)
        assert response.error_code == OK
        return sorted((one.group_id, one.protocol_type, one.group_state) for one in response.groups)

    both = [("g", "consumer", "Stable"), ("simple", "", "Empty")]
    assert listed([], []) == both
    assert listed([], ["Classic"]) == both
    assert listed(["stable"], []) == both[:1]
    assert listed(["Empty", "Dead"], []) == both[1:]
    assert listed([], ["consumer"]) == []


@pytest.mark.parametrize("version", [0, 4, JOIN])
def test_requests_that_come_to_nothing_leave_no_group_behind(world: GroupWorld, version: int) -> None:
    body = JoinGroupRequest("g", 1, 1, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    assert world.ask(body, version, JoinGroupResponse).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert joined(join(world, "stranger")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    nameless = JoinGroupRequest("", SESSION_MS, 1, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    assert world.ask(nameless, version, JoinGroupResponse).error_code == ErrorCode.INVALID_GROUP_ID
    assert list(world.coordinator.all_groups()) == []
    assert state(world) == "Dead"


def test_a_static_member_that_returns_waits_for_its_record_and_is_sent_on_when_the_leadership_goes(
    world: GroupWorld,
) -> None:
    slot = join(world, instance="i1")
    world.advance(0)
    first = joined(slot)
    assert (first.error_code, first.generation_id) == (OK, 1)
    slot = world.send(
        SyncGroupRequest(
            "g", 1, first.member_id, "i1", "consumer", "range", [SyncGroupRequestAssignment(first.member_id, b"mine")]
        ),
        SYNC,
    )
    assert answer(slot, SYNC, SyncGroupResponse).assignment == b"mine"
    world.committing = False
    slot = join(world, instance="i1")
    assert slot.response is None
    world.resign()
    assert joined(slot).error_code == ErrorCode.NOT_COORDINATOR


def test_a_client_id_that_no_record_can_hold_joins_no_group(world: GroupWorld) -> None:
    body = JoinGroupRequest("g", SESSION_MS, REBALANCE_MS, "", None, "consumer", [JoinGroupRequestProtocol("range")])
    replaced = (b"\xff" * 20_000).decode("utf-8", "replace")
    assert joined(world.send(body, JOIN, replaced)).error_code == ErrorCode.INVALID_REQUEST
    assert world.coordinator.find("g") is None


def test_no_session_ends_while_the_coordinator_is_fenced_and_turns_its_members_away(world: GroupWorld) -> None:
    """ZooKeeper was away for a while: everybody is there still, and nobody has to join anew."""
    member_id = stable_member(world)
    world.advance(SESSION_MS / 2)
    world.replicas.set_session_deadline_passed(True)
    world.advance(10 * SESSION_MS)
    assert heartbeat(world, member_id, 1) is ErrorCode.NOT_COORDINATOR
    world.replicas.set_session_deadline_passed(False)
    world.advance(SESSION_MS / 2 - 1)
    assert state(world) == "Stable"
    assert heartbeat(world, member_id, 1) is OK
    world.advance(SESSION_MS - 1)
    assert state(world) == "Stable"
    world.advance(FENCE_CHECK_MS)
    assert state(world) != "Stable"


def test_rebalance_waits_for_members_that_a_fence_kept_from_joining(world: GroupWorld) -> None:
    member_id = stable_member(world)
    other = join(world, new_member(world))
    world.advance(SESSION_MS / 2)
    world.replicas.set_session_deadline_passed(True)
    world.advance(2 * REBALANCE_MS)
    world.replicas.set_session_deadline_passed(False)
    assert heartbeat(world, member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = join(world, member_id)
    assert [joined(slot).error_code for slot in (other, again)] == [OK, OK]
    assert {joined(slot).generation_id for slot in (other, again)} == {2}


class BrokenSlot(FakeSlot):
    """Of a request whose response cannot be made."""

    def fulfil(self, chunks: Sequence[Chunk]) -> None:
        raise ValueError("this response cannot be made")


def test_answer_that_cannot_be_made_costs_its_connection_and_keeps_no_other_member_from_its_own(
    world: GroupWorld,
) -> None:
    first, second = new_member(world), new_member(world)
    broken = world.send_unsettled(join_request(first), JOIN, slot=BrokenSlot())
    slot = join(world, second)
    world.advance(3000)
    response = joined(slot)
    assert (response.error_code, response.generation_id, bool(broken.closed)) == (OK, 1, True)
    waits = sync(world, second, 1)
    broken = world.send_unsettled(sync_request(first, 1, **{first: b"a", second: b"b"}), SYNC, slot=BrokenSlot())
    world.settle()
    assert (answer(waits, SYNC, SyncGroupResponse).assignment, bool(broken.closed)) == (b"b", True)
    assert state(world) == "Stable"
