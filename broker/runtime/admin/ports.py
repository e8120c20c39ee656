"""What administration needs of ZooKeeper and of the logs, as Protocols.

The stores' methods block, on the worker's thread, and raise StoreUnavailable; `DescribedDirs` is for the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from broker.core.admin.stored import StoredConfig, StoredTopic
from broker.core.controller.cluster_state import Topic
from broker.model.ids import TopicPartition
from broker.model.log_dir_info import DiskSpace, LogDirInfo


class DescribedDirs(Protocol):
    """The log dirs, to say what is in them."""

    def describe_dirs(self, wanted: Collection[TopicPartition] | None) -> list[LogDirInfo]:
        """Every dir, in the order of log.dirs, with those of its open logs that are wanted; None: all."""
        ...

    def measure_dirs(self, then: Callable[[Mapping[str, DiskSpace]], None]) -> None:
        """Call `then`, later or at once, with the space of each dir that says it, by its path."""
        ...


class MovedReplicas(Protocol):
    """Moves of replicas between the log dirs of this broker."""

    @property
    def targets(self) -> Mapping[TopicPartition, str]:
        """Of each move under way the path of the dir into which it goes."""
        ...

    def home(self, topic_partition: TopicPartition) -> str | None:
        """The dir that the partition's log is in, None where there is no such log."""
        ...

    def begin(self, topic_partition: TopicPartition, path: str) -> None:
        """Begin to move a replica that is here and is not moving. Raises LogDirFailed."""
        ...

    def cancel(self, topic_partition: TopicPartition) -> None:
        """Give its move up. Raises LogDirFailed."""
        ...

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Make its log there, once it is to be made."""
        ...


class PartitionStore(Protocol):
    """Topics, to add partitions."""

    def read_topic(self, name: str) -> StoredTopic | None:
        """The topic's assignment as stored; None where there is no such topic."""
        ...

    def write_topic(self, read: StoredTopic, topic: Topic) -> bool:
        """False where it has changed since it was read."""
        ...

    def being_deleted(self, name: str) -> bool:
        """Whether the topic is marked in `/admin/delete_topics`."""
        ...


class ConfigStore(Protocol):
    """Settings of entities, `topics/t` or `brokers/1`, to change them."""

    def read_config(self, entity: str) -> StoredConfig:
        """Overrides of an entity (`topics/<name>`, `brokers/<id>`), empty where it has none."""
        ...

    def write_config(self, read: StoredConfig, config: Mapping[str, str]) -> bool:
        """Write and notify; False where it has changed since it was read, or its topic is gone."""
        ...

    def notify_config(self, entity: str) -> None:
        """Notify alone."""
        ...
