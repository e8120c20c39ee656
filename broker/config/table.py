"""Every broker setting that highwater reads: Kafka's name, type, default and range, in one table.

Source: kafka.server.KafkaConfig and org.apache.kafka.storage.internals.log.LogConfig (3.9). Settings that start with
`lab.`, `failure.`, `controlled.shutdown.farewell.ms`, `inter.broker.addresses.only`, `replica.truncation` and
`flush.policy` are highwater's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["int", "long", "float", "bool", "str", "list"]
"""int has 32 bits, long 64, as in Kafka; float is its double."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `minimum` and `maximum` are inclusive; `choices` is the closed set of a `str`, or of a
    `list`'s items, of which there is then at least one.
    """

    name: str
    kind: Kind
    default: object
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] | None = None
    topic_name: str | None = None
    """Name of the topic-level override, where there is one."""
    excluded: tuple[int, ...] = ()
    """Numbers within the range that are not allowed."""


_LONG_MAX = 2**63 - 1

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The replica.selector.class that sends consumers to replicas in their rack."""

SETTINGS: tuple[Setting, ...] = (
    Setting("broker.id", "int", -1, -1),
    Setting("broker.rack", "str", None),
    Setting("listeners", "list", ["PLAINTEXT://:9092"]),
    Setting("advertised.listeners", "list", None),
    Setting("log.dirs", "list", None),
    Setting("log.dir", "str", "/tmp/kafka-logs"),
    Setting("zookeeper.connect", "str", None),
    Setting("zookeeper.session.timeout.ms", "int", 18000, 1),
    Setting("zookeeper.connection.timeout.ms", "int", None, 1),
    Setting("num.partitions", "int", 1, 1),
    Setting("default.replication.factor", "int", 1, 1),
    Setting("auto.create.topics.enable", "bool", True),
    Setting("delete.topic.enable", "bool", True),
    Setting("auto.leader.rebalance.enable", "bool", True),
    Setting("leader.imbalance.check.interval.seconds", "long", 300, 1),
    Setting("leader.imbalance.per.broker.percentage", "int", 10, 0),
    Setting("replication.quota.window.num", "int", 11, 1),
    Setting("replication.quota.window.size.seconds", "int", 1, 1),
    Setting("alter.log.dirs.replication.quota.window.num", "int", 11, 1),
    Setting("alter.log.dirs.replication.quota.window.size.seconds", "int", 1, 1),
    Setting("min.insync.replicas", "int", 1, 1, topic_name="min.insync.replicas"),
    Setting("unclean.leader.election.enable", "bool", False, topic_name="unclean.leader.election.enable"),
    Setting("replica.lag.time.max.ms", "long", 30000, 1),
    Setting("replica.fetch.wait.max.ms", "int", 500, 0),
    Setting("replica.fetch.min.bytes", "int", 1, 0),
    Setting("replica.fetch.max.bytes", "int", 1048576, 0),
    Setting("replica.fetch.response.max.bytes", "int", 10485760, 0),
    Setting("replica.fetch.backoff.ms", "int", 1000, 0),
    Setting("replica.socket.timeout.ms", "int", 30000, 1),
    Setting(
        "replica.selector.class",
        "str",
        None,
        choices=(
            "org.apache.kafka.common.replica.LeaderSelector",
            RACK_AWARE,
        ),
    ),
    Setting("replica.high.watermark.checkpoint.interval.ms", "long", 5000, 1),
    Setting("replica.truncation", "str", "leader-epoch", choices=("leader-epoch", "high-watermark")),
    Setting("controller.socket.timeout.ms", "int", 30000, 1),
    Setting("controlled.shutdown.enable", "bool", True),
    Setting("failure.suspicion.enable", "bool", True),
    # Highwater's own: what only brokers send is taken from addresses of registered brokers alone.
    Setting("inter.broker.addresses.only", "bool", False),
    Setting("controlled.shutdown.max.retries", "int", 3, 0),
    Setting("controlled.shutdown.retry.backoff.ms", "long", 5000, 0),
    # Highwater's own: how long a shutdown keeps sending clients the new leaders.
    Setting("controlled.shutdown.farewell.ms", "long", 100, 0),
    Setting("request.timeout.ms", "int", 30000, 1),
    Setting("socket.request.max.bytes", "int", 104857600, 1),
    # Kafka's default is measurably cheaper than the system's own sizes for sending, and dearer for receiving.
    Setting("socket.send.buffer.bytes", "int", 102400, -1, excluded=(0,)),
    Setting("socket.receive.buffer.bytes", "int", -1, -1, excluded=(0,)),
    Setting("connections.max.idle.ms", "long", 600000, excluded=(0,)),
    Setting("fetch.max.bytes", "int", 57671680, 1024),
    Setting("max.incremental.fetch.session.cache.slots", "int", 1000, 0),
    Setting("message.max.bytes", "int", 1048588, 0, topic_name="max.message.bytes"),
    Setting(
        "compression.type",
        "str",
        "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        topic_name="compression.type",
    ),
    Setting("compression.gzip.level", "int", -1, -1, 9, topic_name="compression.gzip.level", excluded=(0,)),
    Setting("compression.lz4.level", "int", 9, 1, 17, topic_name="compression.lz4.level"),
    Setting("compression.zstd.level", "int", 3, -131072, 22, topic_name="compression.zstd.level"),
    Setting(
        "log.message.timestamp.type",
        "str",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        topic_name="message.timestamp.type",
    ),
    Setting("log.message.timestamp.after.max.ms", "long", _LONG_MAX, 0, topic_name="message.timestamp.after.max.ms"),
    Setting("log.segment.bytes", "int", 1073741824, 14, topic_name="segment.bytes"),
    Setting("log.roll.ms", "long", None, 1),
    Setting("log.roll.hours", "int", 168, 1),
    Setting("log.roll.jitter.ms", "long", None, 0),
    Setting("log.roll.jitter.hours", "int", 0, 0),
    Setting("log.retention.bytes", "long", -1, topic_name="retention.bytes"),
    Setting("log.retention.ms", "long", None, -1),
    Setting("log.retention.minutes", "int", None, -1),
    Setting("log.retention.hours", "int", 168, -1),
    Setting("log.retention.check.interval.ms", "long", 300000, 1),
    Setting(
        "log.cleanup.policy",
        "list",
        ["delete"],
        choices=("compact", "delete"),
        topic_name="cleanup.policy",
    ),
    Setting("log.cleaner.enable", "bool", True),
    Setting("log.cleaner.threads", "int", 1, 0),
    Setting("log.cleaner.backoff.ms", "long", 15000, 0),
    Setting("log.cleaner.dedupe.buffer.size", "long", 134217728, 1 << 20),
    Setting("log.cleaner.io.buffer.load.factor", "float", 0.9, 0.01, 1.0),
    Setting("log.cleaner.io.buffer.size", "int", 524288, 0),
    Setting("log.cleaner.io.max.bytes.per.second", "float", None, 1),
    Setting("log.cleaner.min.cleanable.ratio", "float", 0.5, 0, 1, topic_name="min.cleanable.dirty.ratio"),
    Setting("log.cleaner.delete.retention.ms", "long", 86400000, 0, topic_name="delete.retention.ms"),
    Setting("log.cleaner.min.compaction.lag.ms", "long", 0, 0, topic_name="min.compaction.lag.ms"),
    Setting("log.cleaner.max.compaction.lag.ms", "long", _LONG_MAX, 1, topic_name="max.compaction.lag.ms"),
    Setting("log.index.interval.bytes", "int", 4096, 0, topic_name="index.interval.bytes"),
    Setting("log.index.size.max.bytes", "int", 10485760, 4, topic_name="segment.index.bytes"),
    Setting("log.flush.interval.messages", "long", _LONG_MAX, 1, topic_name="flush.messages"),
    Setting("log.flush.interval.ms", "long", None, 0),
    Setting("flush.policy", "str", "interval", choices=("interval", "group-commit"), topic_name="flush.policy"),
    Setting("log.flush.offset.checkpoint.interval.ms", "int", 60000, 0),
    Setting("log.flush.start.offset.checkpoint.interval.ms", "int", 60000, 0),
    Setting("log.segment.delete.delay.ms", "long", 60000, 0, topic_name="file.delete.delay.ms"),
    Setting("producer.id.expiration.ms", "int", 86400000, 1),
    Setting("producer.id.expiration.check.interval.ms", "int", 600000, 1),
    Setting("offsets.topic.num.partitions", "int", 50, 1),
    Setting("offsets.topic.replication.factor", "int", 3, 1, 32767),
    Setting("offsets.topic.segment.bytes", "int", 104857600, 1),
    Setting("offsets.topic.compression.codec", "int", 0, 0, 4),
    Setting("offsets.commit.timeout.ms", "int", 5000, 1),
    Setting("offsets.retention.minutes", "int", 10080, 1),
    Setting("offsets.retention.check.interval.ms", "long", 600000, 1),
    Setting("offset.metadata.max.bytes", "int", 4096, 0),
    Setting("group.min.session.timeout.ms", "int", 6000, 0),
    Setting("group.max.session.timeout.ms", "int", 1800000, 0),
    Setting("group.initial.rebalance.delay.ms", "int", 3000, 0),
    Setting("group.max.size", "int", 2**31 - 1, 1),
    Setting("transaction.state.log.num.partitions", "int", 50, 1),
    Setting("transaction.state.log.replication.factor", "int", 3, 1, 2**15 - 1),
    Setting("transaction.state.log.min.isr", "int", 2, 1),
    Setting("transaction.state.log.segment.bytes", "int", 104857600, 1),
    Setting("transaction.max.timeout.ms", "int", 900000, 1),
    Setting("transactional.id.expiration.ms", "int", 604800000, 1),
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", "int", 10000, 1),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", "int", 3600000, 1),
    Setting("transaction.partition.verification.enable", "bool", True),
    Setting("lab.event.log", "str", None),
    Setting("lab.event.log.topic.ids", "list", []),
)

