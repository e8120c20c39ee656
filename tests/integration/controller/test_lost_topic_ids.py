"""Topics whose znode lost its id: tools of before Kafka 2.8 that add partitions write what they know (KAFKA-14190).

A new id made every replica take its log for a deleted topic's, on all brokers at once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from broker.zk import paths, topic_codecs
from tests.support.wait import eventually

from .conftest import topic_id

pytestmark = pytest.mark.guarantee("C3")

if TYPE_CHECKING:
    from .conftest import Cluster


def _write_without_id(cluster: Cluster, name: str, partitions: dict[str, list[int]]) -> None:
    node = cluster.client.get(paths.topic(name))
    assert node is not None
    text = json.dumps({"version": 1, "partitions": partitions}).encode()
    cluster.client.set(paths.topic(name), text, node.version)


def _id_of(cluster: Cluster, name: str) -> str:
    node = cluster.client.get(paths.topic(name))
    assert node is not None
    return topic_codecs.decode_topic(name, node.data).topic_id


def _told(cluster: Cluster, broker: int, name: str) -> list[tuple[str, int, bool]]:
    """(topic id, partition, is it new) of each state of the topic that the broker was told."""
    return [
        (topic.topic_id, part.partition_index, part.is_new)
        for message in list(cluster.received[broker])
        if isinstance(message, LeaderAndIsrRequest)
        for topic in message.topic_states
        if topic.topic_name == name
        for part in topic.partition_states
    ]


def test_tool_that_adds_partitions_and_leaves_out_the_id_loses_neither(cluster: Cluster) -> None:
    cluster.add(1)
    cluster.create_topic("t", {0: (1,)})
    cluster.await_leader("t", 1)
    _write_without_id(cluster, "t", {"0": [1], "1": [1]})
    cluster.await_leader("t", 1, partition=1)
    assert _id_of(cluster, "t") == topic_id("t")
    eventually(lambda: (topic_id("t"), 1, True) in _told(cluster, 1, "t"))
    assert {told for told, _, _ in _told(cluster, 1, "t")} == {topic_id("t")}


@pytest.mark.parametrize("known", [True, False], ids=["known-to-its-broker", "known-to-nobody"])
def test_next_controller_takes_no_replica_of_a_topic_without_id_for_new(cluster: Cluster, known: bool) -> None:
    first, second = cluster.add(1), cluster.node(2)
    second.registration.register()
    cluster.create_topic("t", {0: (2,)})
    assert cluster.await_leader("t", 2).partition_epoch == 0
    eventually(lambda: _told(cluster, 2, "t") == [(topic_id("t"), 0, True)])
    first.stop()
    cluster.remove(first)
    _write_without_id(cluster, "t", {"0": [2]})
    cluster.received.clear()
    if known:
        second.known_topic_ids["t"] = topic_id("t")
    second.controller.start()
    second.controller.registered()
    told = eventually(lambda: _told(cluster, 2, "t"))
    assert [(partition, is_new) for _, partition, is_new in told] == [(0, False)]
    assert told[0][0] == _id_of(cluster, "t")
    assert len(told[0][0]) == 22
    assert (told[0][0] == topic_id("t")) is known


def test_topic_that_made_no_sense_and_came_back_without_its_id_is_not_new_either(cluster: Cluster) -> None:
    first, second = cluster.add(1), cluster.node(2)
    second.registration.register()
    cluster.create_topic("t", {0: (2,)})
    cluster.await_leader("t", 2)
    first.stop()
    cluster.remove(first)
    node = cluster.client.get(paths.topic("t"))
    assert node is not None
    cluster.client.set(paths.topic("t"), b"{", node.version)
    cluster.received.clear()
    second.controller.start()
    second.controller.registered()
    cluster.active()
    _write_without_id(cluster, "t", {"0": [2]})
    told = eventually(lambda: _told(cluster, 2, "t"))
    assert [(partition, is_new) for _, partition, is_new in told] == [(0, False)]
    assert told[0][0] == _id_of(cluster, "t")


def test_id_of_a_topic_that_was_there_before_is_not_that_of_a_new_one_of_its_name(cluster: Cluster) -> None:
    node = cluster.node(1)
    node.known_topic_ids["old"] = topic_id("old")
    cluster.client.create(paths.topic("old"), b'{"version":1,"partitions":{"0":[1]}}')
    node.start()
    cluster.await_leader("old", 1)
    assert _id_of(cluster, "old") != topic_id("old")
    eventually(lambda: _told(cluster, 1, "old") == [(_id_of(cluster, "old"), 0, True)])
