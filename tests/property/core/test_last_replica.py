"""Random lives of one partition against a plain model of who holds what: R12.

Shrinks and expansions, kill -9, power failures that take unsynced tails, restarts, suspicions, new controllers; a
min.insync.replicas that changes and that everybody hears of at another time; logs that are emptied; disks put back from
an older backup; ends and starts that no controller sees before the next one is elected; reports of stops that are long
on their way; leaders whose sessions end while their processes serve whoever has not heard of it.
The claim: whenever somebody is elected, every acknowledged record that any replica still holds, up or down, is in the
new leader's log. So no record is lost as long as one replica that held it keeps its bytes and returns.
An unclean election loses nothing that a live replica, or a suspected one of the ISR, holds.
And no offset that was committed and deleted is given out again, as long as a log of the ISR or of an eligible replica
begins beyond it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.controller import alter_partition as alter
from broker.core.controller import decisions as controller
from broker.core.controller import suspicion
from broker.core.controller.cluster_state import NO_LEADER, Broker, BrokerEndpoint, ClusterState, LeaderAndIsr, Topic
from broker.core.controller.elr import ReplicaReport
from broker.log.files.unclean_shutdown import older_copy_reason
from broker.model.ids import TopicPartition
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("R12", "C10")

TP = TopicPartition("t", 0)
REPLICAS = (1, 2, 3)
Record = tuple[int, int]
"""(leader epoch, value)"""

WHAT = ["write", "write", "sync", "lag", "catch-up", "kill", "power", "start", "report", "suspect", "failover"]
WHAT_OF_BACKUPS = [*WHAT, "backup", "backup", "restore"]
WHAT_OF_BOUNCES = [*WHAT, "bounce", "bounce", "failover"]
WHAT_OF_MINIMA = [*WHAT, "minimum", "hear", "hear", "controller-hears"]

WHAT_OF_DELETIONS = [*WHAT, "delete", "delete", "power", "power", "start", "report"]
WHAT_OF_UNCLEAN = [*WHAT, "write", "wrongly-suspect", "wrongly-suspect", "reachable", "kill", "power"]
WHAT_OF_DELAYS = [*WHAT, "ask", "ask", "answer", "answer"]
WHAT_OF_DEPOSED = ["report", "late-fetch", "power", "start", "expire", "ask", "answer"]
Steps = tuple[tuple[str, int], ...]
OUTAGE: Steps = (("power", 1), ("power", 2), ("power", 3))
TURNS: tuple[Steps, ...] = (
    *(
        (("slow", 1), ("slow", 2), ("slow", 3), ("write", 0), ("prefer", b), ("write", 0), ("kill", b))
        for b in REPLICAS
    ),
    *((("catch-up", b), ("sync", 1), ("sync", 2), ("sync", 3)) for b in REPLICAS),
    *((("catch-up", b), ("sync", 1), ("sync", 2), ("sync", 3), *OUTAGE) for b in REPLICAS),
    OUTAGE,
    *(((what, b),) for what in ("write", "kill", "start", "report") for b in REPLICAS),
)
"""What leaders who take turns do; steps that mean little apart come together."""
WHAT_OF_ALL = [
    *WHAT_OF_BACKUPS,
    "bounce",
    "minimum",
    "hear",
    "controller-hears",
    "ask",
    "answer",
    "expire",
    "late-fetch",
    "delete",
    "slow",
    "prefer",
]


def lives(what: list[str], shortest: int = 12) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(what), st.sampled_from(REPLICAS)), min_size=shortest, max_size=40)


class World:
    """What the runtime does, in a line or two each; sessions end with their processes."""

    def __init__(self, min_isr: int, unclean: bool = False) -> None:
        """unclean: such elections are allowed."""
        self.state = ClusterState(topics={"t": Topic("t", "id", {0: REPLICAS})}, min_isr_default=min_isr)
        self.state.unclean_default = unclean
        self.min_isr = min_isr
        """As it is set; what a broker or the controller has heard may be older."""
        self.heard = dict.fromkeys(REPLICAS, min_isr)
        self.logs: dict[int, list[Record]] = {b: [] for b in REPLICAS}
        self.starts = dict.fromkeys(REPLICAS, 0)
        """Where each log begins: what is before it was deleted, and is in the list to keep offsets right."""
        self.synced = dict.fromkeys(REPLICAS, 0)
        self.unclean: set[int] = set()
        self.left_under: dict[int, int] = {}
        """The registration that each disk names."""
        self.last_registration: dict[int, int] = {}
        """Each broker's, as ZooKeeper keeps it."""
        self.backups: dict[int, tuple[list[Record], int, int, bool, int]] = {}
        """Of each disk: log, its start, what is synced, whether it is marked as unclean, its registration."""
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
        self.foreign: set[int] = set()
        """Of the unclean ones those whose log is not what it was, shortened: an older copy."""
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
        if older_copy_reason(self.left_under.get(broker, -1), self.last_registration.get(broker)):
            self.unclean.add(broker)
            self.foreign.add(broker)
        self.left_under[broker] = self.last_registration[broker] = self.next_epoch
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
            self.unclean -= ({current.leader} | admitted) - self.unseen.keys()
            self.foreign &= self.unclean

    def judge(self, leader: int, reason: str, had_all: set[int]) -> None:
        """had_all: ISR and ELR as it was elected; what was committed and deleted is known by where their logs begin.

        An unclean election may lose what only those have that are away; suspected members are not.
        """
        lossy = self.state.unclean_default and reason in (controller.UNCLEAN, controller.LONGEST_LOG)
        live = self.state.live() | self.state.brokers.keys() & had_all
        held = {record for broker in REPLICAS if broker in live or not lossy for record in self.kept(broker)}
        lost = [record for record in self.acknowledged if record in held and record not in self.kept(leader)]
        assert not lost, f"{reason}: {leader} leads without {lost}, which others hold"
        if lossy:
            self.acknowledged = [record for record in self.acknowledged if record in held]
            had_all = had_all & live
        deleted = max((self.starts[broker] for broker in had_all), default=0)
        assert len(self.logs[leader]) >= deleted, f"{reason}: {leader} gives offsets below {deleted} out again"

    def kept(self, broker: int) -> list[Record]:
        return self.logs[broker][self.starts[broker] :]

    def follow(self, follower: int) -> None:
        """Fetch until equal: cut where the logs part, then copy."""
        leader = self.current.leader
        self.logs[follower] = list(self.logs[leader])
        self.delete_to(follower, self.starts[leader])
        self.synced[follower] = min(self.synced[follower], len(self.logs[follower]))

    def delete_to(self, broker: int, start: int) -> None:
        """A log that is emptied goes on in a new file, which says where it begins."""
        if self.starts[broker] > len(self.logs[broker]):
            self.starts[broker] = start
        self.starts[broker] = max(self.starts[broker], start)
        self.synced[broker] = max(self.synced[broker], self.starts[broker])

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
        self.logs[current.leader].append(record)
        self.commit()

    def commit(self) -> None:
        """All that the leader has, of whatever epoch, once the whole ISR has it: somebody may have waited for it."""
        current = self.current
        if self.led() and len(current.isr) >= max(self.heard[current.leader], current.elr_min_isr) and self.replicate():
            self.acknowledged += [record for record in self.kept(current.leader) if record not in self.acknowledged]

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
            self.follow(follower)
        return len(present) == len(current.isr)

    def delete(self) -> None:
        """DeleteRecords up to the watermark, or retention; followers hear of it as they come."""
        current = self.current
        if not self.led() or len(current.isr) < max(self.heard[current.leader], current.elr_min_isr):
            return
        if self.replicate():
            gone = set(self.logs[current.leader])
            self.acknowledged = [record for record in self.acknowledged if record not in gone]
            self.delete_to(current.leader, len(self.logs[current.leader]))
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
            self.follow(broker)
            self.propose({*self.current.isr, broker})
            self.commit()

    def lose_power(self, broker: int) -> None:
        del self.logs[broker][self.synced[broker] :]
        self.unclean.add(broker)

    def expire(self, broker: int) -> None:
        """The end of a session comes before that of its process, and nobody else may lead."""
        if self.is_there(broker) and broker == self.current.leader:
            self.stop(broker, power=False)
            if self.current.leader == NO_LEADER:
                self.deposed, self.not_heard = broker, set(self.state.brokers)

    def late_fetch(self, broker: int) -> None:
        """By a replica that follows the deposed leader still."""
        if self.deposed is not None and broker in self.not_heard and self.is_there(broker):
            self.logs[broker] = list(self.logs[self.deposed])
            self.delete_to(broker, self.starts[self.deposed])
            self.synced[broker] = min(self.synced[broker], len(self.logs[broker]))

    def stop(self, broker: int, power: bool) -> None:
        self.see()
        self.not_heard.discard(broker)
        if broker == self.deposed:
            self.deposed = None
            if power:
                self.lose_power(broker)
        if broker not in self.state.brokers:
            return
        if power:
            self.lose_power(broker)
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
            self.follow(joiner)
        self.lose_power(broker)
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
            log, unclean = list(self.logs[broker]), broker in self.unclean
            ends = (self.starts[broker], self.synced[broker])
            self.backups[broker] = (log, *ends, unclean, self.left_under[broker])

    def restore(self, broker: int) -> None:
        """Every byte as it was, marks and inodes included."""
        if broker not in (*self.state.brokers, self.deposed) and broker in self.backups:
            log, self.starts[broker], self.synced[broker], unclean, self.left_under[broker] = self.backups[broker]
            self.logs[broker] = list(log)
            self.unclean = self.unclean | {broker} if unclean else self.unclean - {broker}

    def ask(self, broker: int) -> None:
        """Once, while nobody leads. That nobody leads is told first."""
        asked = broker in self.on_their_way or (TP, broker) in self.state.reports
        if self.is_there(broker) and self.current.leader == NO_LEADER and not asked:
            self.not_heard.discard(broker)
            log, kept = self.logs[broker], self.kept(broker)
            last_epoch = kept[-1][0] if kept else -1
            report = ReplicaReport(
                broker in self.unclean,
                last_epoch,
                len(log),
                self.starts[broker],
                epochs=self.epochs_of(broker),
                shortened=broker not in self.foreign,
            )
            self.on_their_way[broker] = (self.state.brokers[broker].epoch, self.current.leader_epoch, report)

    def epochs_of(self, broker: int) -> tuple[tuple[int, int], ...]:
        found: list[tuple[int, int]] = []
        for offset, (epoch, _) in enumerate(self.logs[broker]):
            if offset >= self.starts[broker] and (not found or epoch != found[-1][0]):
                found.append((epoch, offset))
        return tuple(found)

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
            if any(epoch == current.leader_epoch for epoch, _ in self.logs[current.leader]):
                refused = {TP: current.leader_epoch}
                self.apply(controller.epochs_refused(state, refused, current.leader, 1))
            else:
                self.judge(current.leader, "kept", set(before.isr))

    def live(self, life: list[tuple[str, int]]) -> None:
        for what, broker in life:
            self.step(what, broker)
        for broker in REPLICAS:
            self.start(broker)
            self.reachable(broker)
        for broker in REPLICAS:
            self.report(broker)
        assert self.led(), "everybody is back and has spoken, and nobody leads"

    def step(self, what: str, broker: int) -> None:
        match what:
            case "write":
                self.write()
            case "delete":
                self.delete()
            case "sync":
                self.synced[broker] = len(self.logs[broker])
            case "lag":
                self.lag(broker)
            case "slow":
                self.slow(broker)
            case "prefer":
                self.prefer(broker)
            case "catch-up":
                self.catch_up(broker)
            case "kill" | "power":
                self.stop(broker, what == "power")
            case "start":
                self.start(broker)
            case "report":
                self.report(broker)
            case "ask":
                self.ask(broker)
            case "answer":
                self.answer(broker)
            case "expire":
                self.expire(broker)
            case "late-fetch":
                self.late_fetch(broker)
            case "suspect":
                self.suspect(broker)
            case "wrongly-suspect":
                self.suspect_wrongly(broker)
            case "reachable":
                self.reachable(broker)
            case "failover":
                self.failover()
            case "backup":
                self.backup(broker)
            case "restore":
                self.restore(broker)
            case "bounce":
                self.bounce(broker)
            case "minimum":
                self.min_isr = broker
            case "hear":
                self.heard[broker] = self.min_isr
            case "controller-hears":
                self.controller_hears()


