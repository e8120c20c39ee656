"""DeleteRecords: the leader's log begins later at once, the answer comes when every live replica's does."""

from __future__ import annotations

import pytest

from broker.model.log_errors import LogDirFailed
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.list_offsets_timestamps import EARLIEST
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.support.client_fetch import answer_of, fetch_request, position
from tests.support.memory_cluster import MemoryCluster, fetched
from tests.support.memory_node import TOPIC, FakeSlot

pytestmark = pytest.mark.guarantee("L3")


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.settle()
    for number in range(10):
        cluster.produce(1, f"r{number}")
    cluster.settle()
    cluster.advance(1000)
    assert cluster.nodes[2].hw == 10
    return cluster


def delete(
    cluster: MemoryCluster, offset: int, broker: int = 1, timeout_ms: int = 5000, topic: str = TOPIC, version: int = 2
) -> FakeSlot:
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])], timeout_ms)
    return cluster.request(broker, ApiKey.DELETE_RECORDS, version, request.encode(version))


def answer(slot: FakeSlot, version: int = 2) -> DeleteRecordsPartitionResult:
    assert slot.response is not None, "not answered yet"
    body = slot.response[5 if version == 2 else 4 :]
    return DeleteRecordsResponse.decode(version, memoryview(body)).topics[0].partitions[0]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_delete_gets_its_response_once_every_replica_begins_there(cluster: MemoryCluster, version: int) -> None:
    slot = delete(cluster, 4, version=version)
    assert slot.response is None
    assert cluster.nodes[1].log.start == 4
    cluster.settle()
    assert answer(slot, version) == DeleteRecordsPartitionResult(0, 4, 0)
    assert [node.log.start for node in cluster.nodes.values()] == [4, 4, 4]
    assert cluster.list_offsets(1, EARLIEST).offset == 4
    result = fetched(cluster.fetch(1, 3))
    assert result is not None
    assert result.error == ErrorCode.OFFSET_OUT_OF_RANGE


def test_consumer_that_waits_at_the_end_learns_by_its_session_that_the_log_begins_later(cluster: MemoryCluster) -> None:
    first = answer_of(fetch_request(cluster, max_wait_ms=0, session_epoch=0, partitions=[position(10)]))
    assert [result.log_start_offset for result in first.results] == [0]
    session = first.session_id
    waits = fetch_request(cluster, max_wait_ms=500, session_id=session, session_epoch=1)
    delete(cluster, 4)
    cluster.settle()
    assert waits.response is None, "there is nothing to read"
    cluster.advance(500)
    assert [result.log_start_offset for result in answer_of(waits).results] == [4]
    third = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=session, session_epoch=2))
    assert third.results == [], "it was said"


def test_delete_to_minus_one_means_the_high_watermark(cluster: MemoryCluster) -> None:
    slot = delete(cluster, -1)
    cluster.settle()
    assert answer(slot) == DeleteRecordsPartitionResult(0, 10, 0)
    assert [node.log.start for node in cluster.nodes.values()] == [10, 10, 10]
    cluster.produce(1, "after")
    cluster.settle()
    assert cluster.nodes[3].log.values()[-1] == "after"


def test_delete_below_the_log_start_is_done_already(cluster: MemoryCluster) -> None:
    delete(cluster, 6)
    cluster.settle()
    assert answer(delete(cluster, 2)) == DeleteRecordsPartitionResult(0, 6, 0)
    assert cluster.nodes[1].log.start == 6


