"""A follower whose log does not meet its leader's begins anew where the leader's log does."""

from __future__ import annotations

from broker.model.ids import TopicPartition
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC


def test_follower_behind_the_leaders_start_begins_anew_there() -> None:
    cluster = MemoryCluster(min_isr=1)
    cluster.settle()
    cluster.kill(3)
    cluster.expire(3)
    for value in "abc":
        cluster.produce(1, value)
    cluster.settle()
    log = cluster.nodes[1].log
    log.batches = log.batches[2:]
    log.start = 2
    cluster.start(3)
    cluster.advance(5000)
    assert cluster.nodes[3].log.start == 2
    assert cluster.nodes[3].log.values() == ["c"]
    assert set(cluster.state.isr) == {1, 2, 3}


def test_empty_follower_ahead_of_an_unclean_leader_begins_anew_where_that_leaders_log_does() -> None:
    cluster = MemoryCluster(min_isr=1)
    cluster.settle()
    for value in "abc":
        cluster.produce(1, value)
    cluster.settle()
    for i in (1, 3):
        cluster.kill(i)
        cluster.expire(i)
    # As after it began anew at the start of a leader that had removed everything before 1000.
    cluster.nodes[3].log.truncate_fully_and_start_at(1000)
    cluster.nodes[3].store.checkpointed[TopicPartition(TOPIC, 0)] = 1000
    cluster.write(leader=2, leader_epoch=cluster.state.leader_epoch + 1, isr=(2,), lossy=True)
    cluster.start(3)
    cluster.advance(5000)
    assert (cluster.nodes[3].log.start, cluster.nodes[3].log.values()) == (0, ["a", "b", "c"])
    assert set(cluster.state.isr) == {2, 3}
    (cut,) = cluster.nodes[3].event_log.of("truncate")
    assert (cut["to"], cut["hw"], cut["in_isr"]) == (0, 1000, False)
