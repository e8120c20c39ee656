"""Topics as the controller finds them in a real ZooKeeper: new, deleted, written by an older tool, malformed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.model.ids import TopicPartition
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from broker.wire.messages.stop_replica import StopReplicaRequest
from broker.zk import paths, topic_codecs
from tests.support.wait import eventually

if TYPE_CHECKING:
    from .conftest import Cluster

pytestmark = pytest.mark.guarantee("C3")


def test_topic_deletion_waits_for_every_replica(cluster: Cluster) -> None:
    cluster.add(1)
    second = cluster.add(2)
    cluster.create_topic("t", {0: (1, 2)}, {"min.insync.replicas": "2"})
    cluster.await_leader("t", 1)
    second.kill()
    cluster.remove(second)
    eventually(lambda: (state := cluster.state("t")) is not None and state.isr == (1,))
    cluster.client.create(paths.delete_topic("t"), b"")

    def stopped(broker: int) -> bool:
        return any(
            isinstance(m, StopReplicaRequest) and m.topic_states[0].partition_states[0].delete_partition
            for m in list(cluster.received[broker])
        )

    eventually(lambda: stopped(1))
    assert cluster.client.get(paths.topic("t")) is not None
    cluster.add(2)
    eventually(lambda: stopped(2))
    eventually(lambda: cluster.client.get(paths.delete_topic("t")) is None)
    assert cluster.client.get(paths.topic("t")) is None
    assert cluster.client.get(paths.topic_config("t")) is None


def test_nothing_is_kept_of_topics_that_are_gone(cluster: Cluster) -> None:
    store = cluster.add(1).store
    for name in ("first", "second", "third"):
        cluster.create_topic(name, {0: (1,)})
        cluster.await_leader(name, 1)
        cluster.client.create(paths.delete_topic(name), b"")
        eventually(lambda name=name: cluster.client.get(paths.delete_topic(name)) is None)  # type: ignore[misc]
    eventually(lambda: not store._raw)
    assert store._topic_nodes == {}


def test_deletion_of_unknown_topic_is_dropped(cluster: Cluster) -> None:
    cluster.add(1)
    cluster.client.create(paths.delete_topic("nothing"), b"")
    eventually(lambda: cluster.client.get(paths.delete_topic("nothing")) is None)


def test_topic_of_an_older_tool_gets_an_id(cluster: Cluster) -> None:
    cluster.client.create(paths.topic("old"), b'{"version":1,"partitions":{"0":[1]}}')
    cluster.add(1)
    cluster.await_leader("old", 1)
    node = cluster.client.get(paths.topic("old"))
    assert node is not None
    topic_id = topic_codecs.decode_topic("old", node.data).topic_id
    assert len(topic_id) == 22
    eventually(
        lambda: any(
            isinstance(m, LeaderAndIsrRequest) and [t.topic_id for t in m.topic_states] == [topic_id]
            for m in list(cluster.received[1])
        )
    )


def test_malformed_topic_hides_nothing_else_and_never_makes_a_whole_list(cluster: Cluster) -> None:
    cluster.client.create(paths.topic("bad"), b"{")
    cluster.add(1)
    cluster.create_topic("good", {0: (1,)})
    cluster.await_leader("good", 1)
    eventually(lambda: cluster.roles(1))
    assert all(m.type != 2 for m in cluster.received[1] if isinstance(m, LeaderAndIsrRequest))


def test_znodes_that_decode_and_make_no_sense_stop_no_election(cluster: Cluster) -> None:
    nobody = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[]}'
    no_broker = b'{"version":1,"partitions":[{"topic":"good","partition":0,"replicas":[null]}]}'
    cluster.client.create(paths.topic("no-number"), b'{"version":1,"partitions":{"0":[null]}}')
    cluster.create_topic("nobody-in-sync", {0: (1, 2)})
    for znode in (paths.topic_partitions("nobody-in-sync"), paths.topic_partition(TopicPartition("nobody-in-sync", 0))):
        cluster.client.create(znode, b"")
    cluster.client.create(paths.partition_state(TopicPartition("nobody-in-sync", 0)), nobody)
    cluster.client.create(paths.REASSIGNMENT, no_broker)
    cluster.add(1)
    doomed = cluster.add(2)
    cluster.create_topic("good", {0: (2, 1)})
    cluster.await_leader("good", 2)
    eventually(lambda: cluster.client.get(paths.REASSIGNMENT) is None, "what asks for nothing is done with")
    doomed.kill()
    cluster.remove(doomed)
    cluster.await_leader("good", 1)
    node = cluster.client.get(paths.partition_state(TopicPartition("nobody-in-sync", 0)))
    assert node is not None
    assert node.data == nobody
