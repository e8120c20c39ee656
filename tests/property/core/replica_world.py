"""One partition, its brokers and its controller against a plain model of who holds what.

The rules are the broker's own (`broker.core`). Whenever somebody is elected, `World.judge` asks whether the new leader
has every acknowledged record that any replica still holds, and whether its log ends where committed offsets that were
deleted would be given out again.
"""

from __future__ import annotations

from dataclasses import replace

from broker.core.controller import alter_partition as alter
from broker.core.controller import decisions as controller
from broker.core.controller import suspicion
from broker.core.controller.cluster_state import NO_LEADER, Broker, BrokerEndpoint, ClusterState, LeaderAndIsr, Topic
from broker.core.controller.elr import ReplicaReport
from broker.model.ids import TopicPartition
from tests.property.core.replica_disks import REPLICAS, Disks, Record

TP = TopicPartition("t", 0)


class World:
    """What the runtime does, in a line or two each; sessions end with their processes."""

    def __init__(self, min_isr: int, unclean: bool = False) -> None:
        """unclean: such elections are allowed."""
        self.state = ClusterState(topics={"t": Topic("t", "id", {0: REPLICAS})}, min_isr_default=min_isr)
        self.state.unclean_default = unclean
        self.min_isr = min_isr
        """As it is set; what a broker or the controller has heard may be older."""
        self.heard = dict.fromkeys(REPLICAS, min_isr)
        self.disks = Disks()
        self.last_registration: dict[int, int] = {}
        """Each broker's, as ZooKeeper keeps it."""
        self.unseen: dict[int, Broker] = {}
        """Registrations that the controller has not heard of: it still has the earlier ones."""
        self.on_their_way: dict[int, tuple[int, int, ReplicaReport]] = {}
        """Answers: of which registration, asked under which leader epoch, and what they say."""
        self.deposed: int | None = None
        """A broker whose session is over and whose process serves fetches still."""
        self.not_heard: set[int] = set()
        """Who follows it, for they have not been told yet that nobody leads."""
        self.loading = False
        """A controller that loads tells nobody anything before it is done."""
        self.acknowledged: list[Record] = []
        self.lagging: set[int] = set()
        self.written = 0
        self.next_epoch = 1
        self.next_value = 0
        for broker in REPLICAS:
            self.state.brokers[broker] = self.register(broker)
        self.apply(controller.elect_offline(self.state, 1))

    @property
    def current(self) -> LeaderAndIsr:
        return self.state.states[TP]

    def register(self, broker: int) -> Broker:
        self.next_epoch += 1
        self.disks.open(broker, self.last_registration.get(broker), self.next_epoch)
        self.last_registration[broker] = self.next_epoch
        endpoint = BrokerEndpoint("P", "h", broker, "PLAINTEXT")
        return Broker(broker, self.next_epoch, (endpoint,), reports=True)

    def apply(self, changes: list[controller.Change]) -> None:
        for change in changes:
            before = self.state.states.get(TP)
            assert change.before == before
            after = self.state.completed(TP, before, change.after)
            self.store(after)
            # Who is told under an ended registration does not listen.
            if before is not None and after.leader not in (NO_LEADER, before.leader, *self.unseen):
                self.judge(after.leader, change.reason, {*before.isr, *before.elr})

    def store(self, after: LeaderAndIsr) -> None:
        before = self.state.states.get(TP)
        assert after.isr
        assert not set(after.elr) & set(after.isr)
        self.next_epoch += 1
        self.written = self.next_epoch
        version = 0 if before is None else before.partition_epoch + 1
        self.state.states[TP] = replace(after, partition_epoch=version)
        if after.leader != NO_LEADER:
            self.state.forget_reports(TP)
        if not self.loading:
            self.tell(before)

    def tell(self, before: LeaderAndIsr | None) -> None:
        """Brokers hear of what was written: who leads, or was admitted, is mended.

        Whom the ISR has named all along may not be known to have stopped.
        """
        current = self.current
        if current.leader != NO_LEADER:
            self.lagging.discard(current.leader)
            self.not_heard.clear()
            admitted = {current.leader, *current.isr} - set(() if before is None else before.isr)
            self.disks.mend(({current.leader} | admitted) - self.unseen.keys())

    def judge(self, leader: int, reason: str, had_all: set[int]) -> None:
        """had_all: ISR and ELR as it was elected; what was committed and deleted is known by where their logs begin.

        An unclean election may lose what only those have that are away; suspected members are not.
        """
        lossy = self.state.unclean_default and reason in (controller.UNCLEAN, controller.LONGEST_LOG)
        live = self.state.live() | self.state.brokers.keys() & had_all
        held = {record for broker in REPLICAS if broker in live or not lossy for record in self.disks.kept(broker)}
        lost = [record for record in self.acknowledged if record in held and record not in self.disks.kept(leader)]
        assert not lost, f"{reason}: {leader} leads without {lost}, which others hold"
        if lossy:
            self.acknowledged = [record for record in self.acknowledged if record in held]
            had_all = had_all & live
        deleted = max((self.disks.starts[broker] for broker in had_all), default=0)
        assert len(self.disks.logs[leader]) >= deleted, f"{reason}: {leader} gives offsets below {deleted} out again"

    def led(self) -> bool:
        return self.is_there(self.current.leader)

    def is_there(self, broker: int) -> bool:
        """It has the role that the state gives it."""
        return broker in self.state.brokers and broker not in self.unseen

    def write(self) -> None:
        """One acks=all record at whoever leads; lagging followers don't come for it."""
        current = self.current
        if not self.led() or len(current.isr) < max(self.heard[current.leader], current.elr_min_isr):
            return
        self.next_value += 1
        record = (current.leader_epoch, self.next_value)
        self.disks.logs[current.leader].append(record)
        self.commit()

    def commit(self) -> None:
        """All that the leader has, of whatever epoch, once the whole ISR has it: somebody may have waited for it."""
        current = self.current
        if self.led() and len(current.isr) >= max(self.heard[current.leader], current.elr_min_isr) and self.replicate():
            kept = self.disks.kept(current.leader)
            self.acknowledged += [record for record in kept if record not in self.acknowledged]

    def slow(self, broker: int) -> None:
        """It comes for nothing, and is in the ISR still."""
        if self.is_there(broker) and broker != self.current.leader:
            self.lagging.add(broker)

    def prefer(self, broker: int) -> None:
        """An ISR member is made leader while another leads, which does not hear of it for now."""
        current = self.current
        if self.led() and self.is_there(broker) and broker in current.isr and broker != current.leader:
            if broker in self.state.suspected:
                return
            self.lagging.add(current.leader)
            self.apply([controller.Change(TP, current, current.changed(broker, current.isr), controller.PREFERRED)])

    def replicate(self) -> bool:
        """Whether the whole ISR came for it."""
        current = self.current
        present = [b for b in current.isr if self.is_there(b) and b not in self.lagging]
        for follower in set(present) - {current.leader}:
            self.disks.follow(follower, current.leader)
        return len(present) == len(current.isr)

    def delete(self) -> None:
        """DeleteRecords up to the watermark, or retention; followers hear of it as they come."""
        current = self.current
        if not self.led() or len(current.isr) < max(self.heard[current.leader], current.elr_min_isr):
            return
        if self.replicate():
            gone = set(self.disks.logs[current.leader])
            self.acknowledged = [record for record in self.acknowledged if record not in gone]
            self.disks.delete_to(current.leader, len(self.disks.logs[current.leader]))
            self.replicate()

    def propose(self, isr: set[int]) -> None:
        current = self.current
        members = {b: self.state.brokers[b].epoch for b in isr if b in self.state.brokers}
        proposal = alter.Proposal(TP, current.leader_epoch, current.partition_epoch, members)
        decision = alter.decide(self.state, current.leader, proposal, True, 1)
        if isinstance(decision, alter.Write):
            self.store(self.state.completed(TP, decision.before, decision.after))

    def lag(self, broker: int) -> None:
        if self.led() and broker != self.current.leader and broker in self.state.brokers:
            self.lagging.add(broker)
            self.propose(set(self.current.isr) - {broker})

    def catch_up(self, broker: int) -> None:
        if self.led() and broker != self.current.leader and self.is_there(broker):
            self.lagging.discard(broker)
            self.disks.follow(broker, self.current.leader)
            self.propose({*self.current.isr, broker})
            self.commit()

    def expire(self, broker: int) -> None:
        """The end of a session comes before that of its process, and nobody else may lead."""
        if self.is_there(broker) and broker == self.current.leader:
            self.stop(broker, power=False)
            if self.current.leader == NO_LEADER:
                self.deposed, self.not_heard = broker, set(self.state.brokers)

    def late_fetch(self, broker: int) -> None:
        """By a replica that follows the deposed leader still."""
        if self.deposed is not None and broker in self.not_heard and self.is_there(broker):
            self.disks.follow(broker, self.deposed)

    def stop(self, broker: int, power: bool) -> None:
        self.see()
        self.not_heard.discard(broker)
        if broker == self.deposed:
            self.deposed = None
            if power:
                self.disks.lose_power(broker)
        if broker not in self.state.brokers:
            return
        if power:
            self.disks.lose_power(broker)
        self.lagging.discard(broker)
        self.state.forget_broker(broker)
        self.apply(controller.brokers_failed(self.state, {broker}, 1))

    def start(self, broker: int) -> None:
        self.see()
        if broker not in self.state.brokers:
            self.deposed = None if broker == self.deposed else self.deposed
            self.state.brokers[broker] = self.register(broker)
            self.heard[broker] = self.min_isr
            self.apply(controller.elect_offline(self.state, 1))

    def bounce(self, broker: int) -> None:
        """A power failure and the return within the session. What a leader proposed before is written after."""
        if not self.is_there(broker):
            return
        joiners = [b for b in REPLICAS if self.current.leader == broker and self.is_there(b) and b not in self.lagging]
        for joiner in set(joiners) - {broker}:
            self.disks.follow(joiner, self.current.leader)
        self.disks.lose_power(broker)
        self.lagging.discard(broker)
        self.not_heard.discard(broker)
        self.unseen[broker] = self.register(broker)
        self.heard[broker] = self.min_isr
        if joiners:
            self.propose({*self.current.isr, *joiners})

    def see(self) -> None:
        """The controller reads the registrations: failures, as one batch, and then starts."""
        if not self.unseen:
            return
        found, self.unseen = self.unseen, {}
        for broker in found:
            self.state.forget_broker(broker)
        self.apply(controller.brokers_failed(self.state, found.keys(), 1))
        self.state.brokers.update(found)
        self.apply(controller.elect_offline(self.state, 1))

    def backup(self, broker: int) -> None:
        """A copy of a disk whose broker is down."""
        if broker not in (*self.state.brokers, self.deposed):
            self.disks.back_up(broker)

    def restore(self, broker: int) -> None:
        """Every byte as it was, marks and inodes included."""
        if broker not in (*self.state.brokers, self.deposed):
            self.disks.restore(broker)

    def ask(self, broker: int) -> None:
        """Once, while nobody leads. That nobody leads is told first."""
        asked = broker in self.on_their_way or (TP, broker) in self.state.reports
        if self.is_there(broker) and self.current.leader == NO_LEADER and not asked:
            self.not_heard.discard(broker)
            log, kept = self.disks.logs[broker], self.disks.kept(broker)
            last_epoch = kept[-1][0] if kept else -1
            report = ReplicaReport(
                broker in self.disks.unclean,
                last_epoch,
                len(log),
                self.disks.starts[broker],
                epochs=self.disks.epochs_of(broker),
                shortened=broker not in self.disks.foreign,
            )
            self.on_their_way[broker] = (self.state.brokers[broker].epoch, self.current.leader_epoch, report)

    def answer(self, broker: int) -> None:
        """It may come when somebody leads, or has led meanwhile."""
        if broker in self.on_their_way:
            epoch, request_epochs, report = self.on_their_way.pop(broker)
            if self.state.is_registered(broker, epoch):
                self.state.take_reports(broker, {TP: report}, {TP: request_epochs})
                self.apply(controller.elect_offline(self.state, 1))

    def report(self, broker: int) -> None:
        """The answer to the question before this one comes first."""
        self.answer(broker)
        self.ask(broker)
        self.answer(broker)

    def suspect(self, broker: int) -> None:
        """The process ends; the controller acts on the evidence, then the session ends."""
        if self.is_there(broker):
            self.act_on_suspicion(broker)
            self.stop(broker, power=False)

    def suspect_wrongly(self, broker: int) -> None:
        """All that is wrong is that nobody can connect to it."""
        if self.is_there(broker):
            self.act_on_suspicion(broker)

    def act_on_suspicion(self, broker: int) -> None:
        self.state.suspected.add(broker)
        before = set(self.current.isr)
        self.apply(suspicion.suspected(self.state, broker, 1))
        after = set(self.current.isr)
        assert before - after <= self.state.suspected
        assert after == before or len(after) >= self.state.min_isr_of(TP)

    def reachable(self, broker: int) -> None:
        if broker in self.state.suspected:
            self.state.suspected.discard(broker)
            self.apply(controller.elect_offline(self.state, 1))

    def controller_hears(self) -> None:
        self.state.min_isr_default = self.min_isr
        self.apply(controller.drop_elrs(self.state, "t", 1))

    def failover(self) -> None:
        """The next controller loads: what it finds registered is all that it knows of."""
        state = self.state
        before, bounced = self.current, set(self.unseen)
        state.brokers.update(self.unseen)
        self.unseen = {}
        since = {TP: controller.registered_since(before, self.written, REPLICAS, state.brokers)}
        state.states[TP] = controller.with_isr_epochs(before, since[TP], state.brokers)
        state.reports.clear()
        self.loading = True
        self.controller_hears()
        self.apply(controller.failover(state, since, 1))
        self.loading = False
        self.tell(before)
        current = self.current
        if current.leader in bounced and current.leader_epoch == before.leader_epoch:
            # Only its log can tell that it has led under this epoch before, and refuse.
            if any(epoch == current.leader_epoch for epoch, _ in self.disks.logs[current.leader]):
                refused = {TP: current.leader_epoch}
                self.apply(controller.epochs_refused(state, refused, current.leader, 1))
            else:
                self.judge(current.leader, "kept", set(before.isr))
