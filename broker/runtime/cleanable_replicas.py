"""What the log cleaner has to know of replicas: how far a log is committed, and which producers still write to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.runtime.ports import Offset, TopicPartition

if TYPE_CHECKING:
    from broker.runtime.replica_manager import ReplicaManager


class CleanableReplicas:
    """The replicas of one broker. Implements `broker.log.cleaner_schedule.Replicas`."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    def last_stable_offset(self, topic_partition: TopicPartition) -> Offset | None:
        replica = self._manager.replicas.get(topic_partition)
        if replica is None or replica.offline:
            return None
        return replica.last_stable_offset

    def active_producers(self, topic_partition: TopicPartition) -> Mapping[int, Offset]:
        replica = self._manager.replicas.get(topic_partition)
        if replica is None:
            return {}
        return {pid: entry.batches[-1].last_offset for pid, entry in replica.producers if entry.batches}
