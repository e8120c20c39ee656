"""Offsets that go: with their group, their topic, or time. What is gone is gone wherever the partition is led next."""

from __future__ import annotations

import pytest

from broker.core.group.offsets import CommittedOffset
from broker.runtime.group.records import offset_record
from broker.wire.control_records import EndOfTransaction, marker
from broker.wire.coordinator_records.batches import TransactionalProducer, coordinator_batch
from broker.wire.errors import ErrorCode
from broker.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from broker.wire.records import encode_batch
from tests.support.group_world import CHECK_MS, COMMIT_TIMEOUT_MS, RETENTION_MS, TOPIC, GroupWorld, answer, commit_error
from tests.support.metadata_updates import partition, update

pytestmark = pytest.mark.guarantee("K2")

OK = ErrorCode.NONE
NOT_HERE = ErrorCode.NOT_COORDINATOR


def test_offsets_expire_once_nobody_has_committed_for_long(world: GroupWorld) -> None:
    world.commit(1, 0)
    world.advance(RETENTION_MS - CHECK_MS)
    world.commit(2, 1)
    world.advance(2 * CHECK_MS)
    assert world.committed(0) == (-1, OK)
    assert world.committed(1) == (2, OK)
    world.resign()
    world.lead()
    assert world.committed(0) == (-1, OK)
    assert world.committed(1) == (2, OK)
    world.advance(RETENTION_MS + CHECK_MS)
    assert list(world.coordinator.all_groups()) == []


def test_an_offset_with_a_retention_of_its_own_expires_then(world: GroupWorld) -> None:
    world.commit(1, version=4, retention_time_ms=3 * CHECK_MS)
    world.resign()
    world.lead()
    world.advance(2 * CHECK_MS)
    assert world.committed() == (1, OK)
    world.advance(2 * CHECK_MS)
    assert world.committed() == (-1, OK)


def test_a_commit_under_way_keeps_its_offset_from_expiring(world: GroupWorld) -> None:
    world.commit(1)
    world.advance(RETENTION_MS - CHECK_MS / 2)
    world.committing = False
    slot = world.commit(2)
    world.advance(COMMIT_TIMEOUT_MS - 1)
    world.wall_ms += RETENTION_MS
    world.committing = True
    world.settle()
    assert commit_error(slot) is OK
    assert world.committed() == (2, OK)