IDLE_SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("num.io.threads", "int", 8, 1),
        Setting("num.network.threads", "int", 3, 1),
        Setting("num.replica.fetchers", "int", 1, 1),
        Setting("num.recovery.threads.per.data.dir", "int", 1, 1),
        Setting("background.threads", "int", 10, 1),
    )
}
"""Settings of brokers that Kafka can change at run time, and that have no effect here: nothing has these threads."""

BY_NAME = {setting.name: setting for setting in SETTINGS}

TOPIC_ONLY: tuple[Setting, ...] = (
    Setting("segment.ms", "long", None, 1),
    Setting("segment.jitter.ms", "long", None, 0),
    Setting("retention.ms", "long", None, -1),
    Setting("flush.ms", "long", None, 0),
    Setting("leader.replication.throttled.replicas", "list", []),
    Setting("follower.replication.throttled.replicas", "list", []),
)
"""Topic settings whose broker default is computed from several broker settings."""

TOPIC_SETTINGS: dict[str, Setting] = {
    **{setting.topic_name: setting for setting in SETTINGS if setting.topic_name is not None},
    **{setting.name: setting for setting in TOPIC_ONLY},
}


@dataclass(frozen=True, slots=True)
class Inert:
    """A topic setting of Kafka's that has no effect here; only values that describe what highwater does anyway are
    taken.
    """

    kind: Kind
    default: str
    """What is done, as Kafka says it."""
    accepted: tuple[str, ...]
    """The values that are taken; empty: `settings.validate_topic_config` decides."""
    because: str
    broker_name: str | None
    """Kafka's setting of a broker that gives the default."""


