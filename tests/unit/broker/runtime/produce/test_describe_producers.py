"""DescribeProducers: what a replica knows of who writes to it."""

from __future__ import annotations

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC
from tests.support.transactions import end_marker, transactional


def describe(cluster: MemoryCluster, topic: str = TOPIC, *indexes: int, of: int = 1) -> list[PartitionResponse]:
    body = DescribeProducersRequest([TopicRequest(topic, list(indexes or (0,)))]).encode(0)
    slot = cluster.request(of, ApiKey.DESCRIBE_PRODUCERS, 0, body)
    assert slot.response is not None
    (found,) = DescribeProducersResponse.decode(0, slot.response[5:], exact=True).topics
    assert found.name == topic
    return found.partitions


def write(cluster: MemoryCluster, *batches: memoryview) -> None:
    """As a coordinator and its producers would: the leader's log takes them."""
    node = cluster.nodes[1]
    replica = node.up.replicas.by_partition[TOPIC, 0]
    for data in batches:
        replica.log.append_as_leader(data, replica.partition.leader_epoch)
    replica.dirty = True
    node.up.replicas.dirty.append(replica)
    node.up.end_of_turn()


def states(cluster: MemoryCluster, of: int = 1) -> dict[int, ProducerState]:
    (partition,) = describe(cluster, of=of)
    assert (partition.partition_index, partition.error_code, partition.error_message) == (0, 0, None)
    return {state.producer_id: state for state in partition.active_producers}


def test_producers_are_told_with_epoch_sequence_and_open_transaction() -> None:
    cluster = MemoryCluster()
    cluster.settle()
    assert states(cluster) == {}
    cluster.produce(1, "a", producer_id=7, producer_epoch=2, base_sequence=0)
    write(cluster, transactional("b", 8), transactional("c", 8, 1), transactional("d", 9, epoch=3))
    write(cluster, end_marker(9, epoch=3, coordinator_epoch=5))
    cluster.settle()
    found = states(cluster)
    assert [(id_, one.producer_epoch, one.last_sequence) for id_, one in sorted(found.items())] == [
        (7, 2, 0),
        (8, 0, 1),
        (9, 3, 0),
    ]
    assert {id_: one.current_txn_start_offset for id_, one in found.items()} == {7: -1, 8: 1, 9: -1}
    assert {id_: one.coordinator_epoch for id_, one in found.items()} == {7: -1, 8: -1, 9: 5}
    assert states(cluster, of=2).keys() == found.keys(), "any replica answers"


def test_time_is_that_of_the_wall_and_when_the_producer_was_seen() -> None:
    cluster = MemoryCluster()
    cluster.settle()
    cluster.produce(1, "a", producer_id=7, producer_epoch=0, base_sequence=0)
    cluster.settle()
    seen = states(cluster)[7].last_timestamp
    assert seen == cluster.wall_ms
    cluster.advance(5000)
    cluster.wall_ms += 5000
    cluster.produce(1, "b", producer_id=8, producer_epoch=0, base_sequence=0)
    later = states(cluster)
    assert later[7].last_timestamp == seen
    assert later[8].last_timestamp == seen + 5000


def test_what_is_not_here_has_an_error_in_its_place() -> None:
    cluster = MemoryCluster()
    cluster.settle()
    (illegal,) = describe(cluster, "a/b", 3)
    assert (illegal.partition_index, illegal.error_code) == (3, ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert illegal.error_message is not None
    assert "Topic name is invalid" in illegal.error_message
    hosted, absent = describe(cluster, TOPIC, 0, 99)
    assert (hosted.error_code, absent.error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
