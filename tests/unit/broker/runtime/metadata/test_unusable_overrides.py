"""Settings of one topic that cannot work keep a broker from nothing but themselves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from broker.config.settings import validate_topic_config
from broker.config.table import TOPIC_SETTINGS
from broker.config.values import ConfigError
from broker.log.config import LogConfig
from broker.model.ids import TopicPartition
from broker.runtime.metadata.topic_configs import TopicConfigCache
from broker.runtime.metadata.usable_overrides import usable_overrides
from broker.wire.errors import ErrorCode
from broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.support.fake_loop import FakeLoop
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_log import MemoryLog
from tests.support.memory_node import TOPIC, TOPIC_ID

OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAg"
BORDERS = ["-9223372036854775808", "-2", "-1", "0", "1", "3", "4", "13", "14", "0.5", "9223372036854775807", ""]


@pytest.mark.parametrize("name", sorted(TOPIC_SETTINGS))
def test_value_that_a_topic_may_be_given_is_one_that_its_logs_can_use(name: str) -> None:
    for value in BORDERS:
        try:
            validate_topic_config(name, value)
        except ConfigError:
            continue
        LogConfig.parse({name: value}, {})


def test_negative_retention_bytes_is_no_limit_as_in_kafka() -> None:
    validate_topic_config("retention.bytes", "-2")
    assert LogConfig.parse({"retention.bytes": "-2"}, {}).retention_bytes < 0


def test_stored_override_that_cannot_work_gives_way_to_the_default(caplog: pytest.LogCaptureFixture) -> None:
    stored = {"min.insync.replicas": "two", "segment.bytes": "100", "not.ours": "x"}
    with caplog.at_level(logging.ERROR):
        assert usable_overrides("t", stored) == {"segment.bytes": "100", "not.ours": "x"}
    assert "Invalid value two for configuration min.insync.replicas" in caplog.text


class Worker:
    def submit(self, name: str, task: Callable[[], None]) -> None:
        task()


class Store:
    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}

    def topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return {name: self.configs.get(name, {}) for name in names}

    def config_changes(self, watch: Callable[[], None] | None, seen: Collection[str] = ()) -> Mapping[str, str | None]:
        return {}

    def configured_topics(self) -> Sequence[str]:
        return []


def test_settings_cache_whose_listener_fails_still_notifies_the_others_and_goes_on() -> None:
    loop, store = FakeLoop(), Store()
    cache = TopicConfigCache(store, Worker(), loop)
    heard: list[str] = []

    def fails(topic: str, overrides: Mapping[str, str]) -> None:
        raise ValueError("cannot take this up")

    cache.add_listener(fails)
    cache.add_listener(lambda topic, overrides: heard.append(topic))
    cache.load({"t": "id"}, lambda: None)
    loop.run_soon()
    store.configs["t"] = {"retention.ms": "5", "segment.bytes": "zero"}
    cache.load({"t": "id"}, lambda: heard.append("then"))
    loop.run_soon()
    assert heard == ["t", "then"]
    assert cache.overrides("t") == {"retention.ms": "5"}


def test_settings_read_for_the_first_time_reach_listeners_that_may_know_older_ones() -> None:
    loop, store = FakeLoop(), Store()
    cache = TopicConfigCache(store, Worker(), loop)
    first: list[tuple[str, Mapping[str, str]]] = []
    changes: list[str] = []
    cache.add_first_listener(lambda topic, overrides: first.append((topic, overrides)))
    cache.add_listener(lambda topic, overrides: changes.append(topic))
    assert not cache.knows("t")
    for stored, topic_id in (("5", "id"), ("6", "id"), ("7", "made-again")):
        store.configs["t"] = {"retention.ms": stored}
        cache.load({"t": topic_id}, lambda: None)
        loop.run_soon()
    assert cache.knows("t")
    assert first == [("t", {"retention.ms": "5"}), ("t", {"retention.ms": "7"})]
    assert changes == ["t", "t"]


def test_partition_that_cannot_be_taken_up_fails_alone_and_the_request_gets_its_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = MemoryCluster()
    cluster.settle()
    store = cluster.nodes[1].store
    create = store.create

    def refusing(
        topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str], *, new: bool = True
    ) -> MemoryLog:
        if topic_partition.topic == "bad":
            raise ValueError("retention.bytes=-2: must be at least -1")
        return create(topic_partition, topic_id, config, new=new)

    monkeypatch.setattr(store, "create", refusing)
    state = LeaderAndIsrPartitionState(0, 1, 1, 1, [1, 2, 3], 1, [1, 2, 3])
    request = LeaderAndIsrRequest(
        9,
        False,
        1,
        cluster.registered[1],
        0,
        [LeaderAndIsrTopicState("bad", OTHER_ID, [state]), LeaderAndIsrTopicState(TOPIC, TOPIC_ID, [state])],
        [],
    )
    answer = cluster.apply(1, request)
    errors = [partition.error_code for topic in answer.topics for partition in topic.partition_errors]
    assert (answer.error_code, errors) == (0, [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE])
    accepted = produced(cluster.produce(1, "a", acks=1))
    assert accepted is not None
    assert accepted.error == 0
