"""What the cleaner has to know of its surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from broker.log.log import PartitionLog
from broker.model.ids import Offset, TopicPartition


class Replicas(Protocol):
    """What replication knows of a log."""

    def last_stable_offset(self, topic_partition: TopicPartition) -> Offset | None:
        """None: not known, or offline; then nothing is cleaned."""
        ...

    def active_producers(self, topic_partition: TopicPartition) -> Mapping[int, Offset]:
        """Producer id → last offset of its newest batch."""
        ...

    def marked_producers(self, topic_partition: TopicPartition) -> Mapping[int, int]:
        """Producer id → epoch, where no batch is known, but a marker."""
        ...


class Store(Protocol):
    """All logs of the broker."""

    def logs(self) -> Mapping[TopicPartition, PartitionLog]: ...
