"""What the parts of a controller's term share: its store, its state, how decisions are written and sent.

A decision is written (conditional on the controller epoch and the partition epoch), applied to the state as written,
and sent to the brokers, in that order. Where another writer changed a state meanwhile, the term reads that state and
decides anew. Belongs to the controller's thread. Everything here raises ControllerMoved and StoreUnavailable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from broker.core.controller import decisions as rules
from broker.core.controller.cluster_state import NO_LEADER, ClusterState, StoreUnavailable, Topic
from broker.core.controller.stored import StateWrite, Term
from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.controller.ports import ControllerStore, Outbox, Watches
from broker.runtime.controller.request_batch import RequestBatch

_log = logging.getLogger("broker.controller")

_DECIDE_MAX = 5


class PartitionStateWriter:
    """state: what ZooKeeper holds, as far as this term knows; loading replaces it. topic_names: by topic id."""

    def __init__(
        self, term: Term, broker_id: BrokerId, store: ControllerStore, outbox: Outbox, watches: Watches
    ) -> None:
        self.term = term
        self.store = store
        self.outbox = outbox
        self.watches = watches
        self.state = ClusterState()
        self.topic_names: dict[str, str] = {}
        self._broker_id = broker_id

    def new_batch(self, addresses_first: bool = False) -> RequestBatch:
        """An empty batch of this term. addresses_first: UpdateMetadata before LeaderAndIsr."""
        return RequestBatch(self._broker_id, self.term.epoch, addresses_first)

    def send(self, batch: RequestBatch) -> None:
        """Hand the batch's requests to the channels, made from the state as it is now."""
        self.outbox.send(batch.encode(self.state))

    def with_topic_id(self, topic: Topic, topic_id: str) -> Topic:
        """The topic and its znode under this id, if they have none. Where the znode cannot be written, whoever wrote it
        meanwhile has fired its watch.
        """
        if topic.topic_id or not topic_id:
            return topic
        return self.store.assign_topic_id(self.term, topic.name, topic_id) or replace(topic, topic_id=topic_id)

    def settle(
        self,
        decide: Callable[[], list[rules.Change]],
        batch: RequestBatch,
        forget: dict[TopicPartition, set[BrokerId]] | None = None,
    ) -> bool:
        """Decide, write, apply; again for what others wrote meanwhile. True when something changed.

        forget: brokers by partition, as evidence against the state that was read; an entry is removed once its state is
        written.
        """
        changed = False
        for _ in range(_DECIDE_MAX):
            changes = decide()
            if not changes:
                return changed
            changed = True
            writes = [
                StateWrite(
                    change.topic_partition,
                    change.before,
                    self.state.completed(change.topic_partition, change.before, change.after),
                )
                for change in changes
            ]
            written = self.store.write_states(self.term, writes)
            conflicts = []
            for change in changes:
                now = written[change.topic_partition]
                if now is None:
                    conflicts.append(change.topic_partition)
                    continue
                self.state.states[change.topic_partition] = now
                if forget is not None:
                    forget.pop(change.topic_partition, None)
                self.announce(change, batch)
            self.reread(conflicts)
            for topic_partition in self.state.states.keys() & set(conflicts):
                # The state read may be this term's own write, whose response was lost: no broker has it yet.
                replicas = self.state.replicas(topic_partition)
                batch.roles(replicas, topic_partition)
                batch.metadata(self.state.brokers, (topic_partition,))
                for replica in replicas:
                    self.request_report(replica, topic_partition, batch)
        raise StoreUnavailable(f"partition states changed under the controller {_DECIDE_MAX} times in a row")

    def settle_and_send(self, decide: Callable[[], list[rules.Change]]) -> bool:
        """As `settle`, and sends the result to the brokers."""
        batch = self.new_batch()
        changed = self.settle(decide, batch)
        self.send(batch)
        return changed

    def take_up(self, new: Sequence[TopicPartition]) -> bool:
        """First states for partitions that this term did not know.

        False where some have states already. Their brokers may have restarted since these were written, and no broker
        was sent them: the caller has to load the term anew, which sees to both.
        """
        found, malformed = self.store.states(new)
        if found or malformed:
            return False
        self.settle_and_send(lambda: rules.elect_offline(self.state, self.term.epoch))
        return True

    def announce(self, change: rules.Change, batch: RequestBatch) -> None:
        """Add a change that is written and applied to the batch, and to the event log."""
        topic_partition = change.topic_partition
        now = self.state.states[topic_partition]
        self.outbox.emit(
            "election",
            of=(*topic_partition, self.state.topics[topic_partition.topic].topic_id),
            ce=self.term.epoch,
            le=now.leader_epoch,
            pe=now.partition_epoch,
            leader=now.leader,
            isr=list(now.isr),
            reason=change.reason,
        )
        if change.reason == rules.LONGEST_LOG:
            self._warn_of_longest_log(topic_partition, now.leader)
        replicas = self.state.replicas(topic_partition)
        shutting_down = self.state.shutting_down.intersection(replicas) - {now.leader}
        batch.roles([r for r in replicas if r not in shutting_down], topic_partition, is_new=change.before is None)
        if change.before is not None and change.before.leader in shutting_down:
            batch.stop_replica(change.before.leader, topic_partition, delete=False)
        batch.metadata(self.state.brokers, (topic_partition,))
        if now.leader != NO_LEADER:
            self.state.forget_reports(topic_partition)
        for replica in replicas:
            self.request_report(replica, topic_partition, batch)

    def request_report(self, broker: BrokerId, topic_partition: TopicPartition, batch: RequestBatch) -> None:
        """Where nobody leads, an election rests on the replicas' reports on their logs."""
        state = self.state
        if (
            state.states[topic_partition].leader == NO_LEADER
            and broker in state.brokers
            and state.brokers[broker].reports
            and (topic_partition, broker) not in state.reports
        ):
            batch.report(broker, topic_partition)

    def reread(self, partitions: Sequence[TopicPartition]) -> None:
        """Take over what someone else wrote; a state that is gone with its topic is forgotten."""
        if not partitions:
            return
        stored, malformed = self.store.states(partitions)
        for topic_partition in partitions:
            self.state.unreadable.discard(topic_partition)
            if topic_partition in stored:
                state = self.state.states[topic_partition] = stored[topic_partition].state
                if state.leader != NO_LEADER:
                    self.state.forget_reports(topic_partition)
            else:
                self.state.states.pop(topic_partition, None)
        self.state.unreadable |= malformed
        gone = {tp.topic for tp in partitions if tp not in stored} - self.store.topic_names(None)
        for topic in gone:
            self.forget_topic(topic)

    def forget_topic(self, name: str) -> None:
        """Drop a topic, its partitions' states and its id from the term's state."""
        topic = self.state.topics.get(name)
        if topic is not None:
            self.topic_names.pop(topic.topic_id, None)
        self.state.forget_topic(name)

    def _warn_of_longest_log(self, topic_partition: TopicPartition, leader: BrokerId) -> None:
        logs = [
            f"broker {broker}: end {report.end_offset}, last epoch {report.last_epoch}"
            for broker in self.state.replicas(topic_partition)
            if (report := self.state.reports.get((topic_partition, broker))) is not None
        ]
        _log.error(
            "%s: every replica that surely held all committed records stopped uncleanly; broker %d has the longest log "
            "and leads, acknowledged records may be lost (%s)",
            topic_partition,
            leader,
            "; ".join(logs),
        )
