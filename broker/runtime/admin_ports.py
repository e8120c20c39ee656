"""What administration needs of ZooKeeper, as Protocols. Blocking; worker thread; methods raise StoreUnavailable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from broker.core.cluster_state import Topic

CHANGES_KEPT = 1000
"""Notifications of changed settings that are kept."""


class StoredTopic(NamedTuple):
    """A topic and the bytes and version that it was read from."""

    topic: Topic
    data: bytes
    version: int


class StoredConfig(NamedTuple):
    """An entity's overrides and the bytes and version that they were read from; data None: there is no znode."""

    entity: str
    config: Mapping[str, str]
    data: bytes | None
    version: int


class PartitionStore(Protocol):
    """Topics, to add partitions."""

    def read_topic(self, name: str) -> StoredTopic | None: ...

    def write_topic(self, read: StoredTopic, topic: Topic) -> bool:
        """False when it is not as it was read any more."""
        ...

    def being_deleted(self, name: str) -> bool: ...


class ConfigStore(Protocol):
    """Settings of entities, `topics/t` or `brokers/1`, to change them."""

    def read_config(self, entity: str) -> StoredConfig: ...

    def write_config(self, read: StoredConfig, config: Mapping[str, str]) -> bool:
        """Write and notify; False when it is not as it was read any more, or its topic is gone."""
        ...

    def notify_config(self, entity: str) -> None:
        """Notify alone."""
        ...