def test_delete_groups_removes_all_of_a_group_for_good(world: GroupWorld) -> None:
    world.commit(1)
    world.commit(2, 1)
    world.committing = False
    slot = world.send(DeleteGroupsRequest(["g", "nobody"]), 2)
    assert slot.response is None
    assert commit_error(world.commit(3)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.committed() == (-1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), "which all consumers take to come again"
    world.committing = True
    world.settle()
    results = {one.group_id: one.error_code for one in answer(slot, 2, DeleteGroupsResponse).results}
    assert results == {"g": OK, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}
    assert world.committed() == (-1, OK)
    world.resign()
    world.lead()
    assert world.committed() == (-1, OK)


def test_a_deletion_that_is_refused_leaves_the_group_as_it_was(world: GroupWorld) -> None:
    world.commit(1)
    slot = world.send_unsettled(DeleteGroupsRequest(["g"]), 2)
    world.replicas.set_session_deadline_passed(True)
    world.settle()
    (result,) = answer(slot, 2, DeleteGroupsResponse).results
    assert result.error_code == NOT_HERE
    world.replicas.set_session_deadline_passed(False)
    assert world.committed() == (1, OK)
    assert commit_error(world.commit(2)) is OK
    assert world.committed() == (2, OK)


def test_what_a_deletion_in_doubt_has_put_in_the_log_is_gone_before_and_after_the_next_load(world: GroupWorld) -> None:
    """Else a consumer would go on from an offset that is no more once the coordinator moves, without a commit since."""
    for index in range(3):
        assert commit_error(world.commit(index, index)) is OK
    size, world.replica.max_batch_bytes = world.replica.max_batch_bytes, 100
    world.committing = False
    slot = world.send(DeleteGroupsRequest(["g"]), 2)
    world.replica.max_batch_bytes = size
    world.advance(COMMIT_TIMEOUT_MS + 1)
    (result,) = answer(slot, 2, DeleteGroupsResponse).results
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    world.committing = True
    assert [world.committed(index) for index in range(3)] == [(-1, OK)] * 3
    assert commit_error(world.commit(5, 1)) is OK
    world.resign()
    world.lead()
    assert [world.committed(index) for index in range(3)] == [(-1, OK), (5, OK), (-1, OK)]


def test_an_expiry_in_doubt_is_kept_to_when_the_group_is_used_again(world: GroupWorld) -> None:
    world.commit(1)
    world.advance(RETENTION_MS)
    assert world.committed() == (1, OK)
    world.committing = False
    world.advance(CHECK_MS + COMMIT_TIMEOUT_MS + 1)
    world.committing = True
    world.settle()
    assert world.committed() == (-1, OK)
    world.resign()
    world.lead()
    assert world.committed() == (-1, OK)


def test_a_group_whose_tombstones_fill_more_than_one_batch_can_be_deleted(world: GroupWorld) -> None:
    for index in range(3):
        assert commit_error(world.commit(index, index)) is OK
    world.replica.max_batch_bytes = 100
    assert world.ask(DeleteGroupsRequest(["g"]), 2, DeleteGroupsResponse).results[0].error_code == OK
    world.resign()
    world.lead()
    assert [world.committed(index) for index in range(3)] == [(-1, OK)] * 3


def test_offset_delete_removes_what_it_names(world: GroupWorld) -> None:
    world.commit(1)
    world.commit(2, 1)
    topics = [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(99)])]
    response = world.ask(OffsetDeleteRequest("g", topics), 0, OffsetDeleteResponse)
    errors = {one.partition_index: one.error_code for one in response.topics[0].partitions}
    assert (response.error_code, errors) == (OK, {0: OK, 99: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert world.committed() == (-1, OK)
    assert world.committed(1) == (2, OK)
    response = world.ask(OffsetDeleteRequest("nobody", topics), 0, OffsetDeleteResponse)
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_topic_that_is_deleted_takes_its_offsets_along(world: GroupWorld) -> None:
    world.commit(1)
    world.cache.update(update({TOPIC: [partition(-2, [1], index=i, epoch=9) for i in range(3)]}))
    world.settle()
    world.cache.update(update({TOPIC: [partition(1, [1])]}, topic_id="AAAAAAAAAAAAAAAAAAAAAg"))
    assert world.committed() == (-1, OK)
    world.resign()
    world.lead()
    assert world.committed() == (-1, OK)


def test_a_topic_that_is_deleted_while_its_offsets_are_loaded_takes_them_along(world: GroupWorld) -> None:
    world.commit(1)
    world.commit(2, group="other")
    world.resign()
    world.lead(load=False)
    world.cache.update(update({TOPIC: [partition(-2, [1], index=i, epoch=9) for i in range(3)]}))
    world.settle()
    world.cache.update(update({TOPIC: [partition(1, [1])]}, topic_id="AAAAAAAAAAAAAAAAAAAAAg"))
    assert world.committed() == (-1, OK)
    assert world.committed(group="other") == (-1, OK)
    world.resign()
    world.lead()
    assert world.committed() == (-1, OK)


def delete_topic(world: GroupWorld) -> None:
    world.cache.update(update({TOPIC: [partition(-2, [1], index=i, epoch=9) for i in range(3)]}))
    world.settle()


def make_topic_anew(world: GroupWorld) -> None:
    world.cache.update(update({TOPIC: [partition(1, [1])]}, topic_id="AAAAAAAAAAAAAAAAAAAAAg"))


def test_offsets_of_a_deleted_topic_are_shown_to_nobody_while_they_are_removed(world: GroupWorld) -> None:
    world.commit(1)
    world.committing = False
    delete_topic(world)
    make_topic_anew(world)
    assert world.committed() == (-1, OK)
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    assert world.ask(everything, 8, OffsetFetchResponse).groups[0].topics == []
    assert commit_error(world.commit(0)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.committing = True
    world.settle()
    assert commit_error(world.commit(0)) is OK
    assert world.committed() == (0, OK)


@pytest.mark.parametrize("in_doubt", [True, False])
def test_offsets_of_a_deleted_topic_are_removed_also_where_it_takes_long(world: GroupWorld, in_doubt: bool) -> None:
    """The tombstones are not replicated in time, or not even appended, as this broker may have been deposed."""
    world.commit(1)
    world.commit(2, 1)
    if in_doubt:
        world.committing = False
    else:
        world.replicas.set_session_deadline_passed(True)
    delete_topic(world)
    make_topic_anew(world)
    world.advance(2 * COMMIT_TIMEOUT_MS)
    world.committing = True
    world.replicas.set_session_deadline_passed(False)
    assert world.committed() == (-1, OK)
    world.advance(COMMIT_TIMEOUT_MS)
    assert commit_error(world.commit(0, 0, group="other")) is OK
    world.resign()
    world.lead()
    assert world.committed() == (-1, OK)
    assert world.committed(1) == (-1, OK)
    assert world.committed(group="other") == (0, OK)


def lead_with_open_transaction(world: GroupWorld, offset: int, producer: int = 7) -> None:
    """The coordinator before has taken the offset as part of a transaction that is still open."""
    world.resign()
    records = [offset_record("g", (TOPIC, 0), CommittedOffset(offset, -1, "", world.wall_ms))]
    batch = coordinator_batch(records, world.wall_ms, transaction=TransactionalProducer(producer, 0))
    world.log.append_as_leader(memoryview(bytearray(batch)), 1)
    world.log.write()
    world.lead()
    assert world.committed(stable=True)[1] is ErrorCode.UNSTABLE_OFFSET_COMMIT


def end_transaction(world: GroupWorld, producer: int = 7) -> None:
    """Its marker, as a coordinator of transactions has it written."""
    records = [marker(EndOfTransaction(committed=True, coordinator_epoch=0))]
    batch = encode_batch(
        records, timestamps=1, producer_id=producer, producer_epoch=0, transactional=True, control=True
    )
    world.log.append_as_leader(memoryview(bytearray(batch)), 1)
    world.log.write()
    world.settle()
    world.coordinator.end_transaction(0, producer, True)


def test_a_deleted_group_is_not_brought_back_by_a_commit_that_was_on_its_way(world: GroupWorld) -> None:
    world.commit(1)
    world.committing = False
    commit = world.commit(2, 1)
    deletion = world.send(DeleteGroupsRequest(["g"]), 2)
    world.committing = True
    world.settle()
    assert commit_error(commit) is OK
    assert answer(deletion, 2, DeleteGroupsResponse).results[0].error_code == OK
    world.resign()
    world.lead()
    assert world.committed(1) == (-1, OK)


@pytest.mark.parametrize("deletion", ["of the group", "of the offset", "of the topic"])
def test_what_is_deleted_is_not_brought_back_by_a_commit_that_was_not_replicated_in_time(
    world: GroupWorld, deletion: str
) -> None:
    """Its record is in the log all the same, and counted from the next load on."""
    world.commit(7, 1)
    world.committing = False
    slot = world.commit(1)
    world.advance(COMMIT_TIMEOUT_MS + 1)
    assert commit_error(slot) is ErrorCode.REQUEST_TIMED_OUT
    world.committing = True
    world.settle()
    if deletion == "of the group":
        assert world.ask(DeleteGroupsRequest(["g"]), 2, DeleteGroupsResponse).results[0].error_code == OK
    elif deletion == "of the offset":
        topics = [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0)])]
        response = world.ask(OffsetDeleteRequest("g", topics), 0, OffsetDeleteResponse)
        assert response.topics[0].partitions[0].error_code == OK
    else:
        delete_topic(world)
        make_topic_anew(world)
    world.resign()
    world.lead()
    assert world.committed() == (-1, OK)