_FOR_EVER = str(_LONG_MAX)
_EVERY_RECORD = "it asks for the time of every record"
_NO_REMOTE = "there is no remote storage"
MESSAGE_FORMAT = "message.format.version"

INERT_TOPIC_SETTINGS: dict[str, Inert] = {
    "preallocate": Inert("bool", "false", ("false",), "files grow as they are written", "log.preallocate"),
    MESSAGE_FORMAT: Inert(
        "str", "3.0-IV1", (), "batches are kept in Kafka 0.11's format", "log.message.format.version"
    ),
    "message.downconversion.enable": Inert(
        "bool",
        "true",
        ("true", "false"),
        "no client is served that would need it",
        "log.message.downconversion.enable",
    ),
    "message.timestamp.before.max.ms": Inert(
        "long", _FOR_EVER, (_FOR_EVER,), _EVERY_RECORD, "log.message.timestamp.before.max.ms"
    ),
    "message.timestamp.difference.max.ms": Inert(
        "long", _FOR_EVER, (_FOR_EVER,), _EVERY_RECORD, "log.message.timestamp.difference.max.ms"
    ),
    "remote.storage.enable": Inert("bool", "false", ("false",), _NO_REMOTE, None),
    "remote.log.copy.disable": Inert("bool", "false", ("false",), _NO_REMOTE, None),
    "remote.log.delete.on.disable": Inert("bool", "false", ("false",), _NO_REMOTE, None),
    "local.retention.ms": Inert("long", "-2", (), _NO_REMOTE, "log.local.retention.ms"),
    "local.retention.bytes": Inert("long", "-2", (), _NO_REMOTE, "log.local.retention.bytes"),
}
"""With `TOPIC_SETTINGS`, all topic settings of Kafka 3.9: topics can be moved here with all settings that they have."""
