"""What readers of committed transactions are shown: records up to the last stable offset."""

from __future__ import annotations

import pytest

from broker.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
from broker.wire.messages.fetch import FetchPartitionResult
from broker.wire.record_batch import iter_batches
from tests.support.chunks import chunk_view
from tests.support.client_fetch import answer_of, fetch_request, position
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC, FakeSlot
from tests.support.transactions import end_marker, transactional


def write(cluster: MemoryCluster, *batches: memoryview) -> None:
    """As a coordinator and its producers would: the leader's log takes them."""
    node = cluster.nodes[1]
    replicas = node.up.replicas
    replica = replicas.by_partition[TOPIC, 0]
    for data in batches:
        replica.log.append_as_leader(data, replica.partition.leader_epoch)
    replica.dirty = True
    replicas.dirty.append(replica)
    node.up.end_of_turn()


def ask(cluster: MemoryCluster, offset: int, isolation: int, **fields: int) -> FakeSlot:
    return fetch_request(cluster, isolation_level=isolation, partitions=[position(offset)], **fields)


def offsets(result: FetchPartitionResult) -> list[int]:
    data = b"".join(bytes(chunk_view(chunk)) for chunk in result.records)
    return [header.base_offset for _, header in iter_batches(memoryview(data), verify_crc=True)]


def test_open_transaction_is_shown_to_readers_of_uncommitted_records_only(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    write(cluster, transactional("b", 7))
    cluster.produce(1, "c")
    cluster.settle()
    uncommitted = answer_of(ask(cluster, 0, READ_UNCOMMITTED)).results[0]
    assert (offsets(uncommitted), uncommitted.high_watermark, uncommitted.last_stable_offset) == ([0, 1, 2], 3, 1)
    committed = answer_of(ask(cluster, 0, READ_COMMITTED)).results[0]
    assert (offsets(committed), committed.high_watermark, committed.last_stable_offset) == ([0], 3, 1)


def test_reader_of_committed_records_is_woken_when_the_marker_is_replicated(cluster: MemoryCluster) -> None:
    write(cluster, transactional("a", 7))
    cluster.settle()
    slot = ask(cluster, 0, READ_COMMITTED, max_wait_ms=10_000, min_bytes=1)
    cluster.settle()
    assert slot.response is None
    cluster.hold = lambda message: True
    write(cluster, end_marker(7))
    assert slot.response is None, "in the leader's log alone"
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    result = answer_of(slot).results[0]
    assert (offsets(result), result.last_stable_offset) == ([0, 1], 2)


def test_reader_of_committed_records_waits_for_min_bytes_at_the_last_stable_offset(cluster: MemoryCluster) -> None:
    """Records follow, but not for this reader: the watermark is no reason to answer with less."""
    cluster.produce(1, "a")
    write(cluster, transactional("b", 7))
    cluster.settle()
    slot = ask(cluster, 0, READ_COMMITTED, max_wait_ms=700, min_bytes=10_000)
    cluster.advance(690)
    assert slot.response is None
    cluster.advance(20)
    assert offsets(answer_of(slot).results[0]) == [0]


@pytest.mark.parametrize(("isolation", "expected"), [(READ_UNCOMMITTED, 2), (READ_COMMITTED, 1)])
def test_latest_offset_for_readers_of_committed_records_is_the_last_stable_one(
    cluster: MemoryCluster, isolation: int, expected: int
) -> None:
    cluster.produce(1, "a")
    write(cluster, transactional("b", 7, timestamps=5000))
    cluster.settle()
    assert cluster.list_offsets(1, isolation=isolation).offset == expected
    found = cluster.list_offsets(1, 5000, isolation=isolation)
    assert found.offset == (1 if isolation == READ_UNCOMMITTED else -1)
    assert cluster.list_offsets(1, replica_id=2, isolation=isolation).offset == 2, "followers copy all"


def aborted(result: FetchPartitionResult) -> list[tuple[int, int]] | None:
    return None if result.aborted is None else [(entry.producer_id, entry.first_offset) for entry in result.aborted]


def test_reader_of_committed_records_is_told_what_was_aborted_in_what_it_gets(cluster: MemoryCluster) -> None:
    for producer in (7, 8, 9):
        write(cluster, transactional("a", producer), end_marker(producer, committed=producer == 8))
    write(cluster, transactional("b", 7, 1), transactional("b", 8, 1), end_marker(7, committed=False))
    cluster.settle()
    first, second, third = (7, 0), (9, 4), (7, 6)
    expected = {
        0: [first, second, third],
        1: [first, second, third],
        2: [second, third],
        5: [second, third],
        6: [third],
    }
    for offset, entries in expected.items():
        assert aborted(answer_of(ask(cluster, offset, READ_COMMITTED)).results[0]) == entries
    small = answer_of(fetch_request(cluster, isolation_level=READ_COMMITTED, partitions=[position(0, max_bytes=1)]))
    assert offsets(small.results[0]) == [0]
    assert aborted(small.results[0]) == [(7, 0)], "of the rest it is told with the rest"
    assert aborted(answer_of(ask(cluster, 0, READ_UNCOMMITTED)).results[0]) is None


def test_new_leader_knows_the_transactions_that_it_replicated(cluster: MemoryCluster) -> None:
    write(cluster, transactional("a", 7), transactional("b", 8), end_marker(8))
    cluster.settle()
    for broker in (2, 3):
        cluster.elect(broker)
        cluster.advance(2000)
        assert cluster.list_offsets(broker, isolation=READ_COMMITTED).offset == 0
        assert cluster.list_offsets(broker).offset == 3


def test_follower_forgets_transactions_whose_end_is_replicated(cluster: MemoryCluster) -> None:
    write(cluster, transactional("a", 7), end_marker(7))
    cluster.settle()
    cluster.advance(10_000)
    for node in cluster.nodes.values():
        assert not node.log.producers.transactions
