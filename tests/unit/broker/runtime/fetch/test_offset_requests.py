"""ListOffsets and OffsetForLeaderEpoch: which end is told to whom, and who is out of date."""

from __future__ import annotations

import pytest

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.list_offsets_timestamps import LATEST
from broker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.wire.records import NewRecord, encode_batch
from tests.support.memory_cluster import MemoryCluster, fetched
from tests.support.memory_node import TOPIC


@pytest.mark.guarantee("R10")
@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, 0), (1, 0), (0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_fetch_and_list_offsets_are_fenced_by_leader_epoch(cluster: MemoryCluster, epoch: int, error: int) -> None:
    cluster.elect(1)
    cluster.advance(1000)
    result = fetched(cluster.fetch(1, 0, epoch=epoch))
    assert result is not None
    assert result.error == error
    assert cluster.list_offsets(1, epoch=epoch).error_code == error
    assert end_of_epoch(cluster, 0, epoch).error_code == error


def end_of_epoch(cluster: MemoryCluster, epoch: int, current: int = -1) -> EpochEndOffset:
    body = OffsetForLeaderEpochRequest(
        -2, [OffsetForLeaderTopic(TOPIC, [OffsetForLeaderPartition(0, current, epoch)])]
    ).encode(2)
    slot = cluster.request(1, ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, body)
    assert slot.response is not None
    return OffsetForLeaderEpochResponse.decode(2, slot.response[4:]).topics[0].partitions[0]


@pytest.mark.guarantee("diverging-epochs")
def test_offset_for_leader_epoch_is_where_the_next_epoch_starts(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    cluster.elect(1)
    cluster.settle()
    answer = end_of_epoch(cluster, 0)
    assert (answer.leader_epoch, answer.end_offset) == (0, 1)
    assert end_of_epoch(cluster, 7).end_offset == -1


@pytest.mark.guarantee("R4")
def test_list_offsets_returns_the_watermark_to_consumers_and_the_end_to_followers(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: True
    cluster.produce(1, "a", acks=1)
    assert cluster.list_offsets(1).offset == 0
    assert cluster.list_offsets(1, replica_id=2).offset == 1
    assert cluster.list_offsets(1, timestamp=-2).offset == 0


@pytest.mark.parametrize("version", range(1, 10))
def test_list_offsets_returns_the_epoch_in_versions_that_have_room_for_it(cluster: MemoryCluster, version: int) -> None:
    cluster.produce(1, "a", acks=1)
    for timestamp in (-1, -2):
        newest = cluster.list_offsets(1, timestamp=timestamp, version=7)
        answer = cluster.list_offsets(1, timestamp=timestamp, version=version)
        assert (answer.error_code, answer.offset) == (0, newest.offset)
        assert answer.leader_epoch == (newest.leader_epoch if version >= 4 else -1)


def test_list_offsets_of_the_newest_record_finds_the_first_that_has_the_largest_timestamp(
    cluster: MemoryCluster,
) -> None:
    none = cluster.list_offsets(1, timestamp=-3)
    assert (none.error_code, none.offset, none.timestamp) == (0, -1, -1)
    for stamp in (5, 9, 9, 7):
        batch = encode_batch([NewRecord(None, b"x")], timestamps=stamp)
        cluster.produce_raw(1, memoryview(bytearray(batch)))
    cluster.settle()
    found = cluster.list_offsets(1, timestamp=-3)
    assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (0, 1, 9, 0)
    # KIP-734: known from version 7 on.
    assert cluster.list_offsets(1, timestamp=-3, version=6).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_list_offsets_of_what_is_tiered_is_answered_as_without_remote_storage(cluster: MemoryCluster) -> None:
    """KIP-405, KIP-1005: all is local, so it begins where the log begins, and nothing is tiered."""
    for value in ("a", "b"):
        cluster.produce(1, value)
    cluster.settle()
    cluster.nodes[1].log.maybe_raise_log_start(1)
    local = cluster.list_offsets(1, timestamp=-4, version=8)
    assert (local.error_code, local.offset, local.timestamp, local.leader_epoch) == (0, 1, -1, 0)
    tiered = cluster.list_offsets(1, timestamp=-5, version=9)
    assert (tiered.error_code, tiered.offset, tiered.timestamp, tiered.leader_epoch) == (0, -1, -1, -1)


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, None), (-(2**63), None)])
def test_list_offsets_of_a_timestamp_that_its_version_does_not_know_is_refused(
    cluster: MemoryCluster, timestamp: int, first: int | None
) -> None:
    for version in range(1, 10):
        error = cluster.list_offsets(1, timestamp=timestamp, version=version).error_code
        known = first is not None and version >= first
        assert error == (ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.guarantee("R4")
def test_list_offsets_of_the_newest_record_returns_nothing_above_the_watermark(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: True
    cluster.produce(1, "a", acks=1)
    assert cluster.list_offsets(1, timestamp=-3).offset == -1
    assert cluster.list_offsets(1, timestamp=-3, replica_id=2).offset == 0


@pytest.mark.guarantee("R4")
def test_list_offsets_by_time_stops_at_the_watermark(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    assert cluster.list_offsets(1, timestamp=0).offset == 0
    assert cluster.list_offsets(1, timestamp=2).offset == -1


@pytest.mark.parametrize(("timestamp", "end"), [(LATEST, 1), (2, -1)], ids=["latest", "later-than-every-record"])
@pytest.mark.parametrize(
    ("version", "error"), [(7, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)]
)
def test_new_leader_returns_no_end_before_its_watermark_reaches_its_epoch(
    version: int, error: int, timestamp: int, end: int
) -> None:
    cluster = MemoryCluster()
    cluster.settle()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.hold = lambda message: message.target == 2
    cluster.kill(1)
    cluster.expire(1)
    cluster.settle()
    assert cluster.nodes[2].hw == 0
    assert cluster.list_offsets(2, version=version, timestamp=timestamp).error_code == error
    # A follower is answered from the log's end: nothing there lies above what it may know.
    assert cluster.list_offsets(2, version=version, timestamp=timestamp, replica_id=3).offset == end
    cluster.hold = lambda message: False
    cluster.release()
    cluster.advance(1500)
    assert cluster.list_offsets(2, version=version, timestamp=timestamp).offset == end
