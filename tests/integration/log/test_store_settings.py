"""What a change of settings costs a store with many topics, and whom it reaches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.log.config import LogConfig
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from tests.property.log.log_tools import TINY, TOPIC_ID, Clock, kill, open_store
from tests.support.counted import Counted

pytestmark = pytest.mark.guarantee("many-topics")

TOPICS, PARTITIONS = 40, 2
ALL = TOPICS * PARTITIONS
OWN = {"retention.ms": "77"}
CHANGED = {**TINY, "retention.ms": "55"}


class World:
    """`visits`: logs looked at since, by going over all of them or by comparing their settings."""

    def __init__(self, path: Path) -> None:
        self.store: LogManager = open_store(str(path), Clock())
        self.compared = self.visits_to_make = 0
        self.logs = self.store._logs.by_partition = Counted()
        for n in range(TOPICS):
            for index in range(PARTITIONS):
                self.store.create(TopicPartition(f"topic-{n}", index), TOPIC_ID, OWN if n == 7 else {})

    @property
    def visits(self) -> int:
        return self.logs.visits + self.compared

    def retention_ms(self, topic: str) -> list[int]:
        return [
            self.store._logs.by_partition[TopicPartition(topic, index)].config.retention_ms
            for index in range(PARTITIONS)
            if TopicPartition(topic, index) in self.store._logs.by_partition
        ]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path)
    made.visits_to_make, made.logs.visits = made.visits, 0
    equal = LogConfig.__eq__

    def compare(one: LogConfig, other: object) -> bool:
        made.compared += 1
        return equal(one, other)

    monkeypatch.setattr(LogConfig, "__eq__", compare)
    yield made
    made.store._logs.by_partition = dict(made.store._logs.by_partition)
    kill(made.store)


def test_partitions_are_made_without_a_look_at_the_others(world: World) -> None:
    assert world.visits_to_make <= ALL


def test_changed_default_reaches_every_log_in_one_walk(world: World) -> None:
    assert world.store.update_defaults(CHANGED)
    assert world.visits <= 2 * ALL
    assert world.retention_ms("topic-7") == [77, 77], "its own"
    for n in (0, 6, 8, TOPICS - 1):
        assert world.retention_ms(f"topic-{n}") == [55, 55]


def test_defaults_that_are_the_same_cost_nothing(world: World) -> None:
    assert not world.store.update_defaults(dict(TINY))
    assert world.visits == 0


def test_changed_topic_costs_a_look_at_its_own_logs(world: World) -> None:
    world.store.update_config("topic-3", {"retention.ms": "66"})
    assert world.visits <= 2 * PARTITIONS
    assert world.retention_ms("topic-3") == [66, 66]
    assert world.retention_ms("topic-4") == [LogConfig.parse({}, TINY).retention_ms] * 2


def test_deleted_and_remade_logs_have_the_settings_of_their_time(world: World) -> None:
    gone = TopicPartition("topic-3", 0)
    world.store.delete(gone)
    assert world.store.update_defaults(CHANGED)
    assert world.retention_ms("topic-3") == [55]
    world.store.delete(TopicPartition("topic-3", 1))
    world.store.update_config("topic-3", {"retention.ms": "66"})
    world.store.create(gone, TOPIC_ID, {"retention.ms": "66"})
    assert world.retention_ms("topic-3") == [66]
    world.store.create(gone, TOPIC_ID, {})
    assert world.retention_ms("topic-3") == [55], "the topic's settings are for all of its logs"
