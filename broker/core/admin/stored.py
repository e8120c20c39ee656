"""What administration reads from ZooKeeper and writes back only where nothing has changed since, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.core.controller.cluster_state import Topic

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
