"""Fetch as a client sees it: long polls, limits, what the watermark hides, and the leader that changes meanwhile."""

from __future__ import annotations

import gc
import weakref

import pytest

from broker.wire.api import ApiKey, response_header_version
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch
from tests.support.client_fetch import answer_of, fetch_request, position
from tests.support.memory_cluster import MemoryCluster, fetched, produced, values_of
from tests.support.memory_node import TOPIC
from tests.support.settled_cluster import settled


@pytest.mark.guarantee("R4", "long-polls")
def test_fetch_waits_for_the_watermark_and_is_woken_by_it(cluster: MemoryCluster) -> None:
    slot = cluster.fetch(1, 0, max_wait_ms=10000)
    cluster.settle()
    assert slot.response is None
    cluster.produce(1, "a")
    cluster.settle()
    assert values_of(fetched(slot)) == ["a"]


@pytest.mark.guarantee("long-polls")
def test_fetch_that_finds_nothing_gets_an_empty_response_when_time_is_over(cluster: MemoryCluster) -> None:
    slot = cluster.fetch(1, 0, max_wait_ms=700)
    cluster.advance(690)
    assert slot.response is None
    cluster.advance(20)
    assert values_of(fetched(slot)) == []


@pytest.mark.guarantee("long-polls")
def test_long_poll_of_a_consumer_ends_where_a_later_response_waits_for_it(cluster: MemoryCluster) -> None:
    slot = cluster.fetch(1, 0, max_wait_ms=10_000)
    cluster.settle()
    assert slot.response is None
    assert slot.overtaken is not None
    overtake = slot.overtaken
    overtake()
    assert values_of(fetched(slot)) == []
    overtake()  # it may be too late


@pytest.mark.guarantee("slow-consumer")
def test_long_poll_of_a_client_that_is_gone_is_forgotten_long_before_its_time(cluster: MemoryCluster) -> None:
    slot = cluster.fetch(1, 0, max_wait_ms=2**31 - 1)
    staying = cluster.fetch(1, 0, max_wait_ms=60_000)
    cluster.settle()
    slot.open = False
    gone = weakref.ref(slot)
    del slot
    cluster.advance(15_000)
    gc.collect()
    assert gone() is None
    cluster.produce(1, "a")
    cluster.settle()
    assert values_of(fetched(staying)) == ["a"]


