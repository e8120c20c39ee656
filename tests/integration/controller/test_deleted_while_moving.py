"""Topics that are deleted while a tool's request moves them, on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from broker.model.ids import BrokerId, TopicPartition
from broker.zk import admin_codecs, paths, topic_codecs
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("C6")

if TYPE_CHECKING:
    from .conftest import Cluster

MOVED, OTHER = TopicPartition("t", 0), TopicPartition("u", 0)


def adding(cluster: Cluster, name: str) -> Mapping[int, tuple[BrokerId, ...]]:
    node = cluster.client.get(paths.topic(name))
    assert node is not None
    return topic_codecs.decode_topic(name, node.data).adding


def asked(cluster: Cluster) -> Mapping[TopicPartition, tuple[BrokerId, ...]] | None:
    node = cluster.client.get(paths.REASSIGNMENT)
    return None if node is None else admin_codecs.decode_reassignment(node.data)


def test_request_is_gone_when_the_deleted_topic_is_and_no_controller_moves_its_namesake(cluster: Cluster) -> None:
    controller = cluster.add(1)
    eventually(lambda: controller.controller.active)
    cluster.add(2)
    cluster.add(3)
    for name in ("t", "u"):
        cluster.create_topic(name, {0: (2,)})
        cluster.await_leader(name, 2)
    # Nobody fetches here: what begins to move goes on moving.
    cluster.client.create(paths.REASSIGNMENT, admin_codecs.encode_reassignment({MOVED: (3,), OTHER: (3,)}))
    eventually(lambda: adding(cluster, "t") == adding(cluster, "u") == {0: (3,)}, "both move")
    cluster.client.create(paths.delete_topic("t"), b"")
    eventually(lambda: cluster.client.get(paths.delete_topic("t")) is None, "the deletion")
    assert asked(cluster) == {OTHER: (3,)}
    cluster.create_topic("t", {0: (2,)})
    cluster.await_leader("t", 2)
    controller.kill()
    cluster.remove(controller)
    # Requests are taken up together: when the next controller is done with one that it refuses, it has seen all.
    more = {OTHER: (3,), TopicPartition("no", 0): (3,)}
    cluster.client.overwrite(paths.REASSIGNMENT, admin_codecs.encode_reassignment(more))
    eventually(lambda: asked(cluster) == {OTHER: (3,)}, "the next controller has looked at requests")
    assert adding(cluster, "t") == {}
