"""What administration needs of ZooKeeper, as Protocols. Blocking; worker thread; methods raise StoreUnavailable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from broker.core.admin.stored import StoredConfig, StoredTopic
from broker.core.controller.cluster_state import Topic


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