@pytest.mark.guarantee("slow-consumer")
def test_producer_that_is_gone_leaves_no_time_out_behind_and_its_records_commit(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: True
    slot = cluster.produce(1, "a", timeout_ms=2**31 - 1)
    slot.open = False
    cluster.advance(15_000)
    assert len(cluster.nodes[1].up.appender._deadlines) == 0
    cluster.hold = lambda message: False
    cluster.release()
    cluster.advance(1_000)
    assert slot.response is None
    assert values_of(fetched(cluster.fetch(1, 0))) == ["a"]


@pytest.mark.guarantee("long-polls")
def test_fetch_waits_for_min_bytes(cluster: MemoryCluster) -> None:
    slot = fetch_request(cluster, min_bytes=120, max_wait_ms=5000, partitions=[position(0)])
    cluster.produce(1, "a")
    cluster.settle()
    assert slot.response is None
    cluster.produce(1, "b")
    cluster.settle()
    assert values_of(answer_of(slot).results[0]) == ["a", "b"]


@pytest.mark.guarantee("R4")
def test_fetch_above_the_watermark_waits_and_above_the_end_is_out_of_range(cluster: MemoryCluster) -> None:
    cluster.hold = lambda message: True
    cluster.produce(1, "a", acks=1)
    between = fetched(cluster.fetch(1, 1))
    assert between is not None
    assert (between.error, between.high_watermark) == (0, 0)
    above = fetched(cluster.fetch(1, 2))
    assert above is not None
    assert above.error == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.guarantee("R4")
def test_reader_of_committed_records_gets_the_watermark_as_the_last_stable_offset(cluster: MemoryCluster) -> None:
    # No transactions are served, so nothing but the watermark is in the way.
    cluster.produce(1, "a")
    cluster.settle()
    cluster.hold = lambda message: True
    cluster.produce(1, "b", acks=1)
    read_committed = 1
    slot = fetch_request(cluster, isolation_level=read_committed, partitions=[position(0)])
    result = answer_of(slot).results[0]
    assert values_of(result) == ["a"]
    assert (result.high_watermark, result.last_stable_offset, list(result.aborted or ())) == (1, 1, [])


@pytest.mark.guarantee("R2")
def test_consumer_is_served_by_the_leader_alone(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    for follower in (2, 3):
        refused = fetched(cluster.fetch(follower, 0))
        assert refused is not None
        assert (refused.error, values_of(refused)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
        assert refused.current_leader_id == 1
        assert cluster.list_offsets(follower).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fetch_returns_one_batch_even_above_the_limit(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a" * 500)
    cluster.produce(1, "b")
    cluster.settle()
    assert values_of(fetched(cluster.fetch(1, 0, max_bytes=1))) == ["a" * 500]


@pytest.mark.guarantee("diverging-epochs")
def test_consumer_that_sends_its_last_epoch_learns_where_it_diverges(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a", "b")
    cluster.elect(1)
    cluster.settle()
    cluster.produce(1, "c")
    cluster.settle()
    # Epoch 0 ended at 2: who has more of it has what is no longer there.
    part = answer_of(
        fetch_request(cluster, max_wait_ms=1000, min_bytes=1, partitions=[position(3, last_fetched_epoch=0)])
    ).results[0]
    assert (part.error, part.diverging_epoch, part.diverging_end_offset) == (0, 0, 2)
    same = answer_of(fetch_request(cluster, partitions=[position(2, last_fetched_epoch=0)])).results[0]
    assert (same.diverging_epoch, values_of(same)) == (-1, ["c"])


@pytest.mark.parametrize("waits", [False, True])
def test_fetch_of_bytes_damaged_under_the_leader_takes_the_replica_offline_and_nothing_else(
    cluster: MemoryCluster, waits: bool
) -> None:
    node = cluster.nodes[1]
    if waits:
        slot = cluster.fetch(1, 0, max_wait_ms=1000)
        cluster.hold = lambda message: True
    cluster.produce(1, "a", acks=1)
    base, last, epoch, data = node.log.batches[0]
    node.log.batches[0] = (base, last, epoch, data[:16] + b"\x63" + data[17:])
    if waits:
        # The watermark rises at the followers' next fetch, and wakes the consumer in the end of the turn.
        cluster.hold = lambda message: False
        cluster.release()
    cluster.settle()
    if not waits:
        slot = cluster.fetch(1, 0, max_wait_ms=1000, min_bytes=100_000)
    answer = fetched(slot)
    assert answer is not None
    assert (answer.error, list(answer.records)) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    replica = node.up.replicas.by_partition[(TOPIC, 0)]
    assert (replica.offline, replica.damaged) == (True, True)


def test_unknown_partition_gets_its_response_at_once(cluster: MemoryCluster) -> None:
    slot = fetch_request(cluster, max_wait_ms=9000, partitions=[fetch.FetchPartition(topic="other", partition=0)])
    assert answer_of(slot).results[0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.guarantee("R10")
def test_waiting_fetch_learns_of_a_lost_leadership(cluster: MemoryCluster) -> None:
    slot = cluster.fetch(1, 0, max_wait_ms=60000)
    cluster.elect(2)
    cluster.settle()
    result = fetched(slot)
    assert result is not None
    assert (result.error, result.current_leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


@pytest.mark.parametrize(("version", "error"), [(4, 6), (5, 6), (6, 56), (12, 56)])
def test_fetch_versions_that_know_no_storage_error_get_not_leader(version: int, error: int) -> None:
    cluster = settled()
    cluster.nodes[1].log.fail_writes = True
    assert produced(cluster.produce(1, "a", acks=1)) is not None
    asked = fetch.FetchRequest(partitions=[fetch.FetchPartition(TOPIC, "", 0, -1, 0, -1, -1, 100)])
    slot = cluster.request(1, ApiKey.FETCH, version, fetch.encode_request(version, asked))
    assert slot.response is not None
    body = memoryview(slot.response)[4 + response_header_version(ApiKey.FETCH, version) :]
    assert [result.error for result in fetch.decode_response(version, body).results] == [error]
