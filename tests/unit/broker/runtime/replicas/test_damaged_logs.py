"""A damaged log is thrown away only under a leader epoch in which nobody has counted it yet."""

from __future__ import annotations

from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog
from broker.wire.errors import ErrorCode
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC

VALUES = [f"v{i}" for i in range(10)]


def error_of(cluster: MemoryCluster, i: int) -> ErrorCode:
    """What the broker answers to the present state."""
    request = cluster.leader_and_isr(cluster.state, cluster.registered[i])
    return ErrorCode(cluster.apply(i, request).topics[0].partition_errors[0].error_code)


def damage(cluster: MemoryCluster, i: int) -> None:
    manager = cluster.nodes[i].up
    topic_partition = TopicPartition(TOPIC, 0)
    replica = manager.replicas.by_partition[topic_partition]
    manager.replicas.take_offline(replica, CorruptLog(topic_partition, "a segment", "flipped"))


def about_to_be_admitted() -> MemoryCluster:
    """Broker 1 has everything, and the proposal that lets it into the ISR is under way."""
    cluster = MemoryCluster(3, min_isr=2, leader=2)
    cluster.settle()
    cluster.kill(1)
    cluster.expire(1)
    cluster.settle()
    slots = [cluster.produce(2, value) for value in VALUES]
    cluster.settle()
    assert all((result := produced(slot)) is not None and result.error == 0 for slot in slots)
    cluster.hold = lambda message: message.kind == "alter"
    cluster.start(1)
    cluster.settle()
    assert cluster.held
    assert cluster.state.isr == (2, 3)
    assert cluster.nodes[1].log.values() == VALUES
    return cluster


def test_damaged_log_of_the_present_leader_epoch_is_kept_until_there_is_another() -> None:
    cluster = about_to_be_admitted()
    damage(cluster, 1)
    assert error_of(cluster, 1) is ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.nodes[1].log.values() == VALUES
    cluster.hold = lambda message: False
    cluster.write(leader_epoch=cluster.state.leader_epoch + 1)
    cluster.release()
    cluster.settle()
    assert cluster.nodes[1].log.values() == VALUES, "fetched anew"
    assert 1 in cluster.state.isr


def test_proposal_for_a_log_that_is_thrown_away_admits_nobody() -> None:
    cluster = about_to_be_admitted()
    damage(cluster, 1)
    if error_of(cluster, 1) is ErrorCode.FENCED_LEADER_EPOCH:
        cluster.write(leader_epoch=cluster.state.leader_epoch + 1)
    # What broker 1 would fetch now is lost with its leader; the proposal, which is older, arrives.
    cluster.hold = lambda message: message.kind != "alter"
    cluster.release(lambda message: message.kind == "alter")
    cluster.settle()
    assert cluster.state.isr == (2, 3)


def test_damaged_log_of_an_isr_member_is_kept() -> None:
    cluster = MemoryCluster(3, min_isr=2, leader=2)
    cluster.settle()
    slots = [cluster.produce(2, value) for value in VALUES]
    cluster.settle()
    assert all(produced(slot) is not None for slot in slots)
    damage(cluster, 1)
    assert error_of(cluster, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.nodes[1].log.values() == VALUES


def test_log_damaged_twice_is_thrown_away_twice_each_time_under_another_epoch() -> None:
    cluster = about_to_be_admitted()
    for _ in range(2):
        damage(cluster, 1)
        assert error_of(cluster, 1) is ErrorCode.FENCED_LEADER_EPOCH
        cluster.write(leader_epoch=cluster.state.leader_epoch + 1)
        assert error_of(cluster, 1) is ErrorCode.NONE
        cluster.settle()
        assert cluster.nodes[1].log.values() == VALUES


def test_damaged_log_that_is_to_lead_is_kept() -> None:
    """Its admission was first, and then its leader died."""
    cluster = about_to_be_admitted()
    damage(cluster, 1)
    cluster.write(isr=(1, 2, 3))
    cluster.write(leader=1, leader_epoch=cluster.state.leader_epoch + 1, isr=(1, 3))
    assert error_of(cluster, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.nodes[1].log.values() == VALUES
