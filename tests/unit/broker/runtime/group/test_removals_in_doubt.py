"""Offsets whose tombstones are in the log, and not committed in time: another leader's log may be without them."""

from __future__ import annotations

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.support.group_world import COMMIT_TIMEOUT_MS, TOPIC, GroupWorld, answer, commit_error
from tests.support.memory_node import FakeSlot
from tests.support.metadata_updates import partition, update

pytestmark = pytest.mark.guarantee("K2")

OK = ErrorCode.NONE
NOT_HERE = ErrorCode.NOT_COORDINATOR


def lose_what_is_not_committed(world: GroupWorld) -> None:
    """Another broker leads meanwhile, whose log never had it."""
    world.resign_unsettled()
    world.log.truncate_to(world.replica.high_watermark)
    world.settle()
    world.committing = True
    world.lead()


@pytest.mark.parametrize("deletion", ["of the group", "of the offset"])
def test_a_deletion_is_acknowledged_once_the_tombstones_of_one_in_doubt_before_it_are_committed(
    world: GroupWorld, deletion: str
) -> None:
    def delete() -> FakeSlot:
        if deletion == "of the group":
            return world.send(DeleteGroupsRequest(["g"]), 2)
        topics = [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0)])]
        return world.send(OffsetDeleteRequest("g", topics), 0)

    def error(slot: FakeSlot) -> int:
        if deletion == "of the group":
            return answer(slot, 2, DeleteGroupsResponse).results[0].error_code
        return answer(slot, 0, OffsetDeleteResponse).topics[0].partitions[0].error_code

    world.commit(1)
    world.commit(2, 1)
    world.committing = False
    slot = delete()
    world.advance(COMMIT_TIMEOUT_MS + 1)
    assert error(slot) == ErrorCode.REQUEST_TIMED_OUT
    slot = delete()
    assert slot.response is None
    lose_what_is_not_committed(world)
    assert error(slot) == NOT_HERE
    assert world.committed() == (1, OK), "which nobody was told is gone"
    assert error(delete()) == OK
    lose_what_is_not_committed(world)
    assert world.committed() == (-1, OK)


def test_a_group_with_a_deletion_in_doubt_is_not_forgotten_by_a_request_that_fails(world: GroupWorld) -> None:
    world.commit(1)
    world.committing = False
    world.send(DeleteGroupsRequest(["g"]), 2)
    world.advance(COMMIT_TIMEOUT_MS + 1)
    refused = world.commit(2, member_id="m", generation_id_or_member_epoch=3)
    assert commit_error(refused) is ErrorCode.UNKNOWN_MEMBER_ID
    slot = world.send(DeleteGroupsRequest(["g"]), 2)
    assert slot.response is None
    world.committing = True
    world.settle()
    assert answer(slot, 2, DeleteGroupsResponse).results[0].error_code == OK
    assert list(world.coordinator.all_groups()) == []


def test_commits_for_a_topic_made_anew_wait_until_the_tombstones_of_the_former_are_committed(world: GroupWorld) -> None:
    world.commit(1)
    world.committing = False
    world.cache.update(update({TOPIC: [partition(-2, [1], index=i, epoch=9) for i in range(3)]}))
    world.settle()
    world.cache.update(update({TOPIC: [partition(1, [1])]}, topic_id="AAAAAAAAAAAAAAAAAAAAAg"))
    world.advance(2 * COMMIT_TIMEOUT_MS)
    assert commit_error(world.commit(0, group="other")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.committing = True
    world.advance(COMMIT_TIMEOUT_MS)
    assert commit_error(world.commit(0, group="other")) is OK
