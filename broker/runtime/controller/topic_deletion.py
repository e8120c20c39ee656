"""Deleting topics: every replica gets StopReplica with the deletion of its log, and when all have done it, the znodes
are removed.

A replica on a broker that is down is waited for: its log would otherwise come back with it. Before a topic's name is
free, requests for it by that name (elections, reassignments) are withdrawn. Belongs to the controller's thread.
Source: kafka.controller.TopicDeletionManager.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.controller.reassignment import withdraw
from broker.runtime.controller.state_writer import PartitionStateWriter

_log = logging.getLogger("broker.controller")

Replica = tuple[TopicPartition, BrokerId]


class TopicDeletion:
    """Replicas that have yet to be deleted, by topic."""

    def __init__(self, writer: PartitionStateWriter, enabled: bool) -> None:
        self._writer = writer
        self.enabled = enabled
        self._open: dict[str, set[Replica]] = {}

    def load(self, requested: AbstractSet[str], anew: bool = False) -> None:
        """Begin the deletions that are requested and not under way. anew: none is under way, for all was read again."""
        state = self._writer.state
        for topic in self._open.keys() - (frozenset() if anew else requested):
            # Done already, though ZooKeeper's response was lost; the topic that has the name by now is another.
            del self._open[topic]
        # The controller before may have ended after it removed the topic's znodes and before it removed this mark.
        self._withdraw_requests(requested - self._open.keys() - state.topics.keys())
        for topic in sorted(requested - self._open.keys()):
            if not self.enabled or topic not in state.topics:
                self._writer.store.drop_deletion(self._writer.term, topic)
                state.deleting.discard(topic)
                continue
            _log.info("deleting topic %s", topic)
            state.deleting.add(topic)
            self._open[topic] = {
                (TopicPartition(topic, partition), broker)
                for partition, replicas in state.topics[topic].partitions.items()
                for broker in {*replicas, *state.topics[topic].removing.get(partition, ())}
            }
        self.resume()

    def resume(self) -> None:
        """Send StopReplica for what is not deleted yet to all live brokers; a second one is harmless."""
        if not self._open:
            return
        state = self._writer.state
        batch = self._writer.new_batch()
        for replicas in self._open.values():
            for topic_partition, broker in replicas:
                batch.stop_replica(broker, topic_partition, delete=True)
        deleting = [topic_partition for topic_partition in state.states if topic_partition.topic in self._open]
        batch.metadata(state.brokers, deleting)
        self._writer.send(batch)

    def replicas_deleted(self, broker: BrokerId, deleted: Iterable[TopicPartition]) -> None:
        """Note what a broker deleted."""
        for topic_partition in deleted:
            self._open.get(topic_partition.topic, set()).discard((topic_partition, broker))

    def finish(self) -> list[str]:
        """Remove the znodes of the topics that have no replica left; returns these topics."""
        finished = [topic for topic, missing in self._open.items() if not missing]
        # Here too, though they were withdrawn when the deletion began: a tool may have written a request since that was
        # not handled.
        self._withdraw_requests(frozenset(finished))
        for topic in finished:
            self._writer.store.finish_deletion(self._writer.term, topic)
            del self._open[topic]
            _log.info("topic %s is deleted", topic)
        return finished

    def _withdraw_requests(self, topics: AbstractSet[str]) -> None:
        if topics:
            withdraw(self._writer, lambda topic_partition, target: topic_partition.topic in topics)
