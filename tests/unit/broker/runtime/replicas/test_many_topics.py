"""What one topic's settings, or its end, cost a broker that has many others."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.model.ids import TopicPartition
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replication_quotas import ReplicationQuotas
from broker.server.data_plane import DataPlane
from tests.support.counted import Counted
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_log import MemoryLog

pytestmark = pytest.mark.guarantee("many-topics")

TOPICS, PARTITIONS = 200, 3
ALL = TOPICS * PARTITIONS


class Noting(ReplicationQuotas):
    """Notes each topic whose settings are taken up: once per replica."""

    def __init__(self) -> None:
        super().__init__(1, 1, 1000)
        self.told: list[str] = []

    def set_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        self.told.append(topic)


class World:
    def __init__(self) -> None:
        self.cluster = MemoryCluster(2)
        self.manager: ReplicaManager = self.cluster.nodes[1].up
        for replica in list(self.manager.replicas.by_partition.values()):
            self.manager.hosting.forget(replica)
        self.ids = {f"topic-{n}": f"id-{n}" for n in range(TOPICS)}
        self.made = [self.make(topic, index) for topic in self.ids for index in range(PARTITIONS)]
        registry = self.manager.replicas
        self.replicas = registry.by_partition = Counted(registry.by_partition)
        self.throttle = self.manager.quotas = self.manager.hosting._quotas = Noting()

    def make(self, topic: str, index: int, topic_id: str | None = None) -> Replica:
        log = MemoryLog(TopicPartition(topic, index), topic_id or self.ids[topic])
        return self.manager.hosting.adopt(cast(Any, log), 0, clean=True)


@pytest.fixture
def world() -> World:
    return World()


def test_settings_of_one_topic_are_taken_up_without_a_look_at_the_others(world: World) -> None:
    world.cluster.topic_config = {"min.insync.replicas": "2"}
    world.manager.hosting.on_topic_config("topic-7")
    assert world.replicas.visits <= PARTITIONS
    assert world.throttle.told == ["topic-7"] * PARTITIONS
    told = [replica.topic_partition.topic for replica in world.made if replica.min_insync_replicas == 2]
    assert told == ["topic-7"] * PARTITIONS


def test_defaults_of_all_topics_are_taken_up_in_one_walk(world: World) -> None:
    world.manager.hosting.on_defaults(lambda topic: topic != "topic-7")
    assert world.replicas.visits <= ALL
    known = [topic for topic in world.ids if topic != "topic-7"]
    assert sorted(world.throttle.told) == sorted(known * PARTITIONS)


def test_replicas_are_forgotten_without_a_look_at_the_others(world: World) -> None:
    for count, replica in enumerate(world.made):
        topic, index = replica.topic_partition
        assert world.manager.replicas.topic_of_id(world.ids[topic]) == topic
        world.manager.hosting.forget(replica)
        last = index == PARTITIONS - 1
        assert (world.manager.replicas.topic_of_id(world.ids[topic]) == "") == last
        assert len(world.throttle.told) == (count + 1) // PARTITIONS, "the throttle goes with the last one"
    assert not world.replicas
    assert world.replicas.visits <= ALL


def test_topic_made_anew_keeps_its_id_and_throttle_when_the_last_of_the_old_one_goes(world: World) -> None:
    first, second, third = world.made[:PARTITIONS]
    world.manager.hosting.forget(first)
    anew = world.make("topic-0", 0, "another-id")
    world.throttle.told.clear()
    world.manager.hosting.forget(second)
    world.manager.hosting.forget(third)
    assert world.manager.replicas.topic_of_id("id-0") == ""
    assert world.manager.replicas.topic_of_id("another-id") == "topic-0"
    assert not world.throttle.told
    world.manager.hosting.forget(anew)
    assert world.manager.replicas.topic_of_id("another-id") == ""
    assert world.throttle.told == ["topic-0"]


@pytest.mark.parametrize("changed", [False, True])
def test_change_of_a_throttle_rate_alone_leaves_topics_alone(world: World, changed: bool) -> None:
    rates: list[int | None] = []
    plane = SimpleNamespace(
        moves=SimpleNamespace(set_rate=rates.append),
        settings=SimpleNamespace(topic_defaults={}),
        store=SimpleNamespace(update_defaults=lambda defaults: changed),
        cleaner=None,
    )
    control = SimpleNamespace(
        dynamic=SimpleNamespace(throttle_rates=(5, None), log_dirs_rate=7, effective=None),
        configs=SimpleNamespace(knows=lambda topic: True),
    )
    DataPlane._on_broker_config(cast(Any, plane), cast(Any, control), world.manager)
    assert rates == [7]
    assert len(world.throttle.told) == (ALL if changed else 0)
    assert world.replicas.visits == 0
