"""One controllership, from loading the cluster's state to losing the epoch: events in, writes and requests out.

Belongs to the controller's thread. `broker.core.controller.decisions` decides; `PartitionStateWriter` writes what is
decided and sends it to the brokers. Requests and events that need more than a decision have parts of their own:
suspicions, brokers that shut down, ISR changes, deletions, administration. Raises ControllerMoved and StoreUnavailable,
after which the term is resigned or loaded again: `load` may be called any number of times.
Source: kafka.controller.KafkaController.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial

from broker.core.controller import decisions as rules
from broker.core.controller import elr, suspicion
from broker.core.controller.cluster_state import NO_LEADER, ClusterState
from broker.core.controller.stored import Term
from broker.model.ids import BrokerId, Epoch, TopicPartition
from broker.runtime.controller.admin_operations import ControllerAdmin
from broker.runtime.controller.alter_partition import IsrChanges
from broker.runtime.controller.controlled_shutdown import ShuttingDownBrokers
from broker.runtime.controller.offline_replicas import OfflineReplicas
from broker.runtime.controller.ports import ControllerStore, Outbox, Watches
from broker.runtime.controller.request_batch import RequestBatch
from broker.runtime.controller.state_writer import PartitionStateWriter
from broker.runtime.controller.suspicions import Suspicions
from broker.runtime.controller.topic_deletion import TopicDeletion
from broker.runtime.controller.topic_loader import TopicLoader

_log = logging.getLogger("broker.controller")


class ControllerTerm:
    """See the module. `state` is what ZooKeeper holds, as far as this term knows."""

    def __init__(
        self,
        term: Term,
        broker_id: BrokerId,
        store: ControllerStore,
        outbox: Outbox,
        watches: Watches,
        unclean_default: bool,
        delete_enabled: bool,
        new_topic_id: Callable[[], str],
        min_isr_default: int = 1,
        known_topic_id: Callable[[str], str] = lambda topic: "",
    ) -> None:
        self.term = term
        self._store = store
        self._outbox = outbox
        self._watches = watches
        self._unclean_default = unclean_default
        self._min_isr_default = min_isr_default
        self._judged: dict[BrokerId, int] = {}
        """Broker epochs up to which every end is written into the partition states; outlives a reload, for it is not
        read from anywhere."""
        self.loaded = False
        """Whether `state` is what ZooKeeper holds. Once a load broke off, or an event failed half-way, nobody knows,
        and nothing may be decided on it.
        """
        self._writer = writer = PartitionStateWriter(term, broker_id, store, outbox, watches)
        self._topics = TopicLoader(writer, new_topic_id, known_topic_id)
        self._deletion = TopicDeletion(writer, delete_enabled)
        self.suspicions = Suspicions(writer)
        self.shutting_down_brokers = ShuttingDownBrokers(writer)
        self.isr_changes = IsrChanges(writer)
        self.offline_replicas = OfflineReplicas(writer)
        self.admin = ControllerAdmin(writer, self.load)

    @property
    def state(self) -> ClusterState:
        """The cluster as ZooKeeper holds it, as far as this term knows."""
        return self._writer.state

    # Loading

    def load(self) -> None:
        """Read everything, elect where leaders are gone, and send every broker all that concerns it."""
        state = ClusterState(unclean_default=self._unclean_default, min_isr_default=self._min_isr_default)
        state.brokers = dict(self._store.brokers(self._watches.brokers))
        # In this order, for a deletion is requested after its topic was created.
        marked = self._store.deletions(self._watches.deletions)
        names = self._store.topic_names(self._watches.topics)
        # Every broker is sent everything below, and its response says what it cannot use.
        failed_dirs = self._store.take_log_dir_events(self.term, self._watches.log_dirs)
        self.loaded = False
        self._writer.state = state
        self.isr_changes.unsent.clear()
        self._topics.load(names)
        deletions, outdated = self._deletion.sift(marked, anew=True)
        if outdated:
            self._watches.deletions()
        # Where deletion is not enabled the request is dropped below, and the topic lives.
        state.deleting = set(deletions & state.topics.keys()) if self._deletion.enabled else set()
        partitions = dict(state.partitions())
        read = self._store.states(list(partitions))
        stored = read.found
        state.unreadable = set(read.malformed)
        # A reload may come before the end of one of these was written.
        ended = {b for b, epoch in self._judged.items() if b in state.brokers and state.brokers[b].epoch != epoch}
        since = {
            topic_partition: rules.registered_since(
                found.state, found.written, partitions[topic_partition], state.brokers
            )
            | ended.intersection(partitions[topic_partition])
            for topic_partition, found in stored.items()
        }
        state.states = {
            topic_partition: rules.with_isr_epochs(found.state, since[topic_partition], state.brokers)
            for topic_partition, found in stored.items()
        }
        self.admin.load()
        self._outbox.set_brokers(state.brokers.values())
        self.shutting_down_brokers.load(state)
        self.suspicions.load(state)
        batch = self._writer.new_batch(addresses_first=True)
        # The minimum may have been lowered while nobody, or another, was controller. This comes first: a lower minimum
        # voids ELRs, and an election must not choose from those.
        self._drop_void_elrs(batch)
        self._writer.settle(lambda: rules.failover(state, since, self.term.epoch), batch, forget=since)
        self._judged = {broker.id: broker.epoch for broker in state.brokers.values()}
        # Not earlier: from here on the states that were written say which replicas stopped without a controller's
        # notice.
        self.loaded = True
        for broker in state.suspected:
            self._writer.settle(partial(suspicion.suspected, state, broker, self.term.epoch), batch)
        for broker in state.brokers:
            # The controller that created a new partition may have gone before it sent LeaderAndIsr.
            self._add_everything(broker, batch, may_be_new=broker not in failed_dirs)
        self._writer.send(batch)
        _log.info(
            "controller epoch %d: %d brokers, %d topics, %d partitions",
            self.term.epoch,
            len(state.brokers),
            len(state.topics),
            len(partitions),
        )
        self._deletion.load(deletions, anew=True)
        self.admin.loaded()
        self._store.forget_notes(self.term, state.brokers)

    def _drop_void_elrs(self, batch: RequestBatch) -> None:
        """In all topics: where the minimum is lower than the one that made them."""
        state = self.state
        for topic in {topic_partition.topic for topic_partition, current in state.states.items() if current.elr}:
            self._writer.settle(partial(rules.drop_elrs, state, topic, self.term.epoch), batch)

    def _add_everything(self, broker: BrokerId, batch: RequestBatch, may_be_new: bool = False) -> None:
        """All metadata, and all replicas of this broker as its whole list.

        may_be_new: whether partitions whose state was not written since it was made count as new, because the broker
        may never have received them. Only those with a leader: where nobody leads, a log that is missing now was lost,
        and its broker has to report that. Nor is a partition new that was there before its topic got its present id.
        With a topic or state that could not be read neither list is whole, and must not be marked so: brokers remove
        what a whole list does not name, and forget the topics that whole metadata do not name. A broker that shuts down
        has no roles but the leaderships that remain.
        """
        batch.metadata((broker,), self.state.states)
        if not self._topics.malformed and not self.state.unreadable:
            batch.all_metadata(broker)
        own = self.state.partitions_of((broker,))
        if broker in self.state.shutting_down:
            own = [tp for tp in own if tp in self.state.states and self.state.states[tp].leader == broker]
        if not self._topics.malformed and self.state.unreadable.isdisjoint(own):
            batch.all_roles(broker)
        for topic_partition in own:
            if topic_partition in self.state.states and topic_partition.topic not in self.state.deleting:
                current = self.state.states[topic_partition]
                is_new = (
                    may_be_new
                    and current.partition_epoch == 0
                    and current.leader != NO_LEADER
                    and self.state.topics[topic_partition.topic].topic_id not in self._topics.old
                )
                batch.roles((broker,), topic_partition, is_new)
                self._writer.request_report(broker, topic_partition, batch)
        self.admin.add_everything(broker, batch)

    # Events

    def brokers_changed(self) -> None:
        """Compare registrations: failures first, as one batch, then starts."""
        state = self.state
        found = self._store.brokers(self._watches.brokers)
        difference = rules.compare_brokers(state.brokers, found)
        if difference.failed:
            _log.info("brokers failed: %s", sorted(difference.failed))
            for broker in difference.failed:
                state.forget_broker(broker)
            self._outbox.set_brokers(list(state.brokers.values()))
            batch = self._writer.new_batch()
            failed = difference.failed
            self._writer.settle(lambda: rules.brokers_failed(state, failed, self.term.epoch), batch)
            for broker in failed:
                self._judged.pop(broker, None)
            batch.metadata(state.brokers, state.partitions_of(failed))
            self._writer.send(batch)
        if difference.started or difference.updated:
            _log.info("brokers started: %s", sorted(difference.started | difference.updated))
            for broker in difference.started | difference.updated:
                state.brokers[broker] = found[broker]
                self._judged[broker] = found[broker].epoch
            self._outbox.set_brokers(list(state.brokers.values()))
            batch = self._writer.new_batch(addresses_first=True)
            batch.metadata(state.brokers, state.partitions_of(difference.started))
            self._writer.settle(lambda: rules.elect_offline(state, self.term.epoch), batch)
            for broker in difference.started | difference.updated:
                self._add_everything(broker, batch)
            self._writer.send(batch)
            self._deletion.resume()
        if state.unreadable and self._store.states(sorted(state.unreadable)).found:
            # Somebody has repaired a state. It is judged as at the start of a term.
            self.load()
        self._look_for_repaired_topics()

    def topics_changed(self) -> None:
        """New topics get leaders; topics that vanished are forgotten.

        A topic that is not new, and could not be decoded until now, is judged as at the start of a term.
        """
        state = self.state
        names = self._store.topic_names(self._watches.topics)
        for gone in state.topics.keys() - names:
            self._writer.forget_topic(gone)
        added = names - state.topics.keys()
        if added:
            self._topics.read(added)
            new = [topic_partition for topic_partition, _ in state.partitions() if topic_partition.topic in added]
            if not self._writer.take_up(new):
                self.load()

    def topics_rewritten(self, names: AbstractSet[str]) -> None:
        """These topics' znodes were written."""
        unknown = names - self.state.topics.keys()
        self.admin.topics_rewritten(names - unknown)
        if unknown:
            self._look_for_repaired_topics()

    def _look_for_repaired_topics(self) -> None:
        if self._topics.malformed:
            self.topics_changed()

    def deletions_changed(self) -> None:
        """Topics were marked for deletion in `/admin/delete_topics`: begin to delete them."""
        requested = self._store.deletions(self._watches.deletions)
        if requested - self.state.topics.keys():
            # Created and deleted in a row: of two watches that fire, either may be handled first.
            self.topics_changed()
        wanted, outdated = self._deletion.sift(requested)
        if outdated:
            self.load()
        else:
            self._deletion.load(wanted)

    def replicas_deleted(self, broker: BrokerId, deleted: list[TopicPartition]) -> None:
        """A broker has deleted replicas: of topics being deleted, or of ended reassignments."""
        self._deletion.replicas_deleted(broker, deleted)
        self.admin.replicas_deleted(broker, deleted)

    def finish_deletions(self) -> dict[str, str]:
        """Topics whose last replica is gone are removed; returns their ids by name."""
        return self._deletion.finish()

    def log_dirs_changed(self) -> None:
        """Learn which replicas are on failed files of these brokers: their responses to LeaderAndIsr say it by
        partition.
        """
        for broker in self._store.take_log_dir_events(self.term, self._watches.log_dirs):
            if broker in self.state.brokers:
                self.send_everything(broker)

    def names_of(self, topic_ids: Iterable[str]) -> dict[str, str]:
        """The names of those of these topics that there are, also of such that are being deleted, by id."""
        names = self._writer.topic_names
        return {id_: names[id_] for id_ in topic_ids if id_ in names}

    def named(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        """Of these, (topic id, index), the partitions of topics that there still are."""
        names = self._writer.topic_names
        return [TopicPartition(names[id_], index) for id_, index in partitions if id_ in names]

    def epochs_refused(self, broker: BrokerId, broker_epoch: int, refused: Iterable[tuple[str, int, Epoch]]) -> None:
        """A new leader epoch, and a leader if need be, where a broker refuses the one that LeaderAndIsr had."""
        state = self.state
        if not state.is_registered(broker, broker_epoch):
            return
        names = self._writer.topic_names
        sent = {TopicPartition(names[id_], i): epoch for id_, i, epoch in refused if id_ in names}
        if self._writer.settle_and_send(lambda: rules.epochs_refused(state, sent, broker, self.term.epoch)):
            _log.warning(
                "broker %d takes no role in %s under the epochs it was sent", broker, ", ".join(map(str, sent))
            )

    def replicas_reported(
        self,
        broker: BrokerId,
        broker_epoch: int,
        reports: Mapping[TopicPartition, elr.ReplicaReport],
        request_epochs: Mapping[TopicPartition, Epoch],
    ) -> None:
        """A broker has reported on its logs: partitions without a leader may get one, or a warning says which brokers
        are awaited.

        request_epochs: the leader epochs when the reports were requested. A report that came too late is requested
        again.
        """
        state = self.state
        if not state.is_registered(broker, broker_epoch):
            return
        state.take_reports(broker, reports, request_epochs)
        batch = self._writer.new_batch()
        self._writer.settle(lambda: rules.elect_offline(state, self.term.epoch), batch)
        for topic_partition in reports.keys() & state.states.keys():
            if broker in state.replicas(topic_partition):
                self._writer.request_report(broker, topic_partition, batch)
        self._writer.send(batch)
        for topic_partition, report in reports.items():
            if report.unclean:
                self._warn_of_wait(topic_partition, broker)

    def _warn_of_wait(self, topic_partition: TopicPartition, broker: BrokerId) -> None:
        """An operator has to know why a partition has no leader although a replica is there."""
        state = self.state
        current = state.states.get(topic_partition)
        if current is not None and current.leader == NO_LEADER:
            replicas, live = state.replicas(topic_partition), state.live_for(topic_partition)
            _log.warning(
                "%s stays without a leader: broker %d stopped uncleanly and may lack acknowledged records; awaited are "
                "brokers %s; unclean.leader.election.enable=true on the topic ends the wait, at the price of records",
                topic_partition,
                broker,
                list(elr.awaited(replicas, live, state.report_of(topic_partition))),
            )

    def topic_config_changed(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Where unclean election is allowed now, partitions without a leader get one at once; a smaller minimum voids
        the ELRs made under the larger one.
        """
        if topic in self.state.topics:
            self._topics.note_config(topic, overrides)
            batch = self._writer.new_batch()
            self._writer.settle(lambda: rules.drop_elrs(self.state, topic, self.term.epoch), batch)
            if self.state.unclean_allowed(topic):
                self._writer.settle(lambda: rules.elect_offline(self.state, self.term.epoch), batch)
            self._writer.send(batch)
        else:
            self._look_for_repaired_topics()

    def defaults_changed(self, unclean: bool, min_isr: int) -> None:
        """The same for all topics that have no setting of their own."""
        state = self.state
        if (unclean, min_isr) == (self._unclean_default, self._min_isr_default):
            return
        self._unclean_default = state.unclean_default = unclean
        self._min_isr_default = state.min_isr_default = min_isr
        batch = self._writer.new_batch()
        self._drop_void_elrs(batch)
        if unclean:
            self._writer.settle(lambda: rules.elect_offline(state, self.term.epoch), batch)
        self._writer.send(batch)

    def send_everything(self, broker: BrokerId) -> None:
        """For a broker whose queue was given up."""
        batch = self._writer.new_batch(addresses_first=True)
        self._add_everything(broker, batch)
        self._writer.send(batch)
        self._deletion.resume()

    def flush_metadata(self) -> None:
        """Tell all brokers of ISR changes since the last flush, and take the steps that these allow."""
        self.admin.advance()
        unsent = self.isr_changes.unsent
        if unsent:
            batch = self._writer.new_batch()
            batch.metadata(self.state.brokers, unsent)
            unsent.clear()
            self._writer.send(batch)