@given(lives(WHAT), st.sampled_from(REPLICAS))
@examples(1000)
def test_no_acknowledged_record_is_lost_while_a_replica_that_holds_it_may_return(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    World(min_isr).live(life)


@given(st.lists(st.sampled_from(TURNS), min_size=4, max_size=20), st.sampled_from(REPLICAS))
@examples(2000)
def test_no_acknowledged_record_is_lost_where_leaders_take_turns_and_commit_what_they_had_before(
    turns: list[Steps], min_isr: int
) -> None:
    World(min_isr).live([step for turn in turns for step in turn])


def test_tail_of_an_epoch_in_between_does_not_outweigh_what_was_committed_since() -> None:
    # 1 has an uncommitted record when 2 is made leader, and 2 has one of its own when it is killed: 1 leads again, and
    # commits its record with 3, but writes none under its new epoch.
    life = [("slow", 2), ("slow", 3), ("write", 0), ("prefer", 2), ("write", 0), ("kill", 2), ("catch-up", 3)]
    life += [("sync", 1), ("sync", 3), ("power", 1), ("power", 3)]
    World(2).live([*life, ("start", 1), ("report", 1), ("start", 3), ("report", 3), ("start", 2), ("report", 2)])


@given(lives(WHAT_OF_MINIMA), st.sampled_from(REPLICAS))
@examples(300)
def test_no_acknowledged_record_is_lost_where_leader_and_controller_hear_of_a_new_minimum_apart(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    World(min_isr).live(life)


@given(lives(WHAT_OF_BACKUPS), st.sampled_from(REPLICAS))
@examples(300)
def test_no_acknowledged_record_is_lost_where_an_older_copy_of_a_disk_is_put_back(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    World(min_isr).live(life)


def test_older_copy_of_the_last_isr_member_waits_for_the_eligible_one() -> None:
    life = [("kill", 1), ("backup", 1), ("start", 1), ("catch-up", 1), ("write", 0), ("kill", 3), ("kill", 2)]
    World(2).live([*life, ("kill", 1), ("restore", 1), ("start", 1), ("report", 1)])


@given(lives(WHAT_OF_BOUNCES), st.sampled_from(REPLICAS))
@examples(400)
def test_no_acknowledged_record_is_lost_where_replicas_bounce_and_no_controller_sees_it(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    World(min_isr).live(life)


@given(lives(WHAT_OF_DELETIONS), st.sampled_from(REPLICAS))
@examples(400)
def test_no_acknowledged_record_is_lost_where_logs_are_emptied_and_no_offset_is_given_out_again(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    World(min_isr).live(life)


def test_emptied_logs_do_not_lose_to_a_stale_one() -> None:
    life = [("write", 0), ("sync", 3), ("lag", 3), ("write", 0), ("delete", 0), ("power", 3), ("power", 2)]
    World(1).live([*life, ("power", 1), ("start", 1), ("report", 1), ("start", 2), ("report", 2)])


@given(lives(WHAT_OF_DELAYS), st.sampled_from(REPLICAS))
@examples(300)
def test_no_acknowledged_record_is_lost_where_reports_of_stops_are_long_on_their_way(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    World(min_isr).live(life)


@given(lives(WHAT_OF_UNCLEAN), st.sampled_from(REPLICAS))
@examples(400)
def test_unclean_election_loses_nothing_that_a_registered_replica_of_the_isr_or_a_live_one_holds(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    World(min_isr, unclean=True).live(life)


def test_unclean_election_does_not_pass_over_a_suspected_isr_member() -> None:
    life = [("lag", 3), ("write", 0), ("wrongly-suspect", 2), ("kill", 1), ("report", 3), ("reachable", 2)]
    World(2, unclean=True).live([*life, ("report", 2)])


LEADER_ALONE = [("write", 0), ("sync", 1), ("lag", 2), ("lag", 3), ("write", 0)]


@given(lives(WHAT_OF_DEPOSED, shortest=3))
@examples(500)
def test_no_acknowledged_record_is_lost_where_a_deposed_leader_is_followed_on(life: list[tuple[str, int]]) -> None:
    World(1).live([*LEADER_ALONE, ("expire", 1), *life])


def test_replica_that_has_reported_follows_nobody() -> None:
    """What 2 has is all that is left of two records; it had one as it was asked, or would have fetched after that."""
    life = [("kill", 3), ("write", 0), ("sync", 1), ("lag", 2), ("write", 0), ("write", 0), ("expire", 1)]
    life += [("late-fetch", 2), ("report", 2), ("late-fetch", 2), ("power", 1), ("start", 1)]
    World(1).live(life)
    life.remove(("late-fetch", 2))
    World(1).live(life)


def test_report_that_was_on_its_way_for_a_whole_leadership_decides_nothing() -> None:
    """2 was empty as it was asked, and has more than the others by the time that its answer comes."""
    life = [("kill", 2), ("kill", 3), ("kill", 1), ("start", 2), ("ask", 2), ("start", 1), ("report", 1), ("start", 3)]
    life += [("catch-up", 2), ("catch-up", 3), ("write", 0), ("sync", 3), ("lag", 3), ("write", 0), ("lag", 2)]
    World(1).live([*life, ("power", 1), ("answer", 2), ("start", 1), ("report", 1), ("ask", 3), ("answer", 3)])


@given(lives(WHAT_OF_ALL), st.sampled_from(REPLICAS))
@examples(400)
def test_no_acknowledged_record_is_lost_where_all_of_that_happens(life: list[tuple[str, int]], min_isr: int) -> None:
    World(min_isr).live(life)


FOLLOWER_BOUNCED = [("lag", 3), ("write", 0), ("bounce", 2), ("catch-up", 3), ("failover", 0), ("kill", 1)]
LEADER_BOUNCED = [("kill", 3), ("start", 3), ("write", 0), ("bounce", 1), ("failover", 0)]


@pytest.mark.parametrize("life", [FOLLOWER_BOUNCED, LEADER_BOUNCED])
def test_replica_that_bounced_unseen_does_not_lead_on_trust(life: list[tuple[str, int]]) -> None:
    World(1).live(life)


RAISED_UNHEARD = [
    ("lag", 3),
    ("minimum", 2),
    ("controller-hears", 0),
    ("lag", 2),
    ("write", 0),
    ("kill", 1),
    ("report", 2),
]
LOWERED_UNHEARD = [("lag", 3), ("lag", 2), ("minimum", 1), ("hear", 1), ("write", 0), ("kill", 1), ("report", 2)]
MADE_UNDER_A_LARGER_ONE = [
    *(("lag", 3), ("minimum", 2), ("hear", 1), ("write", 0), ("lag", 2), ("controller-hears", 0)),
    *(("kill", 1), ("kill", 2), ("report", 3)),
]


@pytest.mark.parametrize(("min_isr", "life"), [(1, RAISED_UNHEARD), (2, LOWERED_UNHEARD), (3, MADE_UNDER_A_LARGER_ONE)])
def test_eligible_replica_holds_what_was_committed_under_a_minimum_that_changed(
    min_isr: int, life: list[tuple[str, int]]
) -> None:
    World(min_isr).live(life)


def test_model_sees_the_loss_that_kafkas_rule_allows() -> None:
    """Sequence g with every stop taken for clean: the judge of this model must object."""
    world = World(2)
    world.write()
    world.lag(3)
    world.write()
    world.stop(2, power=False)
    world.stop(3, power=False)
    world.stop(1, power=True)
    world.unclean.clear()
    world.start(1)
    with pytest.raises(AssertionError, match="which others hold"):
        world.report(1)
