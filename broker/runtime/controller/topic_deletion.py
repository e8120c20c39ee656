"""Deleting topics: every replica gets StopReplica with the deletion of its log, and when all have done it, the znodes
are removed.

A replica on a broker that is down is waited for: its log would otherwise come back with it. Before a topic's name is
free, requests for it by that name (elections, reassignments) are withdrawn.

A deletion is asked for by a mark of the topic's name. Where it was asked for by the topic's id (KIP-516), which Kafka's
controllers look up before the mark and forget then, the mark carries that id, and it takes no other topic: a mark whose
id is not that of the topic's znode when the deletion begins is dropped. From there on the name is this topic's until
the controller itself removes the znode, and the mark with it. A deletion is over when the topic of its id is gone:
where ZooKeeper refuses its end, all is read and begun anew. Belongs to the controller's thread.
Source: kafka.controller.TopicDeletionManager.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.controller.reassignment import withdraw
from broker.runtime.controller.state_writer import PartitionStateWriter

_log = logging.getLogger("broker.controller")

Replica = tuple[TopicPartition, BrokerId]


@dataclass
class _Deletion:
    """Of the topic of this id; replicas: those that have yet to be deleted."""

    topic_id: str
    replicas: set[Replica]


class TopicDeletion:
    """The deletions under way, by topic."""

    def __init__(self, writer: PartitionStateWriter, enabled: bool) -> None:
        self._writer = writer
        self.enabled = enabled
        self._open: dict[str, _Deletion] = {}
        self._ended: dict[str, str] = {}
        """Ids by name of topics that are gone and of which `finish` has not told yet; outlives a reload."""

    def sift(self, requested: AbstractSet[str], anew: bool = False) -> tuple[AbstractSet[str], bool]:
        """Of these the ones to carry out: without those that were taken back, and without those that ask by id for
        another topic than the one of this name, whose marks are dropped.

        And whether this term has another topic of such a name than ZooKeeper: whatever is asked for, by id or by name,
        can be done when everything was read again, and is left out here. Brokers would delete the logs of the topic
        that the term knows, and ZooKeeper the znodes of the other. anew: as in `load`.
        """
        state = self._writer.state
        begin = requested if anew else requested - self._open.keys()
        marks = self._writer.store.asked_ids(begin)
        others = set(begin - marks.keys())
        outdated = False
        for topic, (asked, found) in marks.items():
            known = state.topics.get(topic)
            if found is not None and known is not None and found != known.topic_id:
                outdated = True
            elif asked is None or asked == found or (found is None and known is None):
                continue  # Without a topic the end of it is left to do.
            else:
                _log.warning("topic %s is not deleted: id %s was asked for, and it has %s", topic, asked, found)
                self._drop(topic)
            others.add(topic)
        return requested - others, outdated

    def load(self, requested: AbstractSet[str], anew: bool = False) -> None:
        """Begin the deletions that are requested and not under way. anew: none is under way, for all was read again.

        requested: what `sift` has left.
        """
        state = self._writer.state
        for topic in self._open.keys() - (frozenset() if anew else requested):
            # Done already, though ZooKeeper's response was lost; the topic that has the name by now is another.
            del self._open[topic]
        # The controller before may have ended after it removed the topic's znodes and before it removed this mark.
        self._withdraw_requests(requested - self._open.keys() - state.topics.keys())
        for topic in sorted(requested - self._open.keys()):
            if not self.enabled or topic not in state.topics:
                self._drop(topic)
                state.deleting.discard(topic)
                continue
            _log.info("deleting topic %s", topic)
            state.deleting.add(topic)
            found = state.topics[topic]
            replicas = {
                (TopicPartition(topic, partition), broker)
                for partition, assigned in found.partitions.items()
                for broker in {*assigned, *found.removing.get(partition, ())}
            }
            self._open[topic] = _Deletion(found.topic_id, replicas)
        self.resume()

    def _drop(self, topic: str) -> None:
        """Remove a mark. One that has taken its place since is looked at next: no watch says that it is there."""
        if not self._writer.store.drop_deletion(self._writer.term, topic):
            self._writer.watches.deletions()

    def resume(self) -> None:
        """Send StopReplica for what is not deleted yet to all live brokers; a second one is harmless."""
        if not self._open:
            return
        state = self._writer.state
        batch = self._writer.new_batch()
        for deletion in self._open.values():
            for topic_partition, broker in deletion.replicas:
                batch.stop_replica(broker, topic_partition, delete=True)
        deleting = [topic_partition for topic_partition in state.states if topic_partition.topic in self._open]
        batch.metadata(state.brokers, deleting)
        self._writer.send(batch)

    def replicas_deleted(self, broker: BrokerId, deleted: Iterable[TopicPartition]) -> None:
        """Note what a broker deleted."""
        for topic_partition in deleted:
            if (deletion := self._open.get(topic_partition.topic)) is not None:
                deletion.replicas.discard((topic_partition, broker))

    def finish(self) -> dict[str, str]:
        """Remove the znodes of the topics that have no replica left, and forget them; returns their ids by name.

        Raises StoreUnavailable where one may still be there: it is begun anew when all was read again. Those that ended
        before it are told by the next call.
        """
        finished = {topic: deletion.topic_id for topic, deletion in self._open.items() if not deletion.replicas}
        # Here too, though they were withdrawn when the deletion began: a tool may have written a request since that was
        # not handled.
        self._withdraw_requests(frozenset(finished))
        for topic, topic_id in finished.items():
            # First: where ZooKeeper's response is lost, the next topic of this name may be there before all is read.
            del self._open[topic]
            self._writer.store.finish_deletion(self._writer.term, topic, topic_id)
            self._writer.forget_topic(topic)
            self._ended[topic] = topic_id
            _log.info("topic %s is deleted", topic)
        ended, self._ended = self._ended, {}
        return ended

    def _withdraw_requests(self, topics: AbstractSet[str]) -> None:
        if topics:
            withdraw(self._writer, lambda topic_partition, target: topic_partition.topic in topics)
