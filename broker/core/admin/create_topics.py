"""What CreateTopics asks for, checked and turned into a topic, before anything is written. Pure but for the dice.

Errors and texts are Kafka's. Source: kafka.server.ZkAdminManager.createTopics, AdminZkClient.validateTopicCreate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from broker.config.settings import Settings, validate_topic_config, validate_topic_configs
from broker.config.values import ConfigError
from broker.core.admin import topic_names
from broker.core.controller.assignment import AssignmentRefused, assign, check_manual
from broker.core.coordination import OFFSETS_TOPIC, TRANSACTION_TOPIC
from broker.model.ids import BrokerId
from broker.wire.errors import ErrorCode
from broker.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

_TEXT_MAX = 2000
_BROKER_DEFAULT = -1
_INT16_MAX = 32767
_ASSIGNMENT_ERRORS = {
    "partitions": ErrorCode.INVALID_PARTITIONS,
    "replication-factor": ErrorCode.INVALID_REPLICATION_FACTOR,
    "replica-assignment": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
}


class Dice(Protocol):
    """Chance, which the caller brings: a `random.Random`."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 up to and without stop."""
        ...


def clipped(text: str) -> str:
    """A text that quotes what a client sent, cut off: the strings of older versions end at 32,767 bytes."""
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


@dataclass(frozen=True, slots=True)
class Refused:
    """One topic's error, and its text for the client."""

    error: ErrorCode
    text: str | None

    def __post_init__(self) -> None:
        if self.text is not None:
            object.__setattr__(self, "text", clipped(self.text))


@dataclass(frozen=True, slots=True)
class Planned:
    """A topic that may be created."""

    name: str
    partitions: Mapping[int, tuple[BrokerId, ...]]
    config: Mapping[str, str]

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0])


def plan(
    wanted: CreatableTopic,
    existing: Collection[str],
    racks: Mapping[BrokerId, str | None],
    settings: Settings,
    dice: Dice,
    away: Collection[BrokerId] = (),
) -> Planned | Refused:
    """racks: of the live brokers. dice: where the round of leaders starts, and the followers' first shift.

    away: brokers that are down, to which a manual assignment may go all the same. Kafka takes any number there; but a
    replica on a broker that nobody ever starts keeps its topic from being deleted, so an unknown one is refused.
    """
    if wanted.name in existing:
        return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
    name_refusal = topic_names.refusal(wanted.name)
    if name_refusal is not None:
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, name_refusal)
    colliding = topic_names.collisions(wanted.name, existing)
    if colliding:
        text = f"Topic '{wanted.name}' collides with existing topics: {', '.join(sorted(colliding))}"
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    config = _config(wanted, settings)
    if isinstance(config, Refused):
        return config
    try:
        return Planned(wanted.name, _partitions(wanted, racks, settings, dice, away), config)
    except AssignmentRefused as refused:
        return Refused(_ASSIGNMENT_ERRORS[refused.kind], str(refused))
    except _Contradiction as contradiction:
        return Refused(ErrorCode.INVALID_REQUEST, str(contradiction))


class _Contradiction(Exception):
    """The request says two things at once."""


def _config(wanted: CreatableTopic, settings: Settings) -> dict[str, str] | Refused:
    config: dict[str, str] = {}
    for entry in wanted.configs:
        if entry.value is None:
            text = f"Null value not supported for topic configs: {entry.name}"
            return Refused(ErrorCode.INVALID_CONFIG, text)
        try:
            validate_topic_config(entry.name, entry.value)
        except ConfigError as error:
            return Refused(ErrorCode.INVALID_CONFIG, str(error))
        config[entry.name] = entry.value
    try:
        validate_topic_configs(config, settings)
    except ConfigError as error:
        return Refused(ErrorCode.INVALID_CONFIG, str(error))
    return config


def _partitions(
    wanted: CreatableTopic,
    racks: Mapping[BrokerId, str | None],
    settings: Settings,
    dice: Dice,
    away: Collection[BrokerId],
) -> dict[int, tuple[BrokerId, ...]]:
    if wanted.assignments:
        if wanted.num_partitions != _BROKER_DEFAULT or wanted.replication_factor != _BROKER_DEFAULT:
            raise _Contradiction(
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time."
            )
        manual = {entry.partition_index: tuple(entry.broker_ids) for entry in wanted.assignments}
        if len(manual) != len(wanted.assignments):
            raise AssignmentRefused("replica-assignment", "A partition is assigned twice.")
        check_manual(manual, sorted({*racks, *away}))
        return manual
    partitions = wanted.num_partitions
    if partitions == _BROKER_DEFAULT:
        partitions = settings.num_partitions
    factor = wanted.replication_factor
    if factor == _BROKER_DEFAULT:
        factor = settings.default_replication_factor
    brokers = max(1, len(racks))
    return assign(racks, partitions, factor, dice.randrange(brokers), dice.randrange(brokers))


def automatic_topic(name: str, settings: Settings) -> CreatableTopic:
    """What auto-creation asks for: an internal topic has settings of its own."""
    if name == OFFSETS_TOPIC:
        configs = {"cleanup.policy": "compact", "compression.type": "producer"}
        configs["segment.bytes"] = str(settings.offsets_topic_segment_bytes)
        partitions, factor = settings.offsets_topic_num_partitions, settings.offsets_topic_replication_factor
    elif name == TRANSACTION_TOPIC:
        transactions = settings.transactions
        configs = {"cleanup.policy": "compact", "compression.type": "uncompressed"}
        configs["unclean.leader.election.enable"] = "false"
        configs["min.insync.replicas"] = str(transactions.min_isr)
        configs["segment.bytes"] = str(transactions.segment_bytes)
        partitions, factor = transactions.partitions, transactions.replication_factor
    else:
        return CreatableTopic(name=name, num_partitions=_BROKER_DEFAULT, replication_factor=_BROKER_DEFAULT)
    return CreatableTopic(
        name, partitions, factor, [], [CreatableTopicConfig(key, value) for key, value in configs.items()]
    )