def test_a_commit_that_was_not_replicated_in_time_and_repeated_is_one_commit(world: GroupWorld) -> None:
    world.committing = False
    world.commit(1)
    world.advance(COMMIT_TIMEOUT_MS + 1)
    world.committing = True
    assert commit_error(world.commit(1)) is OK
    records = len(world.records)
    assert world.ask(DeleteGroupsRequest(["g"]), 2, DeleteGroupsResponse).results[0].error_code == OK
    assert len(world.records) == records + 1
    world.commit(2)
    assert world.committed() == (2, OK)


@pytest.mark.parametrize("committed_before", [True, False])
def test_a_deleted_group_is_not_brought_back_by_an_open_transaction(world: GroupWorld, committed_before: bool) -> None:
    if committed_before:
        world.commit(1)
    lead_with_open_transaction(world, 5)
    assert world.ask(DeleteGroupsRequest(["g"]), 2, DeleteGroupsResponse).results[0].error_code == OK
    end_transaction(world)
    assert world.committed(stable=True) == (-1, OK)
    world.resign()
    world.lead()
    assert world.committed(stable=True) == (-1, OK)


def test_offsets_of_a_deleted_topic_are_not_brought_back_by_an_open_transaction(world: GroupWorld) -> None:
    world.commit(3, 1)
    lead_with_open_transaction(world, 5)
    world.cache.update(update({TOPIC: [partition(-2, [1], index=i, epoch=9) for i in range(3)]}))
    world.settle()
    world.cache.update(update({TOPIC: [partition(1, [1])]}, topic_id="AAAAAAAAAAAAAAAAAAAAAg"))
    end_transaction(world)
    assert world.committed() == (-1, OK)
    world.resign()
    world.lead()
    assert world.committed() == (-1, OK)


def test_a_transaction_that_ends_while_the_broker_is_fenced_has_ended(world: GroupWorld) -> None:
    lead_with_open_transaction(world, 5)
    world.replicas.set_session_deadline_passed(True)
    end_transaction(world)
    assert world.committed() == (-1, NOT_HERE)
    world.replicas.set_session_deadline_passed(False)
    assert world.committed(stable=True) == (5, OK)
