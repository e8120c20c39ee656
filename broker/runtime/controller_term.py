"""One controllership, from loading the cluster's state to losing the epoch: events in, writes and requests out.

Belongs to the controller's thread. The decisions are `broker.core.controller`'s; here they are written (every write
checked against the controller epoch and the partition epoch), applied to the state as written, and told to the brokers,
in that order. A write that met another's is read back and decided anew. Raises ControllerMoved and StoreUnavailable,
after which the term is resigned or loaded again: `load` may be called any number of times.
Source: kafka.controller.KafkaController.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from broker.config import usable_overrides
from broker.core import controller as rules
from broker.core import controller_alter_partition as alter
from broker.core import elr, suspicion
from broker.core.cluster_state import NO_LEADER, Broker, ClusterState, StoreUnavailable, Topic
from broker.runtime import controller_isr
from broker.runtime.controller_admin import ControllerAdmin
from broker.runtime.controller_deletion import TopicDeletion
from broker.runtime.controller_ports import ControllerStore, StateWrite, Term, Watch
from broker.runtime.controller_requests import Outgoing, RequestBatch
from broker.runtime.controller_tools import TermTools
from broker.runtime.ports import BrokerId, Epoch, TopicPartition
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from broker.wire.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition

_log = logging.getLogger("broker.controller")

_DECIDE_MAX = 5
UNCLEAN_ELECTION = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"


class Outbox(Protocol):
    """Hands over to the loop; what is handed over first happens first."""

    def set_brokers(self, brokers: Iterable[Broker]) -> None: ...

    def send(self, requests: list[Outgoing]) -> None: ...

    def emit(self, event: str, **fields: object) -> None: ...


class Watches(Protocol):
    """What the term wants to hear of; each is called on a foreign thread and only hands over."""

    @property
    def brokers(self) -> Watch: ...

    @property
    def topics(self) -> Watch: ...

    @property
    def deletions(self) -> Watch: ...

    @property
    def log_dirs(self) -> Watch: ...

    @property
    def elections(self) -> Watch: ...

    @property
    def reassignments(self) -> Watch: ...

    def topic(self, name: str) -> Watch: ...


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
    ) -> None:
        self.term = term
        self._new_topic_id = new_topic_id
        self._min_isr_default = min_isr_default
        self.state = ClusterState(unclean_default=unclean_default, min_isr_default=min_isr_default)
        self._broker_id = broker_id
        self._store = store
        self._outbox = outbox
        self._watches = watches
        self._unclean_default = unclean_default
        self._topic_ids: dict[str, str] = {}
        self._malformed = False
        self._dirty: set[TopicPartition] = set()
        self._suspected: dict[BrokerId, int] = {}
        """Broker epochs of the suspected; outlives a reload, for it is not read from anywhere."""
        self._leaving: dict[BrokerId, int] = {}
        """Broker epochs of those that asked for a controlled shutdown; outlives a reload likewise."""
        self._judged: dict[BrokerId, int] = {}
        """Broker epochs up to which every end is written into the partition states; outlives a reload likewise."""
        self._unnoted: set[BrokerId] = set()
        """Of these, those of which it is not known whether ZooKeeper has the note that they are spent."""
        self._deletion = TopicDeletion(store, term, outbox, self._batch, delete_enabled)
        self.admin = ControllerAdmin(
            TermTools(
                term,
                store,
                outbox,
                watches,
                lambda: self.state,
                self._batch,
                self._settle,
                self._announce,
                self._reread,
                self._forget_topic,
            )
        )

    def _batch(self, addresses_first: bool = False) -> RequestBatch:
        return RequestBatch(self._broker_id, self.term.epoch, addresses_first)

    # Loading

    def load(self) -> None:
        """Read everything, elect where leaders are gone, and tell every broker all that concerns it."""
        state = ClusterState(unclean_default=self._unclean_default, min_isr_default=self._min_isr_default)
        state.brokers = dict(self._store.brokers(self._watches.brokers))
        # In this order, for a deletion is asked for after its topic was created.
        deletions = self._store.deletions(self._watches.deletions)
        names = self._store.topic_names(self._watches.topics)
        # Every broker is told everything below, and answers what it cannot use.
        self._store.take_log_dir_events(self.term, self._watches.log_dirs)
        self.state = state
        self._topic_ids.clear()
        self._malformed = False
        self._dirty.clear()
        self._read_topics(names)
        state.deleting = set(deletions & state.topics.keys())
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
        state.suspected = state.still_registered(self._suspected)
        state.shutting_down = state.still_registered(self._leaving)
        for broker in self._unnoted & state.suspected:
            self._store.spend_suspicion(self.term, broker, self._suspected[broker])
        self._unnoted.clear()
        batch = self._batch(addresses_first=True)
        # The minimum may have been lowered while nobody, or another, was controller: first of all, for an election
        # must not choose from what that voided.
        for topic in {topic_partition.topic for topic_partition, current in state.states.items() if current.elr}:
            self._settle(lambda topic=topic: rules.drop_elrs(state, topic, self.term.epoch), batch)  # type: ignore[misc]
        self._settle(lambda: rules.failover(state, since, self.term.epoch), batch, forget=since)
        self._judged = {broker.id: broker.epoch for broker in state.brokers.values()}
        for broker in state.suspected:
            self._settle(lambda broker=broker: suspicion.suspected(state, broker, self.term.epoch), batch)  # type: ignore[misc]
        for broker in state.brokers:
            self._tell_everything(broker, batch)
        self._outbox.send(batch.encode(state))
        _log.info(
            "controller epoch %d: %d brokers, %d topics, %d partitions",
            self.term.epoch,
            len(state.brokers),
            len(state.topics),
            len(partitions),
        )
        self._deletion.load(state, deletions)
        self.admin.loaded()
        self._store.forget_suspicions(self.term, state.brokers)

    def _read_topics(self, names: Iterable[str]) -> None:
        read = self._store.topics(sorted(names), self._watches.topic)
        self._malformed = self._malformed or bool(read.malformed)
        for name, found in read.topics.items():
            topic = found
            if not topic.topic_id:
                topic = self._store.assign_topic_id(self.term, name, self._new_topic_id()) or topic
            self.state.topics[name] = topic
            self._topic_ids[topic.topic_id] = name
            self._note_config(name, read.configs.get(name, {}))

    def _note_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        # As leaders read them: `+1` is 1 to both, and a value that cannot work is none.
        usable = usable_overrides(topic, overrides)
        if UNCLEAN_ELECTION in usable:
            self.state.unclean[topic] = usable[UNCLEAN_ELECTION].strip().lower() == "true"
        else:
            self.state.unclean.pop(topic, None)
        if MIN_ISR in usable:
            self.state.min_isr[topic] = int(usable[MIN_ISR])
        else:
            self.state.min_isr.pop(topic, None)

    def _tell_everything(self, broker: BrokerId, batch: RequestBatch) -> None:
        """All metadata, and all replicas of this broker as its whole list.

        With a topic or state that could not be read the list is not whole, and must not look so: brokers remove what a
        whole list does not name. One that leaves has no more roles than what it still leads.
        """
        batch.metadata((broker,), self.state.states)
        own = self.state.partitions_of((broker,))
        if broker in self.state.shutting_down:
            own = [tp for tp in own if tp in self.state.states and self.state.states[tp].leader == broker]
        if not self._malformed and self.state.unreadable.isdisjoint(own):
            batch.all_roles(broker)
        for topic_partition in own:
            if topic_partition in self.state.states and topic_partition.topic not in self.state.deleting:
                batch.roles((broker,), topic_partition)
                self._ask_for_report(broker, topic_partition, batch)
        self.admin.tell_everything(broker, batch)

    def _ask_for_report(self, broker: BrokerId, topic_partition: TopicPartition, batch: RequestBatch) -> None:
        """Where nobody leads, an election rests on what the replicas say of their stops."""
        state = self.state
        if (
            state.states[topic_partition].leader == NO_LEADER
            and broker in state.brokers
            and state.brokers[broker].reports
            and (topic_partition, broker) not in state.reports
        ):
            batch.report(broker, topic_partition)

    # Writing what was decided

    def _settle(
        self,
        decide: Callable[[], list[rules.Change]],
        batch: RequestBatch,
        forget: dict[TopicPartition, set[BrokerId]] | None = None,
    ) -> bool:
        """Decide, write, apply; again for what others wrote meanwhile. True when something changed.

        forget: evidence that holds against a state only until that state is written anew.
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
            written = self._store.write_states(self.term, writes)
            conflicts = []
            for change in changes:
                now = written[change.topic_partition]
                if now is None:
                    conflicts.append(change.topic_partition)
                    continue
                self.state.states[change.topic_partition] = now
                if forget is not None:
                    forget.pop(change.topic_partition, None)
                self._announce(change, batch)
            self._reread(conflicts)
        raise StoreUnavailable(f"partition states changed under the controller {_DECIDE_MAX} times in a row")

    def _announce(self, change: rules.Change, batch: RequestBatch) -> None:
        topic_partition = change.topic_partition
        now = self.state.states[topic_partition]
        self._outbox.emit(
            "election",
            p=str(topic_partition),
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
        leaving = self.state.shutting_down.intersection(replicas) - {now.leader}
        batch.roles([r for r in replicas if r not in leaving], topic_partition, is_new=change.before is None)
        if change.before is not None and change.before.leader in leaving:
            batch.stop(change.before.leader, topic_partition, delete=False)
        batch.metadata(self.state.brokers, (topic_partition,))
        if now.leader != NO_LEADER:
            self.state.forget_reports(topic_partition)
        for replica in self.state.replicas(topic_partition):
            self._ask_for_report(replica, topic_partition, batch)

    def _warn_of_longest_log(self, topic_partition: TopicPartition, leader: BrokerId) -> None:
        said = [
            f"broker {broker}: end {report.end_offset}, last epoch {report.last_epoch}"
            for broker in self.state.replicas(topic_partition)
            if (report := self.state.reports.get((topic_partition, broker))) is not None
        ]
        _log.error(
            "%s: every replica that surely held all committed records stopped uncleanly; broker %d has the longest log "
            "and leads, acknowledged records may be lost (%s)",
            topic_partition,
            leader,
            "; ".join(said),
        )

    def _reread(self, partitions: list[TopicPartition]) -> None:
        """Take over what someone else wrote; a state that is gone with its topic is forgotten."""
        if not partitions:
            return
        stored, malformed = self._store.states(partitions)
        for topic_partition in partitions:
            self.state.unreadable.discard(topic_partition)
            if topic_partition in stored:
                self.state.states[topic_partition] = stored[topic_partition].state
            else:
                self.state.states.pop(topic_partition, None)
        self.state.unreadable |= malformed
        gone = {tp.topic for tp in partitions if tp not in stored} - self._store.topic_names(None)
        for topic in gone:
            self._forget_topic(topic)

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
            batch = self._batch()
            failed = difference.failed
            self._settle(lambda: rules.brokers_failed(state, failed, self.term.epoch), batch)
            for broker in failed:
                self._judged.pop(broker, None)
            batch.metadata(state.brokers, state.partitions_of(failed))
            self._outbox.send(batch.encode(state))
        if difference.started or difference.updated:
            _log.info("brokers started: %s", sorted(difference.started | difference.updated))
            for broker in difference.started | difference.updated:
                state.brokers[broker] = found[broker]
                self._judged[broker] = found[broker].epoch
            self._outbox.set_brokers(list(state.brokers.values()))
            batch = self._batch(addresses_first=True)
            batch.metadata(state.brokers, state.partitions_of(difference.started))
            self._settle(lambda: rules.elect_offline(state, self.term.epoch), batch)
            for broker in difference.started | difference.updated:
                self._tell_everything(broker, batch)
            self._outbox.send(batch.encode(state))
            self._deletion.resume(state)
        if state.unreadable and self._store.states(sorted(state.unreadable)).found:
            # Someone has mended it. What it says is judged as at a start of a term.
            self.load()

    def carry_suspicion(self, broker: BrokerId, broker_epoch: int) -> None:
        """Before `load`: this registration was suspected, and that is noted, by whom this term took over from it."""
        self._suspected[broker] = broker_epoch
        self._emit_suspicion(broker, broker_epoch)

    def suspect(self, broker: BrokerId, broker_epoch: int) -> None:
        """Elect away from a broker whose process is gone, though its session is not over; once per registration."""
        state = self.state
        known = state.brokers.get(broker)
        if known is None or known.epoch != broker_epoch or broker in state.suspected:
            return
        try:
            spent = self._store.spend_suspicion(self.term, broker, broker_epoch)
        except StoreUnavailable:
            # The note may stand, and nobody suspects this registration again: the reload acts on it.
            self._suspected[broker] = broker_epoch
            self._unnoted.add(broker)
            self._emit_suspicion(broker, broker_epoch)
            raise
        if not spent:
            _log.info("broker %d was suspected before under this registration: its session decides", broker)
            return
        self._suspected[broker] = broker_epoch
        state.suspected.add(broker)
        self._emit_suspicion(broker, broker_epoch)
        batch = self._batch()
        self._settle(lambda: suspicion.suspected(state, broker, self.term.epoch), batch)
        self._outbox.send(batch.encode(state))

    def _emit_suspicion(self, broker: BrokerId, broker_epoch: int) -> None:
        self._outbox.emit("suspicion", ce=self.term.epoch, target=broker, be=broker_epoch)

    def reachable(self, broker: BrokerId) -> None:
        """A suspected broker answers: it may lead and join again, and is not suspected a second time."""
        self._suspected.pop(broker, None)
        self._unnoted.discard(broker)
        if broker in self.state.suspected:
            _log.warning("broker %d was suspected wrongly: it answers", broker)
            self.state.suspected.discard(broker)
            batch = self._batch()
            self._settle(lambda: rules.elect_offline(self.state, self.term.epoch), batch)
            self._outbox.send(batch.encode(self.state))

    def topics_changed(self) -> None:
        """New topics get leaders; topics that vanished are forgotten."""
        state = self.state
        names = self._store.topic_names(self._watches.topics)
        for gone in state.topics.keys() - names:
            self._forget_topic(gone)
        added = names - state.topics.keys()
        if added:
            self._read_topics(added)
            new = [topic_partition for topic_partition, _ in state.partitions() if topic_partition.topic in added]
            found, malformed = self._store.states(new)
            state.states.update((topic_partition, stored.state) for topic_partition, stored in found.items())
            state.unreadable |= malformed
            batch = self._batch()
            self._settle(lambda: rules.elect_offline(state, self.term.epoch), batch)
            self._outbox.send(batch.encode(state))

    def _forget_topic(self, name: str) -> None:
        topic: Topic | None = self.state.topics.get(name)
        if topic is not None:
            self._topic_ids.pop(topic.topic_id, None)
        self.state.forget_topic(name)

    def deletions_changed(self) -> None:
        requested = self._store.deletions(self._watches.deletions)
        if requested - self.state.topics.keys():
            # Created and deleted in a row: of two watches that fire, either may be heard first.
            self.topics_changed()
        self._deletion.load(self.state, requested)

    def replicas_deleted(self, broker: BrokerId, deleted: list[TopicPartition]) -> None:
        self._deletion.replicas_deleted(broker, deleted)
        self.admin.replicas_deleted(broker, deleted)

    def finish_deletions(self) -> list[str]:
        """Topics whose last replica is gone are removed; returns them."""
        finished = self._deletion.finish()
        for topic in finished:
            self._forget_topic(topic)
        return finished

    def log_dirs_changed(self) -> None:
        """Ask the brokers that have failed files which replicas these are: they answer LeaderAndIsr by partition."""
        for broker in self._store.take_log_dir_events(self.term, self._watches.log_dirs):
            if broker in self.state.brokers:
                self.send_everything(broker)

    def replicas_failed(self, broker: BrokerId, broker_epoch: int, failed: Iterable[tuple[str, int]]) -> None:
        """Take leadership and ISR places from replicas that their live broker cannot use."""
        state = self.state
        known = state.brokers.get(broker)
        if known is None or known.epoch != broker_epoch:
            return
        partitions = [TopicPartition(self._topic_ids[id_], index) for id_, index in failed if id_ in self._topic_ids]
        news = [topic_partition for topic_partition in partitions if (topic_partition, broker) not in state.offline]
        if not news:
            return
        _log.warning("broker %d cannot use its replicas of %s", broker, ", ".join(map(str, news)))
        state.offline.update((topic_partition, broker) for topic_partition in news)
        batch = self._batch()
        self._settle(lambda: rules.replicas_failed(state, news, broker, self.term.epoch), batch)
        batch.metadata(state.brokers, news)
        self._outbox.send(batch.encode(state))

    def leaderships_refused(
        self, broker: BrokerId, broker_epoch: int, refused: Iterable[tuple[str, int, Epoch]]
    ) -> None:
        """Elect anew where a broker does not lead under the leader epoch that it was told."""
        state = self.state
        known = state.brokers.get(broker)
        if known is None or known.epoch != broker_epoch:
            return
        told = {TopicPartition(self._topic_ids[id_], i): epoch for id_, i, epoch in refused if id_ in self._topic_ids}
        batch = self._batch()
        if self._settle(lambda: rules.leaderships_refused(state, told, broker, self.term.epoch), batch):
            _log.warning("broker %d leads no more in %s, elected anew", broker, ", ".join(map(str, told)))
        self._outbox.send(batch.encode(state))

    def replicas_reported(
        self, broker: BrokerId, broker_epoch: int, reports: Mapping[TopicPartition, elr.ReplicaReport]
    ) -> None:
        """What a broker's stop has cost it: partitions without a leader may get one, or it is known who is awaited."""
        state = self.state
        known = state.brokers.get(broker)
        if known is None or known.epoch != broker_epoch:
            return
        state.reports.update({(topic_partition, broker): report for topic_partition, report in reports.items()})
        batch = self._batch()
        self._settle(lambda: rules.elect_offline(state, self.term.epoch), batch)
        self._outbox.send(batch.encode(state))
        for topic_partition, report in reports.items():
            if report.unclean:
                self._tell_of_wait(topic_partition, broker)

    def _tell_of_wait(self, topic_partition: TopicPartition, broker: BrokerId) -> None:
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
        """Allowing unclean election elects at once where nobody leads; a smaller minimum voids what it made."""
        if topic in self.state.topics:
            self._note_config(topic, overrides)
            batch = self._batch()
            self._settle(lambda: rules.drop_elrs(self.state, topic, self.term.epoch), batch)
            if self.state.unclean_allowed(topic):
                self._settle(lambda: rules.elect_offline(self.state, self.term.epoch), batch)
            self._outbox.send(batch.encode(self.state))

    def defaults_changed(self, unclean: bool, min_isr: int) -> None:
        """The same for all topics that have no setting of their own."""
        state = self.state
        if (unclean, min_isr) == (self._unclean_default, self._min_isr_default):
            return
        self._unclean_default = state.unclean_default = unclean
        self._min_isr_default = state.min_isr_default = min_isr
        batch = self._batch()
        for topic in {topic_partition.topic for topic_partition, current in state.states.items() if current.elr}:
            self._settle(lambda topic=topic: rules.drop_elrs(state, topic, self.term.epoch), batch)  # type: ignore[misc]
        if unclean:
            self._settle(lambda: rules.elect_offline(state, self.term.epoch), batch)
        self._outbox.send(batch.encode(state))

    def send_everything(self, broker: BrokerId) -> None:
        """For a broker whose queue was given up."""
        batch = self._batch(addresses_first=True)
        self._tell_everything(broker, batch)
        self._outbox.send(batch.encode(self.state))

    def flush_metadata(self) -> None:
        """Tell all brokers of ISR changes since the last flush, and take the steps that these allow."""
        self.admin.advance()
        if self._dirty:
            batch = self._batch()
            batch.metadata(self.state.brokers, self._dirty)
            self._dirty = set()
            self._outbox.send(batch.encode(self.state))

    # Requests

    def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        """Decide every partition, write the accepted ones together, answer all."""
        error = alter.check_sender(self.state, request.broker_id, request.broker_epoch)
        if error is not ErrorCode.NONE:
            _log.info("AlterPartition of broker %d, epoch %d: %s", request.broker_id, request.broker_epoch, error.name)
            return AlterPartitionResponse(error_code=error)
        asked = controller_isr.parse(request, version, self._topic_ids)
        with_epochs = controller_isr.epochs_required(version)
        decisions = {
            proposal.topic_partition: alter.decide(
                self.state, request.broker_id, proposal, with_epochs, self.term.epoch
            )
            for _, _, proposal in asked
            if proposal is not None
        }
        self._write_isrs(decisions)
        return controller_isr.answer(asked, decisions)

    def _write_isrs(self, decisions: dict[TopicPartition, controller_isr.Decision]) -> None:
        """Write what was accepted; an accepted change that met another's becomes INVALID_UPDATE_VERSION."""
        writes = [
            StateWrite(
                topic_partition,
                decision.before,
                self.state.completed(topic_partition, decision.before, decision.after),
            )
            for topic_partition, decision in decisions.items()
            if isinstance(decision, alter.Write)
        ]
        if not writes:
            return
        written = self._store.write_states(self.term, writes)
        self._reread([topic_partition for topic_partition, now in written.items() if now is None])
        for topic_partition, now in written.items():
            if now is None:
                decisions[topic_partition] = ErrorCode.INVALID_UPDATE_VERSION
            else:
                self.state.states[topic_partition] = now
                decisions[topic_partition] = alter.Unchanged(now)
                # Who is in sync has files again.
                self.state.offline.difference_update((topic_partition, member) for member in now.isr)
                self._dirty.add(topic_partition)

    def controlled_shutdown(self, broker: BrokerId, broker_epoch: int) -> ControlledShutdownResponse:
        """Move leaderships and ISR places away, then stop the broker's replicas; what is left is answered."""
        error = alter.check_sender(self.state, broker, broker_epoch)
        if error is not ErrorCode.NONE:
            return ControlledShutdownResponse(error_code=error)
        state = self.state
        state.shutting_down.add(broker)
        self._leaving[broker] = broker_epoch
        # It stops following before a leader hears that it has left the ISR, and follows nobody new. Fetching on, it
        # would be proposed for the ISR again, and a proposal holds the watermark until a controller answers it, who may
        # be the one that leaves.
        self._stop_following(broker)
        batch = self._batch()
        self._settle(lambda: rules.broker_shutdown(state, broker, self.term.epoch), batch)
        self._outbox.send(batch.encode(state))
        return ControlledShutdownResponse(
            remaining_partitions=[RemainingPartition(*tp) for tp in rules.remaining_leaderships(state, broker)]
        )

    def _stop_following(self, broker: BrokerId) -> None:
        """StopReplica, which keeps the files, for all that this broker does not lead."""
        state = self.state
        batch = self._batch()
        for topic_partition in state.partitions_of((broker,)):
            current = state.states.get(topic_partition)
            if current is not None and current.leader != broker and topic_partition.topic not in state.deleting:
                batch.stop(broker, topic_partition, delete=False)
        self._outbox.send(batch.encode(state))
