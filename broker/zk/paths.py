"""Names of the znodes, all but one Kafka's own. Pure. Source: kafka.zk.ZkData.

A name that goes into a path is one level of it. Requests' names are checked where the requests are; what slipped
through raises IllegalComponent here, before ZooKeeper is asked: `slx/partitions` would be another topic's znode.
"""

from __future__ import annotations

from broker.model.ids import BrokerId, TopicPartition
from broker.model.path_names import is_component

BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
CONFIG_TOPICS = "/config/topics"
CONFIG_BROKERS = "/config/brokers"
DEFAULT_ENTITY = "<default>"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
REASSIGNMENT = "/admin/reassign_partitions"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"

SUSPICIONS = "/highwater/suspicions"
SHUTTING_DOWN = "/highwater/shutdowns"
REGISTRATIONS = "/highwater/registrations"

PERSISTENT = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    "/isr_change_notification",
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    CONFIG_TOPICS,
    "/config/clients",
    "/config/users",
    CONFIG_BROKERS,
    "/config/ips",
    SUSPICIONS,
    SHUTTING_DOWN,
    REGISTRATIONS,
)
"""Made at a broker's start where missing. Source: ZkData.PersistentZkPaths; the last three are highwater's own."""

_CONFIGURABLE = frozenset({"topics", "brokers", "clients", "users", "ips"})


class IllegalComponent(ValueError):
    """A name that is not one level of a path."""


def component(name: str) -> str:
    """The name, if it is one level of a path. Raises IllegalComponent."""
    if not is_component(name):
        raise IllegalComponent(f"no znode is called {name[:300]!r}")
    return name


def broker_id(broker: BrokerId) -> str:
    """A broker's registration, ephemeral; its czxid is the broker epoch."""
    return f"{BROKER_IDS}/{broker}"


def topic(name: str) -> str:
    """A topic's id and assignment."""
    return f"{TOPICS}/{component(name)}"


def topic_partitions(name: str) -> str:
    """Parent of a topic's partitions."""
    return f"{TOPICS}/{component(name)}/partitions"


def topic_partition(topic_partition: TopicPartition) -> str:
    """Parent of a partition's state."""
    return f"{TOPICS}/{component(topic_partition.topic)}/partitions/{topic_partition.partition}"


def partition_state(topic_partition: TopicPartition) -> str:
    """Leader, ISR and leader epoch; its version is the partition epoch."""
    return f"{TOPICS}/{component(topic_partition.topic)}/partitions/{topic_partition.partition}/state"


def topic_config(name: str) -> str:
    """A topic's overrides."""
    return f"{CONFIG_TOPICS}/{component(name)}"


def broker_config(entity: str) -> str:
    """entity: a broker id, or DEFAULT_ENTITY for what all brokers have."""
    return f"{CONFIG_BROKERS}/{component(entity)}"


def is_entity(entity: str) -> bool:
    """Whether settings of such a thing may exist, `topics/t` or `brokers/1`: a kind that Kafka has, and a name."""
    kind, _, name = entity.partition("/")
    return kind in _CONFIGURABLE and is_component(name)


def entity_config(entity: str) -> str:
    """The settings of `topics/t` or `brokers/1`. Raises IllegalComponent."""
    if not is_entity(entity):
        raise IllegalComponent(f"nothing that has settings is called {entity[:300]!r}")
    return f"/config/{entity}"


def suspicion(broker: BrokerId, broker_epoch: int) -> str:
    """Says that this registration has been suspected; it is so once only."""
    return f"{SUSPICIONS}/{note_name(broker, broker_epoch)}"


def shutting_down(broker: BrokerId, broker_epoch: int) -> str:
    """Notes that this registration has requested its controlled shutdown."""
    return f"{SHUTTING_DOWN}/{note_name(broker, broker_epoch)}"


def note_name(broker: BrokerId, broker_epoch: int) -> str:
    """Of what is noted of one registration."""
    return f"{broker}-{broker_epoch}"


def registration(broker: BrokerId) -> str:
    """Written together with each registration of this broker, and stays: its mzxid is the last broker epoch."""
    return f"{REGISTRATIONS}/{broker}"


def delete_topic(name: str) -> str:
    """The mark of a topic that is to be deleted."""
    return f"{DELETE_TOPICS}/{component(name)}"


def parents(path: str) -> list[str]:
    """Ancestors of a znode from the top, the root and the znode itself left out."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: i + 1]) for i in range(len(parts))]
