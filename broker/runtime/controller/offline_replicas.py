"""Replicas that their live brokers cannot use: what becomes of them when they fail, and when they are usable again.

A broker says both in its response to LeaderAndIsr. One that took up the role of a follower has files, be it because its
damaged log was thrown away: it may lead again, before it is in sync, where an election waits for every replica. Nothing
follows from a response about a leader, or about no leader: a replica that fails whenever it is to lead would be elected
without end. Belongs to the controller's thread.
Source: KafkaController.processLeaderAndIsrResponseReceived (replicasOnOfflineDirs).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.core.controller import decisions as rules
from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.controller.state_writer import PartitionStateWriter

_log = logging.getLogger("broker.controller")


class OfflineReplicas:
    """Keeps `ClusterState.offline`."""

    def __init__(self, writer: PartitionStateWriter) -> None:
        self._writer = writer

    def failed(self, broker: BrokerId, broker_epoch: int, failed: Iterable[TopicPartition]) -> None:
        """Take leadership and ISR places from replicas that their live broker cannot use."""
        writer = self._writer
        state = writer.state
        if not state.is_registered(broker, broker_epoch):
            return
        news = [topic_partition for topic_partition in failed if (topic_partition, broker) not in state.offline]
        if not news:
            return
        _log.warning("broker %d cannot use its replicas of %s", broker, ", ".join(map(str, news)))
        state.offline.update((topic_partition, broker) for topic_partition in news)
        batch = writer.new_batch()
        writer.settle(lambda: rules.replicas_failed(state, news, broker, writer.term.epoch), batch)
        batch.metadata(state.brokers, news)
        writer.send(batch)

    def usable(self, broker: BrokerId, broker_epoch: int, usable: Iterable[TopicPartition]) -> None:
        """Replicas that failed follow a leader: they may be elected, and count as there."""
        writer = self._writer
        state = writer.state
        if not state.is_registered(broker, broker_epoch):
            return
        news = [topic_partition for topic_partition in usable if (topic_partition, broker) in state.offline]
        if not news:
            return
        _log.info("broker %d can use its replicas of %s again", broker, ", ".join(map(str, news)))
        state.offline.difference_update((topic_partition, broker) for topic_partition in news)
        batch = writer.new_batch()
        writer.settle(lambda: rules.elect_offline(state, writer.term.epoch), batch)
        batch.metadata(state.brokers, news)
        writer.send(batch)
