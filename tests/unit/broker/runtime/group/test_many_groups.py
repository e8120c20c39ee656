"""A partition with many groups: what concerns all of them is done some in a turn, and nobody sees a half of it."""

from __future__ import annotations

import pytest

from broker.core.coordination import OFFSETS_TOPIC
from broker.runtime.coordinators.slices import UNITS_PER_TURN
from broker.runtime.group.hosted_group import HostedGroup
from broker.wire.errors import ErrorCode
from broker.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.group_world import TOPIC, GroupWorld, answer, commit_error
from tests.support.metadata_updates import partition, update

pytestmark = pytest.mark.guarantee("K1", "hostile-clients")

MANY = 2 * UNITS_PER_TURN + 1
NAMES = [f"g{number}" for number in range(MANY)]


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.lead()
    entry = OffsetCommitRequestPartition(0, 5, -1, "")
    for name in NAMES:
        world.coordinator.find_or_make(name)
        world.send_unsettled(OffsetCommitRequest(name, topics=[OffsetCommitRequestTopic(TOPIC, [entry])]), 8)
    world.settle()
    return world


def _turn(world: GroupWorld) -> None:
    world.end_turn()
    world.loop.run_soon()


def test_they_are_listed_in_turns_and_all_at_once(world: GroupWorld) -> None:
    slot = world.send_unsettled(ListGroupsRequest(), 4)
    _turn(world)
    assert slot.response is None
    world.settle()
    listed = answer(slot, 4, ListGroupsResponse)
    assert listed.error_code == 0
    assert sorted(group.group_id for group in listed.groups) == sorted(NAMES)


def test_a_deleted_topic_goes_out_of_them_in_turns_and_its_successor_waits_for_that(world: GroupWorld) -> None:
    cache = world.cache
    cache.update(update({OFFSETS_TOPIC: [partition(1, [1])], TOPIC: [partition(-2, [1])]}))
    world.loop.run_soon()
    again = update({TOPIC: [partition(1, [1])]})
    again.topic_states[0].topic_id = "B" * 22
    cache.update(again)
    left = world.coordinator.find(NAMES[-1])
    assert isinstance(left, HostedGroup)
    assert not left.offsets.empty
    slot = world.send_unsettled(_commit(NAMES[-1]), 8)
    world.settle()
    assert commit_error(slot) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert list(world.coordinator.all_groups()) == []
    assert commit_error(world.commit(1, group=NAMES[-1])) is ErrorCode.NONE


def _commit(group: str) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group, topics=[OffsetCommitRequestTopic(TOPIC, [OffsetCommitRequestPartition(0, 1, -1, "")])]
    )


def test_they_are_let_go_at_once_and_cleaned_up_in_turns(world: GroupWorld) -> None:
    every = list(world.coordinator.all_groups())
    world.resign_unsettled()
    assert all(hosted.unloaded for hosted in every)
    assert 0 < sum(hosted._forgotten for hosted in every) < MANY
    assert list(world.coordinator.all_groups()) == []
    world.settle()
    assert all(hosted._forgotten for hosted in every)


def test_they_are_served_once_all_have_come_to_life(world: GroupWorld) -> None:
    world.resign()
    world.lead(load=False)
    turns = 0
    while world.coordinator.find(NAMES[0]) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        turns += 1
        assert turns < 100
        _turn(world)
    assert turns > MANY / UNITS_PER_TURN
    assert len(list(world.coordinator.all_groups())) == MANY
    assert world.committed(group=NAMES[-1]) == (5, ErrorCode.NONE)
