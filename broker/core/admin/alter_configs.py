"""What AlterConfigs and IncrementalAlterConfigs make of an entity's overrides, and what they refuse. Pure.

Errors and texts are Kafka's, but for the part that says what is wrong with a value. A broker's setting may be changed
at run time when it is the default of a topic setting, a replication throttle, one of the cleaner's, or has no effect.
Source: kafka.server.ConfigAdminManager, ZkAdminManager.alterConfigs, DynamicBrokerConfig.validate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from broker.config.settings import Settings, validate_broker_config, validate_topic_config, validate_topic_configs
from broker.config.table import BY_NAME, IDLE_SETTINGS, TOPIC_SETTINGS, Setting
from broker.config.values import ConfigError, convert
from broker.core.admin import topic_names
from broker.core.admin.create_topics import clipped
from broker.model.ids import BrokerId
from broker.model.path_names import is_component
from broker.wire.errors import ErrorCode

TOPIC, BROKER = 2, 4
DEFAULT_BROKERS = "<default>"
ALL_BROKERS = f"brokers/{DEFAULT_BROKERS}"
"""The entity that holds what all brokers have."""
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

THROTTLE_RATES = frozenset({LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE})
DYNAMIC = (
    frozenset(setting.name for setting in BY_NAME.values() if setting.topic_name is not None)
    | {"log.roll.ms", "log.roll.jitter.ms", "log.retention.ms", "log.flush.interval.ms"}
    | THROTTLE_RATES
    | IDLE_SETTINGS.keys()
    | {
        "log.cleaner.threads",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
    }
)
"""Settings of brokers that may change while they run."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_INT32_MAX = 2**31 - 1
_CONFIG_BYTES_MAX = 512 * 1024
"""They go into one znode, and that into one ZooKeeper request."""
_LISTS = frozenset(name for table in (BY_NAME, TOPIC_SETTINGS) for name, one in table.items() if one.kind == "list")


class Operation(IntEnum):
    """As IncrementalAlterConfigs says it."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Edit(NamedTuple):
    """One override to change. operation: the wire's number, known or not."""

    name: str
    operation: int
    value: str | None