@pytest.mark.parametrize("offset", [11, -2, 2**62])
def test_delete_beyond_the_high_watermark_is_out_of_range(cluster: MemoryCluster, offset: int) -> None:
    assert answer(delete(cluster, offset)) == DeleteRecordsPartitionResult(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert cluster.nodes[1].log.start == 0


def test_delete_of_what_is_appended_but_not_committed_is_out_of_range() -> None:
    cluster = MemoryCluster(min_isr=1)
    cluster.settle()
    cluster.nodes[2].paused = cluster.nodes[3].paused = True
    cluster.produce(1, "uncommitted", acks=1)
    cluster.settle()
    assert cluster.nodes[1].log.staged_end_offset == 1
    assert answer(delete(cluster, 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_delete_at_a_follower_or_of_an_unknown_topic_is_refused(cluster: MemoryCluster) -> None:
    assert answer(delete(cluster, 4, broker=2)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer(delete(cluster, 4, topic="nope")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer(delete(cluster, 4, topic="__consumer_offsets")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("policy", "error"),
    [("compact", ErrorCode.POLICY_VIOLATION), ("compact,delete", 0), ("delete", 0)],
)
def test_delete_from_a_topic_that_is_only_compacted_is_a_policy_violation(
    cluster: MemoryCluster, policy: str, error: int
) -> None:
    cluster.topic_config["cleanup.policy"] = policy
    cluster.nodes[1].up.hosting.on_topic_config(TOPIC)
    slot = delete(cluster, 4)
    cluster.settle()
    assert answer(slot).error_code == error


def test_delete_times_out_while_a_live_replica_lags_and_stays_done_on_the_others(
    cluster: MemoryCluster,
) -> None:
    cluster.nodes[3].paused = True
    slot = delete(cluster, 4, timeout_ms=2000)
    cluster.advance(1990)
    assert slot.response is None
    cluster.advance(20)
    assert answer(slot) == DeleteRecordsPartitionResult(0, -1, ErrorCode.REQUEST_TIMED_OUT)
    assert cluster.nodes[2].log.start == 4
    cluster.resume(3)
    cluster.advance(1000)
    assert cluster.nodes[3].log.start == 4
    again = delete(cluster, 4)
    cluster.settle()
    assert answer(again) == DeleteRecordsPartitionResult(0, 4, 0)


def test_delete_waits_for_no_replica_whose_broker_is_gone(cluster: MemoryCluster) -> None:
    cluster.nodes[3].paused = True
    slot = delete(cluster, 4)
    cluster.settle()
    assert slot.response is None
    cluster.nodes[1].up.on_live_brokers({1, 2})
    cluster.settle()
    assert answer(slot) == DeleteRecordsPartitionResult(0, 4, 0)


def test_delete_that_waits_fails_when_the_leader_is_another(cluster: MemoryCluster) -> None:
    cluster.nodes[3].paused = True
    slot = delete(cluster, 4)
    cluster.settle()
    cluster.elect(2)
    cluster.settle()
    assert answer(slot) == DeleteRecordsPartitionResult(0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    # What was deleted stays deleted under the new leader.
    assert cluster.list_offsets(2, EARLIEST).offset == 4


def test_delete_that_does_not_decode_closes_the_connection(cluster: MemoryCluster) -> None:
    slot = cluster.request(1, ApiKey.DELETE_RECORDS, 2, b"\x7f")
    assert slot.closed is not None


def test_follower_never_begins_beyond_what_it_knows_to_be_committed(cluster: MemoryCluster) -> None:
    follower = cluster.nodes[2].up
    replica = follower.replicas.by_partition[(TOPIC, 0)]
    processor = follower.fetchers.fetchers[1]._processor
    processor._learn_log_start(replica, 10_000)
    assert replica.log.log_start_offset == replica.high_watermark == 10


def waits_with_more_to_read(cluster: MemoryCluster) -> FakeSlot:
    """The fetch of follower 3 that waits for more bytes than there are, and is answered by reading from 7 on."""
    slot = fetch_request(
        cluster,
        replica_id=3,
        replica_epoch=cluster.nodes[3].broker_epoch,
        min_bytes=1 << 20,
        max_wait_ms=60_000,
        partitions=[position(7)],
    )
    assert slot.response is None
    return slot


def break_reads(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        raise LogDirFailed("/data", 5, "Input/output error")

    monkeypatch.setattr(cluster.nodes[1].log, "read", read)


def test_delete_during_which_the_log_dir_fails_is_answered_at_once(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.nodes[3].paused = True
    waits_with_more_to_read(cluster)
    break_reads(cluster, monkeypatch)
    slot = delete(cluster, 4)
    assert answer(slot) == DeleteRecordsPartitionResult(0, -1, ErrorCode.KAFKA_STORAGE_ERROR)


def test_delete_of_several_during_which_the_log_dir_fails_is_answered_once_with_all(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.nodes[3].paused = True
    delete(cluster, 4)
    cluster.settle()
    waits_with_more_to_read(cluster)
    break_reads(cluster, monkeypatch)
    # The first waits, nothing more of it being to do; the second finds that the log dir has failed.
    body = DeleteRecordsRequest(
        [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 4), DeleteRecordsPartition(0, 6)])], 5000
    )
    slot = cluster.request(1, ApiKey.DELETE_RECORDS, 2, body.encode(2))
    cluster.advance(6000)
    assert slot.response is not None
    (topic,) = DeleteRecordsResponse.decode(2, memoryview(slot.response)[5:]).topics
    failed = DeleteRecordsPartitionResult(0, -1, ErrorCode.KAFKA_STORAGE_ERROR)
    assert topic.partitions == [failed, failed]
