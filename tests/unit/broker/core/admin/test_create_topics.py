"""What CreateTopics may ask for."""

from __future__ import annotations

from random import Random

import pytest

from broker.config.settings import Settings
from broker.core.admin.create_topics import Planned, Refused, automatic_topic, plan
from broker.wire.errors import ErrorCode
from broker.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig

SETTINGS = Settings.parse({"zookeeper.connect": "x:1", "num.partitions": "4", "default.replication.factor": "2"})
RACKS = {1: None, 2: None, 3: None}


def decide(topic: CreatableTopic, existing: tuple[str, ...] = ()) -> Planned | Refused:
    return plan(topic, existing, RACKS, SETTINGS, Random(1))


def topic(name: str = "t", partitions: int = 1, factor: int = 1, **config: str | None) -> CreatableTopic:
    configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in config.items()]
    return CreatableTopic(name, partitions, factor, [], configs)


def assigned(*replicas: list[int], first: int = 0) -> CreatableTopic:
    entries = [CreatableReplicaAssignment(first + index, ids) for index, ids in enumerate(replicas)]
    return CreatableTopic("t", -1, -1, entries, [])


def test_defaults_are_the_brokers() -> None:
    planned = decide(automatic_topic("t", SETTINGS))
    assert isinstance(planned, Planned)
    assert len(planned.partitions) == 4
    assert planned.replication_factor == 2


def test_config_is_kept_as_given() -> None:
    planned = decide(topic(min_insync_replicas="2"))
    assert isinstance(planned, Planned)
    assert planned.config == {"min.insync.replicas": "2"}


def test_settings_of_kafkas_that_change_nothing_here_are_kept_as_given() -> None:
    given = {"preallocate": "false", "message.format.version": "2.8-IV1", "local.retention.ms": "-2"}
    wanted = topic()
    wanted.configs = [CreatableTopicConfig(name, value) for name, value in given.items()]
    planned = decide(wanted)
    assert isinstance(planned, Planned)
    assert planned.config == given


def test_settings_that_contradict_each_other_are_refused() -> None:
    refused = decide(topic(min_compaction_lag_ms="2", max_compaction_lag_ms="1"))
    assert refused == Refused(
        ErrorCode.INVALID_CONFIG, "conflict topic config setting min.compaction.lag.ms (2) > max.compaction.lag.ms (1)"
    )


def test_manual_assignment_is_kept_in_order() -> None:
    planned = decide(assigned([3, 1], [1, 2]))
    assert isinstance(planned, Planned)
    assert planned.partitions == {0: (3, 1), 1: (1, 2)}


@pytest.mark.parametrize(
    ("wanted", "error", "text"),
    [
        (topic("old"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII alphanumerics"),
        (topic("o.d"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topics: o_d"),
        (topic(partitions=0), ErrorCode.INVALID_PARTITIONS, "larger than 0"),
        (topic(partitions=2**31 - 1), ErrorCode.INVALID_PARTITIONS, "at most 10000, but it is 2147483647"),
        (assigned(*[[1]] * 10_001), ErrorCode.INVALID_PARTITIONS, "at most 10000"),
        (topic(factor=4), ErrorCode.INVALID_REPLICATION_FACTOR, "4 larger than available brokers: 3."),
        (topic(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (topic(no_such="1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
        (topic(remote_storage_enable="true"), ErrorCode.INVALID_CONFIG, "Tiered Storage functionality is disabled"),
        (topic(segment_bytes="1"), ErrorCode.INVALID_CONFIG, "segment.bytes"),
        (topic(segment_bytes=None), ErrorCode.INVALID_CONFIG, "Null value"),
        (assigned([1, 9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not available"),
        (assigned([1], first=1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive"),
        (
            CreatableTopic("t", 2, -1, [CreatableReplicaAssignment(0, [1])], []),
            ErrorCode.INVALID_REQUEST,
            "Both cannot be used",
        ),
    ],
)
def test_refusals_have_kafkas_error_and_text(wanted: CreatableTopic, error: ErrorCode, text: str) -> None:
    refused = decide(wanted, ("old", "o_d"))
    assert isinstance(refused, Refused)
    assert refused.error is error
    assert refused.text is not None
    assert text in refused.text


def test_manual_assignment_may_name_a_broker_that_is_down_and_none_that_nobody_knows() -> None:
    planned = plan(assigned([9, 1], [1, 2]), (), RACKS, SETTINGS, Random(1), {9})
    assert isinstance(planned, Planned)
    assert planned.partitions == {0: (9, 1), 1: (1, 2)}
    refused = plan(assigned([8, 1], [1, 2]), (), RACKS, SETTINGS, Random(1), {9})
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_replicas_of_all_partitions_fit_in_a_znode() -> None:
    racks = dict.fromkeys(range(100))
    refused = plan(topic(partitions=10_000, factor=6), (), racks, SETTINGS, Random(1))
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.INVALID_PARTITIONS
    assert isinstance(plan(topic(partitions=10_000, factor=5), (), racks, SETTINGS, Random(1)), Planned)