class ConfigRefused(Exception):
    """One resource's error, and its text for the client."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error
        self.text = clipped(text)


def entity_of(kind: int, name: str, broker: BrokerId, incremental: bool = True) -> str:
    """The entity that a resource means, `topics/t` or `brokers/1`: a name that is legal in paths. Raises ConfigRefused.

    A broker takes requests about its own settings, and about those of all brokers (no name). incremental: Kafka then
    reads a topic's overrides before it looks whether there is such a topic, and refuses a name that no path can have.
    """
    if kind == TOPIC:
        if not name:
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if incremental and not is_component(name) and "/" not in name:
            where = f"ConfigResource(type=TOPIC, name='{name}')"
            text = f"Invalid config value for resource {where}: no topic can have this name"
            raise ConfigRefused(ErrorCode.INVALID_CONFIG, text)
        if topic_names.refusal(name) is not None:
            raise ConfigRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return f"topics/{name}"
    if kind == BROKER:
        if not name:
            return ALL_BROKERS
        if broker_of(name) != broker:
            text = f"Unexpected broker id, expected {broker}, but received {name}"
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, text)
        return f"brokers/{broker}"
    raise ConfigRefused(
        ErrorCode.INVALID_REQUEST,
        f"AlterConfigs is only supported for topics and brokers, but resource type is {kind}",
    )


def broker_of(name: str) -> BrokerId:
    """The broker that a resource means. Raises ConfigRefused for a name that is no 32-bit number."""
    found = int(name) if _INTEGER.fullmatch(name) is not None else _INT32_MAX + 1
    if not -_INT32_MAX - 1 <= found <= _INT32_MAX:
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    return found


def check_edits(edits: Sequence[Edit]) -> None:
    """Raises ConfigRefused for a resource that has no settings, or none that this broker keeps."""
    names = [edit.name for edit in edits]
    if len(set(names)) != len(names):
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    null = [edit.name for edit in edits if edit.value is None and edit.operation != Operation.DELETE]
    if null:
        raise ConfigRefused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(null)}")
    for edit in edits:
        if edit.operation not in frozenset(Operation):
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, f"Unknown operations type {edit.operation}")


def edited(current: Mapping[str, str], defaults: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """The overrides after checked edits. defaults: what a list has that is appended to and not overridden."""
    config = dict(current)
    for name, operation, value in edits:
        if operation == Operation.SET:
            assert value is not None
            config[name] = value
        elif operation == Operation.DELETE:
            config.pop(name, None)
        else:
            assert value is not None
            action = "append" if operation == Operation.APPEND else "subtract"
            if name not in _LISTS:
                text = f"Config value {action} is not allowed for config key: {name}"
                raise ConfigRefused(ErrorCode.INVALID_CONFIG, text)
            config[name] = _combined(config.get(name, defaults.get(name, "")), value, operation)
    return config


def _combined(old: str, value: str, operation: int) -> str:
    have = [item for item in old.split(",") if item]
    given = value.split(",")
    if operation == Operation.APPEND:
        return ",".join(have + [item for item in given if item not in have])
    return ",".join(item for item in have if item not in given)


_OF_ALL_BROKERS_ONLY = frozenset({"min.insync.replicas"})
"""A leader commits by this setting and the controller elects by it: it may not differ between brokers (KIP-966)."""


def differs_between_brokers(name: str) -> bool:
    """Whether a broker may have this setting for itself."""
    return name not in _OF_ALL_BROKERS_ONLY


def check_config(
    kind: int, name: str, config: Mapping[str, str], settings: Settings, stored: Mapping[str, str] | None = None
) -> None:
    """Raises ConfigRefused unless the entity may have these overrides, all of them.

    stored: the overrides that it has. Settings that highwater does not use may stay as they are: another tool, or
    Apache Kafka, wrote them.
    """
    ours = TOPIC_SETTINGS if kind == TOPIC else DYNAMIC
    requested = {
        key: value for key, value in config.items() if key in ours or stored is None or stored.get(key) != value
    }
    if kind == BROKER:
        fixed = sorted(requested.keys() - DYNAMIC)
        if fixed:
            text = f"Cannot update these configs dynamically: {', '.join(fixed)}"
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, text)
        common = sorted(key for key in config if name and not differs_between_brokers(key))
        if common:
            text = (
                f"Cannot update these configs for a single broker: {', '.join(common)}. Set them for all brokers "
                "(default resource), or on the topic"
            )
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, text)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in config.items())
    if size > _CONFIG_BYTES_MAX:
        text = f"All overrides together must be at most {_CONFIG_BYTES_MAX} bytes, but they are {size}."
        raise ConfigRefused(ErrorCode.INVALID_CONFIG, text)
    try:
        for key, value in requested.items():
            if kind == TOPIC:
                validate_topic_config(key, value)
            elif key in THROTTLE_RATES:
                throttle_rate(key, value)
            else:
                validate_broker_config(key, value)
        if kind == TOPIC:
            validate_topic_configs(config, settings)
    except ConfigError as error:
        if str(error).startswith("Unknown topic config name"):
            raise ConfigRefused(ErrorCode.INVALID_CONFIG, str(error)) from None
        if kind == BROKER:
            # Of another number in Kafka, and without the resource (KAFKA-13609).
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
        where = f"ConfigResource(type=TOPIC, name='{name}')"
        raise ConfigRefused(ErrorCode.INVALID_CONFIG, f"Invalid config value for resource {where}: {error}") from None


def throttle_rate(name: str, value: str) -> int:
    """Bytes per second. Raises ConfigError."""
    rate = convert(name, Setting(name, "long", None, 0), value)
    assert isinstance(rate, int)
    return rate
