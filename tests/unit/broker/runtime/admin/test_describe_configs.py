"""DescribeConfigs: types, and where a topic's value comes from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from broker.config.settings import Settings
from broker.model.ids import BrokerId
from broker.runtime.admin.describe_configs import (
    BROKER,
    DEFAULT_SOURCE,
    STATIC_BROKER_SOURCE,
    TOPIC,
    TOPIC_SOURCE,
    ConfigHandlers,
)
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.metadata.dynamic_broker_config import DynamicConfig
from broker.runtime.metadata.topic_configs import TopicConfigCache
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from broker.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import TOPIC_ID, FakeSlot

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7


class Worker:
    def submit(self, name: str, task: Callable[[], None]) -> None:
        task()


class Store:
    def __init__(self, more: Mapping[str, str]) -> None:
        self.more = more

    def topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return {name: {"segment.bytes": "100", **self.more} for name in names}

    def config_changes(self, watch: Callable[[], None] | None, seen: Collection[str] = ()) -> Mapping[str, str | None]:
        return {}

    def configured_topics(self) -> Sequence[str]:
        return []

    def broker_configs(self, broker: BrokerId) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return {}, {}


def describe(
    kind: int, name: str, stored: Mapping[str, str] | None = None, documentation: bool = False, **given: str
) -> dict[str, DescribeConfigsResourceResult]:
    """What a broker answers whose file says `given`, dots as underscores.

    stored: of the topic, beside segment.bytes.
    """
    result = answer(kind, name, stored, documentation, **given)
    assert result.error_code == 0
    return {row.name: row for row in result.configs}


def answer(
    kind: int, name: str, stored: Mapping[str, str] | None = None, documentation: bool = False, **given: str
) -> DescribeConfigsResult:
    """The same with its error."""
    settings = Settings.parse({"zookeeper.connect": "x:1", **{key.replace("_", "."): given[key] for key in given}})
    loop, worker, store = FakeLoop(), Worker(), Store(stored or {})
    cache = MetadataCache("c", "PLAINTEXT", lambda: 5, lambda topic: {}, lambda topic: None)
    states = [UpdateMetadataPartitionState(0, 1, 1, 0, [1], 0, [1], [])]
    topics = [UpdateMetadataTopicState("t", TOPIC_ID, states)]
    cache.update(UpdateMetadataRequest(controller_id=1, controller_epoch=1, broker_epoch=5, topic_states=topics))
    configs, dynamic = TopicConfigCache(store, worker, loop), DynamicConfig(settings, 1, store, worker, loop)
    handlers = ConfigHandlers(settings, 1, cache, configs, dynamic)
    slot = FakeSlot()
    body = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], True, documentation).encode(4)
    handlers.handle_describe_configs(
        Request(ApiKey.DESCRIBE_CONFIGS, 4, 1, "", memoryview(bytearray(body)), slot, True)
    )
    loop.run_soon()
    assert slot.response is not None
    (result,) = DescribeConfigsResponse.decode(4, slot.response[5:]).results
    return result


def test_names_that_nothing_has() -> None:
    for kind, name, error, text in [
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'a/b' contains one or more"),
        (TOPIC, "..", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "1/x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: 1/x"),
        (BROKER, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 or empty string, but received 2"),
    ]:
        result = answer(kind, name)
        assert result.error_code == error, name
        assert (result.error_message or "").startswith(text), result.error_message


def test_topic_settings_have_kafkas_types() -> None:
    rows = describe(TOPIC, "t")
    types = {name: row.config_type for name, row in rows.items() if not name.startswith("flush.policy")}
    assert types == {
        "cleanup.policy": LIST,
        "compression.gzip.level": INT,
        "compression.lz4.level": INT,
        "compression.type": STRING,
        "compression.zstd.level": INT,
        "delete.retention.ms": LONG,
        "file.delete.delay.ms": LONG,
        "flush.messages": LONG,
        "flush.ms": LONG,
        "follower.replication.throttled.replicas": LIST,
        "index.interval.bytes": INT,
        "leader.replication.throttled.replicas": LIST,
        "local.retention.bytes": LONG,
        "local.retention.ms": LONG,
        "max.compaction.lag.ms": LONG,
        "max.message.bytes": INT,
        "message.downconversion.enable": BOOLEAN,
        "message.format.version": STRING,
        "message.timestamp.after.max.ms": LONG,
        "message.timestamp.before.max.ms": LONG,
        "message.timestamp.difference.max.ms": LONG,
        "message.timestamp.type": STRING,
        "min.cleanable.dirty.ratio": DOUBLE,
        "min.compaction.lag.ms": LONG,
        "min.insync.replicas": INT,
        "preallocate": BOOLEAN,
        "remote.log.copy.disable": BOOLEAN,
        "remote.log.delete.on.disable": BOOLEAN,
        "remote.storage.enable": BOOLEAN,
        "retention.bytes": LONG,
        "retention.ms": LONG,
        "segment.bytes": INT,
        "segment.index.bytes": INT,
        "segment.jitter.ms": LONG,
        "segment.ms": LONG,
        "unclean.leader.election.enable": BOOLEAN,
    }


def test_broker_settings_have_kafkas_types() -> None:
    rows = describe(BROKER, "1")
    assert rows["broker.id"].config_type == INT
    assert rows["replica.lag.time.max.ms"].config_type == LONG


def test_topics_default_from_the_brokers_file_says_so_and_names_its_setting() -> None:
    rows = describe(TOPIC, "t", log_retention_ms="5", log_retention_hours="1", log_flush_interval_ms="50")
    retention = rows["retention.ms"]
    assert (retention.value, retention.config_source) == ("5", STATIC_BROKER_SOURCE)
    assert [(s.name, s.value, s.source) for s in retention.synonyms] == [
        ("log.retention.ms", "5", STATIC_BROKER_SOURCE),
        ("log.retention.hours", "1", STATIC_BROKER_SOURCE),
        ("log.retention.hours", "168", DEFAULT_SOURCE),
    ]
    # Apache Kafka 3.9 leaves out what comes before log.retention.ms, and that is all where only the hours are set.
    hours = describe(TOPIC, "t", log_retention_hours="1")["retention.ms"]
    assert (hours.value, hours.config_source, hours.synonyms) == ("3600000", DEFAULT_SOURCE, [])
    assert rows["flush.ms"].config_source == STATIC_BROKER_SOURCE
    assert rows["segment.ms"].config_source == DEFAULT_SOURCE
    assert rows["segment.bytes"].config_source == TOPIC_SOURCE


def test_stored_form_of_topics_is_described_with_where_it_comes_from() -> None:
    rows = describe(TOPIC, "t", compression_type="zstd", log_message_timestamp_type="LogAppendTime")
    found = {
        name: (rows[name].value, rows[name].config_source)
        for name in ("compression.type", "message.timestamp.type", "compression.zstd.level", "compression.gzip.level")
    }
    assert found == {
        "compression.type": ("zstd", STATIC_BROKER_SOURCE),
        "message.timestamp.type": ("LogAppendTime", STATIC_BROKER_SOURCE),
        "compression.zstd.level": ("3", DEFAULT_SOURCE),
        "compression.gzip.level": ("-1", DEFAULT_SOURCE),
    }
    (synonym, default) = rows["message.timestamp.type"].synonyms
    assert (synonym.name, synonym.value) == ("log.message.timestamp.type", "LogAppendTime")
    assert (default.value, default.source) == ("CreateTime", DEFAULT_SOURCE)
    assert not describe(BROKER, "1")["compression.type"].read_only


def test_overrides_that_change_nothing_here_are_described_all_the_same() -> None:
    idle = describe(TOPIC, "t")["preallocate"]
    assert (idle.value, idle.config_source) == ("false", DEFAULT_SOURCE)
    assert [(s.name, s.value, s.source) for s in idle.synonyms] == [("log.preallocate", "false", DEFAULT_SOURCE)]
    rows = describe(TOPIC, "t", {"preallocate": "true", "no.such": "x", "local.retention.ms": "-2"})
    expected = {"preallocate": ("true", BOOLEAN), "no.such": ("x", 0), "local.retention.ms": ("-2", LONG)}
    assert {name: (rows[name].value, rows[name].config_type) for name in expected} == expected
    assert [(s.name, s.value, s.source) for s in rows["no.such"].synonyms] == [("no.such", "x", TOPIC_SOURCE)]
    assert rows["no.such"].config_source == TOPIC_SOURCE
    assert rows["segment.bytes"].value == "100"


KAFKAS = {
    "cleanup.policy": ("delete", "log.cleanup.policy"),
    "compression.gzip.level": ("-1", "compression.gzip.level"),
    "compression.lz4.level": ("9", "compression.lz4.level"),
    "compression.type": ("producer", "compression.type"),
    "compression.zstd.level": ("3", "compression.zstd.level"),
    "delete.retention.ms": ("86400000", "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": ("60000", "log.segment.delete.delay.ms"),
    "flush.messages": ("9223372036854775807", "log.flush.interval.messages"),
    "flush.ms": ("9223372036854775807", None),
    "follower.replication.throttled.replicas": ("", None),
    "index.interval.bytes": ("4096", "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": ("", None),
    "local.retention.bytes": ("-2", "log.local.retention.bytes"),
    "local.retention.ms": ("-2", "log.local.retention.ms"),
    "max.compaction.lag.ms": ("9223372036854775807", "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": ("1048588", "message.max.bytes"),
    "message.downconversion.enable": ("true", "log.message.downconversion.enable"),
    "message.format.version": ("3.0-IV1", "log.message.format.version"),
    "message.timestamp.after.max.ms": ("9223372036854775807", "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": ("9223372036854775807", "log.message.timestamp.before.max.ms"),
    "message.timestamp.difference.max.ms": ("9223372036854775807", "log.message.timestamp.difference.max.ms"),
    "message.timestamp.type": ("CreateTime", "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": ("0.5", "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": ("0", "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": ("1", "min.insync.replicas"),
    "preallocate": ("false", "log.preallocate"),
    "remote.log.copy.disable": ("false", None),
    "remote.log.delete.on.disable": ("false", None),
    "remote.storage.enable": ("false", None),
    "retention.bytes": ("-1", "log.retention.bytes"),
    "retention.ms": ("604800000", None),
    "segment.index.bytes": ("10485760", "log.index.size.max.bytes"),
    "segment.jitter.ms": ("0", None),
    "segment.ms": ("604800000", None),
    "unclean.leader.election.enable": ("false", "unclean.leader.election.enable"),
}
"""What Apache Kafka 3.9.1 with ZooKeeper says of a topic without overrides: values, and synonyms of their defaults."""


def test_topic_without_overrides_is_described_as_kafka_does_it() -> None:
    rows = describe(TOPIC, "t")
    found = {}
    for name, row in rows.items():
        if name not in ("segment.bytes", "flush.policy"):
            assert row.config_source == DEFAULT_SOURCE
            assert [s.value for s in row.synonyms] == [row.value] * len(row.synonyms)
            found[name] = (row.value, row.synonyms[0].name if row.synonyms else None)
    assert found == KAFKAS


def test_settings_without_a_value_have_no_synonym() -> None:
    rows = describe(BROKER, "1", log_roll_hours="3")
    for name in ("log.retention.ms", "log.retention.minutes", "log.roll.ms", "log.flush.interval.ms"):
        assert (rows[name].value, rows[name].config_source, rows[name].synonyms) == (None, DEFAULT_SOURCE, [])
    assert [s.name for s in rows["log.roll.hours"].synonyms] == ["log.roll.hours", "log.roll.hours"]


def test_every_setting_is_documented_where_that_is_asked_for() -> None:
    for kind, name in ((TOPIC, "t"), (BROKER, "1")):
        assert all(row.documentation is None for row in describe(kind, name).values())
        documented = describe(kind, name, documentation=True)
        assert [name for name, row in documented.items() if not (row.documentation or "").endswith(".")] == []


def test_settings_of_threads_that_nothing_has_are_described_as_such() -> None:
    rows = describe(BROKER, "1")
    assert (rows["num.io.threads"].value, rows["num.io.threads"].config_type) == ("8", INT)
    assert not rows["num.io.threads"].read_only
    assert not rows["log.cleaner.threads"].read_only
    assert rows["log.cleaner.backoff.ms"].read_only


def test_topic_that_is_not_there_has_the_error_alone() -> None:
    result = answer(TOPIC, "nope")
    assert (result.error_code, result.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
