"""What the log cleaner has to know of replicas: how far a log is committed, and which producers still write to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import CorruptLog
from broker.runtime.replicas.replicas import Replicas

_logger = logging.getLogger(__name__)


class CleanableReplicas:
    """The replicas of one broker. Implements `broker.log.cleaner.schedule.Replicas`."""

    def __init__(self, replicas: Replicas, is_moving: Callable[[TopicPartition], bool]) -> None:
        """is_moving: its log is being copied to another log dir, and must not lose records meanwhile."""
        self._replicas = replicas
        self._is_moving = is_moving

    def last_stable_offset(self, topic_partition: TopicPartition) -> Offset | None:
        """None where the broker has no such replica, or its log is offline or moving: it is not cleaned."""
        replica = self._replicas.by_partition.get(topic_partition)
        if replica is None or replica.offline or self._is_moving(topic_partition):
            return None
        return replica.last_stable_offset

    def active_producers(self, topic_partition: TopicPartition) -> Mapping[int, Offset]:
        """Last offset by producer id: a cleaning keeps these batches, so that sequences stay known."""
        replica = self._replicas.by_partition.get(topic_partition)
        if replica is None:
            return {}
        return {pid: entry.batches[-1].last_offset for pid, entry in replica.log.producers if entry.batches}

    def marked_producers(self, topic_partition: TopicPartition) -> Mapping[int, int]:
        """Epoch by producer id, of those without batches: a cleaning keeps a marker of it, so that it stays known."""
        replica = self._replicas.by_partition.get(topic_partition)
        if replica is None:
            return {}
        return {pid: entry.epoch for pid, entry in replica.log.producers if not entry.batches}

    def on_damage(self, damage: CorruptLog) -> None:
        """The replica goes offline, to be fetched anew. A leader that is the whole ISR is served on: nobody could lead
        in its place, nor give it back what is damaged.
        """
        replica = self._replicas.by_partition.get(damage.topic_partition)
        if replica is None:
            return
        role = replica.leader
        if role is not None and role.isr.committed == {self._replicas.broker_id}:
            _logger.error("%s: served on, for nobody else is in sync: %s", replica.name, damage)
            return
        self._replicas.take_offline(replica, damage)
