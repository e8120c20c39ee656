"""Offsets of groups: what is acknowledged is committed, and is there again wherever the partition is led next."""

from __future__ import annotations

import pytest

from broker.core.coordination import OFFSETS_TOPIC
from broker.wire.errors import ErrorCode
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from broker.wire.records import NewRecord, encode_batch
from tests.support.group_world import COMMIT_TIMEOUT_MS, RETENTION_MS, TOPIC, GroupWorld, commit_error

pytestmark = pytest.mark.guarantee("K2")

OK = ErrorCode.NONE
NOT_HERE = ErrorCode.NOT_COORDINATOR


def test_nobody_coordinates_what_it_does_not_lead() -> None:
    world = GroupWorld()
    assert commit_error(world.commit(5)) is NOT_HERE
    assert world.committed() == (-1, NOT_HERE)


def test_a_state_that_is_not_loaded_yet_serves_nothing() -> None:
    world = GroupWorld()
    world.lead(load=False)
    assert world.coordinator.find("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.settle()
    assert world.coordinator.find("g") is None


def test_a_commit_is_acknowledged_once_it_is_committed_and_not_before(world: GroupWorld) -> None:
    world.committing = False
    slot = world.commit(5)
    assert slot.response is None
    assert world.log.log_end_offset == 1
    assert world.committed() == (-1, OK)
    world.committing = True
    world.settle()
    assert commit_error(slot) is OK
    assert world.committed() == (5, OK)


def test_who_asks_for_stable_offsets_waits_for_a_commit_that_is_being_replicated(world: GroupWorld) -> None:
    """Else a partition's next consumer would begin before what the last one has just committed."""
    assert commit_error(world.commit(4)) is OK
    world.committing = False
    slot = world.commit(5)
    assert world.committed(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert world.committed(1, stable=True) == (-1, OK)
    assert world.committed() == (4, OK)
    world.advance(COMMIT_TIMEOUT_MS + 1)
    assert commit_error(slot) is ErrorCode.REQUEST_TIMED_OUT
    assert world.committed(stable=True) == (4, OK)
    world.commit(6)
    world.committing = True
    world.settle()
    assert world.committed(stable=True) == (6, OK)


def test_a_commit_that_is_not_replicated_in_time_is_not_acknowledged(world: GroupWorld) -> None:
    assert commit_error(world.commit(4)) is OK
    world.committing = False
    slot = world.commit(5)
    world.advance(COMMIT_TIMEOUT_MS + 1)
    assert commit_error(slot) is ErrorCode.REQUEST_TIMED_OUT
    assert world.committed() == (4, OK)


def test_a_resignation_ends_the_wait_and_the_next_leader_knows_what_was_acknowledged(world: GroupWorld) -> None:
    assert commit_error(world.commit(1, metadata="first")) is OK
    assert commit_error(world.commit(2)) is OK
    assert commit_error(world.commit(7, 1)) is OK
    world.committing = False
    slot = world.commit(9)
    world.resign()
    assert commit_error(slot) is NOT_HERE
    assert world.committed() == (-1, NOT_HERE)
    world.log.truncate_to(3)
    world.committing = True
    world.lead()
    assert world.committed() == (2, OK)
    assert world.committed(1) == (7, OK)
    assert world.committed(2) == (-1, OK)


def test_commits_of_one_turn_are_one_batch(world: GroupWorld) -> None:
    world.committing = False
    before = world.log.writes
    slots = [world.commit(offset, 0, group=f"g{offset}") for offset in range(3)]
    assert world.log.writes > before
    world.committing = True
    world.settle()
    assert [commit_error(slot) for slot in slots] == [OK] * 3


def test_what_cannot_be_committed_does_not_keep_the_rest_from_it(world: GroupWorld) -> None:
    body = OffsetCommitRequest("g", topics=[])
    for name, index, metadata in ((TOPIC, 0, ""), (TOPIC, 1, "x" * 101), (TOPIC, 99, ""), ("unknown", 0, "")):
        slot = world.commit(3, index, metadata=metadata) if name == TOPIC else None
        if slot is not None:
            expected = {0: OK, 1: ErrorCode.OFFSET_METADATA_TOO_LARGE, 99: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}[index]
            assert commit_error(slot) is expected
    assert world.ask(body, 8, OffsetCommitResponse).topics == []
    assert world.committed() == (3, OK)
    assert world.committed(1) == (-1, OK)


def test_metadata_is_measured_as_java_does(world: GroupWorld) -> None:
    assert commit_error(world.commit(1, metadata="\U0001f600" * 50)) is OK
    assert commit_error(world.commit(1, metadata="\U0001f600" * 51)) is ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_a_generation_without_its_group_is_refused(world: GroupWorld) -> None:
    slot = world.commit(3, generation_id_or_member_epoch=4, member_id="m")
    assert commit_error(slot) is ErrorCode.ILLEGAL_GENERATION
    assert list(world.coordinator.all_groups()) == []


def test_offset_fetch_of_all_and_of_many_groups(world: GroupWorld) -> None:
    world.commit(1, 0)
    world.commit(2, 2)
    world.commit(3, 1, group="h")
    body = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup("g", topics=None),
            OffsetFetchRequestGroup("h", topics=[OffsetFetchRequestTopics(TOPIC, [0, 1])]),
            OffsetFetchRequestGroup("nobody", topics=None),
        ]
    )
    groups = world.ask(body, 8, OffsetFetchResponse).groups
    found = [
        (group.group_id, [(one.partition_index, one.committed_offset) for t in group.topics for one in t.partitions])
        for group in groups
    ]
    assert found == [("g", [(0, 1), (2, 2)]), ("h", [(0, -1), (1, 3)]), ("nobody", [])]


def test_a_retention_time_without_end_is_kept_as_the_longest_there_is(world: GroupWorld) -> None:
    assert commit_error(world.commit(1, version=4, retention_time_ms=2**63 - 1), 4) is OK
    world.advance(2 * RETENTION_MS)
    assert world.committed() == (1, OK)
    world.resign()
    world.lead()
    assert world.committed() == (1, OK)


def test_records_that_are_no_offsets_are_passed_over(world: GroupWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.commit(1)
    junk = [NewRecord(b"\x00\x63x", b"?"), NewRecord(b"", b""), NewRecord(b"\x00\x01", b"?"), NewRecord(None, b"?")]
    world.log.append_as_leader(memoryview(bytearray(encode_batch(junk, timestamps=1))), 1)
    world.log.write()
    world.commit(2, 1)
    world.resign()
    world.lead()
    assert world.committed() == (1, OK)
    assert world.committed(1) == (2, OK)
    assert f"{OFFSETS_TOPIC}-0: record at offset 1 is passed over" in caplog.text


def test_a_commit_that_a_change_of_leader_and_back_overtakes_is_not_acknowledged_unless_it_is_there(
    world: GroupWorld,
) -> None:
    """All in one turn: the record lands behind what the next leadership loads."""
    world.committing = False
    slot = world.send_unsettled(_one_commit(5), 8)
    world.resign_unsettled()
    world.lead()
    world.committing = True
    world.settle()
    assert world.log.log_end_offset == 1
    assert commit_error(slot) is NOT_HERE
    assert commit_error(world.send(_one_commit(5), 8)) is OK
    assert world.committed() == (5, OK)


def _one_commit(offset: int) -> OffsetCommitRequest:
    entry = OffsetCommitRequestPartition(0, offset, -1, "")
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(TOPIC, [entry])])
