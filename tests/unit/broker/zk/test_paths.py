"""Names in paths: each is one level, or no path is made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.model.ids import TopicPartition
from broker.zk import paths

NO_LEVEL = ["", ".", "..", "a/b", "/", "../brokers", "a\0b", "a\nb", "\x7f", "\ud800", "\uffff"]
MADE_OF_A_NAME: list[Callable[[str], str]] = [
    paths.topic,
    paths.topic_partitions,
    paths.topic_config,
    paths.broker_config,
    paths.delete_topic,
    lambda name: paths.topic_partition(TopicPartition(name, 0)),
    lambda name: paths.partition_state(TopicPartition(name, 0)),
    lambda name: paths.entity_config(f"topics/{name}"),
]


@pytest.mark.parametrize("name", NO_LEVEL)
@pytest.mark.parametrize("path_of", MADE_OF_A_NAME)
def test_name_that_is_no_level_makes_no_path(path_of: Callable[[str], str], name: str) -> None:
    with pytest.raises(paths.IllegalComponent):
        path_of(name)


@pytest.mark.parametrize("name", ["t", "a.b", "...", "<default>", "with space", "ü"])
def test_name_that_zookeeper_takes(name: str) -> None:
    assert paths.topic_config(name) == f"/config/topics/{name}"


@pytest.mark.parametrize("entity", ["topics", "topics/", "secrets/t", "users/u/clients/c", "../brokers"])
def test_entities_that_nothing_can_be(entity: str) -> None:
    assert not paths.is_entity(entity)


def test_entities() -> None:
    assert paths.entity_config("brokers/<default>") == "/config/brokers/<default>"
