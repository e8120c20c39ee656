"""A whole partition in memory: brokers, logs, network, controller, with every message loose.

The rules under test are the broker's own (`broker.core`); all around them is as plain as it can be: a log is a list of
(epoch, value), the controller is a compare-and-set on one record, the network is a bag from which any message may be
delivered, twice never, lost at will. `check` states what must hold after every step.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace
from typing import Any

from broker.core.replication import epochs
from broker.core.replication.fencing import check_current_leader_epoch
from broker.core.replication.isr import Proposal, ResponseEffect
from broker.core.replication.leader import Leader
from broker.core.replication.partition import NO_LEADER, Change, Following, Partition, PartitionState
from broker.wire.errors import ErrorCode

LAG_MS = 10.0


class Violation(AssertionError):
    """An invariant of replication does not hold."""


@dataclass
class Broker:
    id: int
    log: list[tuple[int, str]] = field(default_factory=list)
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    checkpoint: int = 0
    broker_epoch: int = 0
    alive: bool = True
    partition: Partition | None = None
    controller_epoch: int = 0

    @property
    def leo(self) -> int:
        return len(self.log)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        if not self.epoch_starts or epoch == -1:
            return -1, -1
        if epoch == self.epoch_starts[-1][0]:
            return epoch, self.leo
        higher = [start for own, start in self.epoch_starts if own > epoch]
        lower = [own for own, _ in self.epoch_starts if own <= epoch]
        if not higher:
            return -1, -1
        return (lower[-1] if lower else epoch), higher[0]

    def assign_epoch(self, epoch: int, start: int) -> None:
        if not self.epoch_starts or epoch > self.epoch_starts[-1][0]:
            while self.epoch_starts and self.epoch_starts[-1][1] >= start:
                self.epoch_starts.pop()
            self.epoch_starts.append((epoch, start))

    def truncate(self, offset: int) -> None:
        del self.log[offset:]
        self.epoch_starts = [(epoch, start) for epoch, start in self.epoch_starts if start < offset]

    @property
    def latest_epoch(self) -> int:
        return self.epoch_starts[-1][0] if self.epoch_starts else -1


@dataclass(frozen=True)
class Message:
    kind: str
    to: int
    body: Any


class Cluster:
    """`rng` decides everything; the same seed gives the same run."""

    def __init__(
        self,
        rng: random.Random,
        replicas: int = 3,
        min_isr: int = 2,
        protocol: str = "leader-epoch",
        loss: bool = True,
    ) -> None:
        self.rng = rng
        self.min_isr = min_isr
        self.protocol = protocol
        self.now = 1000.0
        self.loss = loss
        self.ids = tuple(range(1, replicas + 1))
        self.brokers = {i: Broker(i) for i in self.ids}
        self.registered: dict[int, int] = {}
        self.next_epoch = 1
        self.bag: list[Message] = []
        self.state = PartitionState(1, 1, 0, self.ids, 0, self.ids)
        self.values = 0
        self.hw_seen: dict[tuple[int, int, int], int] = {}
        self.committed: list[tuple[int, str]] = []
        self.waiting: list[tuple[int, int, int, str]] = []
        self.acked: list[tuple[int, tuple[int, str]]] = []
        self.trace: list[str] = []
        for i in self.ids:
            self._start(i)
        self._tell_all()

    # -- controller ------------------------------------------------------------------------------------------------

    def _tell_all(self) -> None:
        for i in self.ids:
            if i in self.registered:
                self.bag.append(Message("state", i, (self.state, self.registered[i])))

    def _broker_gone(self, gone: int) -> None:
        """The controller handles one failure: out of the ISR (never the last), and a new leader if it led."""
        state = self.state
        isr = tuple(i for i in state.isr if i != gone) or state.isr
        if state.leader == gone:
            live = [i for i in state.replicas if i in isr and i in self.registered]
            leader = live[0] if live else NO_LEADER
            self._write(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)
        elif isr != state.isr:
            self._write(isr=isr)

    def _elect_if_leaderless(self) -> None:
        state = self.state
        if state.leader == NO_LEADER:
            live = [i for i in state.replicas if i in state.isr and i in self.registered]
            if live:
                self._write(leader=live[0], leader_epoch=state.leader_epoch + 1)

    def _write(self, **changes: Any) -> None:
        self.state = replace(self.state, partition_epoch=self.state.partition_epoch + 1, **changes)
        self._tell_all()

    def _alter(self, sender: int, proposal: Proposal) -> None:
        state = self.state
        error, wanted = ErrorCode.NONE, frozenset(proposal.isr)
        if proposal.leader_epoch != state.leader_epoch or state.leader != sender:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif wanted == frozenset(state.isr):
            pass
        elif proposal.partition_epoch != state.partition_epoch:
            error = ErrorCode.INVALID_UPDATE_VERSION
        elif any(
            i not in self.registered or proposal.broker_epochs.get(i, -1) not in (-1, self.registered[i])
            for i in wanted
            if i != sender
        ):
            error = ErrorCode.INELIGIBLE_REPLICA
        else:
            self.state = replace(state, isr=proposal.isr, partition_epoch=state.partition_epoch + 1)
            for i in self.ids:
                if i != sender and i in self.registered and self.rng.random() < 0.5:
                    self.bag.append(Message("state", i, (self.state, self.registered[i])))
        answer = (proposal, int(error), self.state.isr, self.state.partition_epoch, self.state.leader_epoch)
        self.bag.append(Message("altered", sender, answer))

    # -- brokers ---------------------------------------------------------------------------------------------------

    def _start(self, i: int) -> None:
        broker = self.brokers[i]
        broker.alive = True
        broker.broker_epoch = self.next_epoch
        self.registered[i] = self.next_epoch
        self.next_epoch += 1
        broker.partition = Partition(i, min(broker.checkpoint, broker.leo), broker.latest_epoch)
        broker.controller_epoch = 0

    def start(self, i: int) -> None:
        """A failure (if the old session still stood) and then a start."""
        if self.brokers[i].alive:
            return
        self.expire(i)
        self._start(i)
        self._elect_if_leaderless()
        self.bag.append(Message("state", i, (self.state, self.registered[i])))

    def kill(self, i: int) -> None:
        """kill -9: what was written to the file stays."""
        self.brokers[i].alive = False
        self.brokers[i].partition = None
        self.bag = [m for m in self.bag if m.to != i]

    def expire(self, i: int) -> None:
        """Its session ends, whether the process lives (and knows nothing of it) or not."""
        if i in self.registered:
            del self.registered[i]
            self._broker_gone(i)

    def reregister(self, i: int) -> None:
        broker = self.brokers[i]
        if broker.alive and i not in self.registered:
            assert broker.partition is not None
            broker.partition.resign()
            broker.broker_epoch = self.registered[i] = self.next_epoch
            self.next_epoch += 1
            self._elect_if_leaderless()
            self.bag.append(Message("state", i, (self.state, self.registered[i])))

    def checkpoint(self, i: int) -> None:
        broker = self.brokers[i]
        if broker.partition is not None:
            broker.checkpoint = broker.partition.high_watermark

    def leader_role(self, i: int) -> Leader | None:
        partition = self.brokers[i].partition
        return partition.role if partition is not None and isinstance(partition.role, Leader) else None

    def produce(self, i: int) -> None:
        role = self.leader_role(i)
        if role is None or role.check_append(-1) is not ErrorCode.NONE:
            return
        broker = self.brokers[i]
        self.values += 1
        entry = (role.leader_epoch, f"v{self.values}")
        broker.assign_epoch(role.leader_epoch, broker.leo)
        broker.log.append(entry)
        role.advance_leo(broker.leo)
        self.waiting.append((i, role.leader_epoch, broker.leo, entry[1]))
        self._advance(i, role)

    def fetch(self, i: int) -> None:
        broker = self.brokers[i]
        role = broker.partition.role if broker.partition is not None else None
        if isinstance(role, Following) and role.leader != NO_LEADER:
            last = broker.latest_epoch if self.protocol == "leader-epoch" else -1
            body = (i, broker.broker_epoch, role.leader_epoch, broker.leo, last)
            self.bag.append(Message("fetch", role.leader, body))

    def tick(self, ms: float) -> None:
        self.now += ms
        for i in self.ids:
            role = self.leader_role(i)
            if role is not None:
                proposal = role.propose_shrink(self.now)
                if proposal is not None:
                    self._send_alter(i, proposal)

    def _send_alter(self, i: int, proposal: Proposal) -> None:
        if i in self.registered:
            self.bag.append(Message("alter", 0, (i, proposal)))

    def resend_alters(self) -> None:
        """Time-outs: what is pending is asked again, whatever became of the first asking."""
        for i in self.ids:
            role = self.leader_role(i)
            if role is not None and role.isr.pending is not None:
                proposal = role.isr.pending
                role.handle_alter_response(proposal, ErrorCode.REQUEST_TIMED_OUT, (), -1, -1)
                self._send_alter(i, proposal)

    def _advance(self, i: int, role: Leader) -> None:
        role.maybe_advance_high_watermark(self.now)
        self._expose(i, role)

    def _expose(self, i: int, role: Leader) -> None:
        """What a consumer could see now; the first sight of an offset fixes what stands there for ever."""
        broker, high = self.brokers[i], role.high_watermark
        if high > broker.leo:
            raise Violation(f"broker {i}: HW {high} > LEO {broker.leo}")
        for offset in range(high):
            if offset < len(self.committed):
                if broker.log[offset] != self.committed[offset]:
                    raise Violation(f"{i} shows {broker.log[offset]} at {offset}, was {self.committed[offset]}")
            else:
                self.committed.append(broker.log[offset])
        still = []
        for wait in self.waiting:
            owner, epoch, required, value = wait
            if owner == i and epoch == role.leader_epoch:
                verdict = role.check_committed(required)
                if verdict is None:
                    still.append(wait)
                elif verdict is ErrorCode.NONE:
                    self.acked.append((required - 1, (epoch, value)))
            else:
                still.append(wait)
        self.waiting = still

    # -- network ---------------------------------------------------------------------------------------------------

    def deliver(self, index: int) -> None:
        message = self.bag.pop(index % len(self.bag))
        if message.to == 0:
            self._alter(*message.body)
        elif self.brokers[message.to].alive:
            getattr(self, f"_on_{message.kind}")(message.to, message.body)

    def _on_state(self, i: int, body: tuple[PartitionState, int]) -> None:
        state, broker_epoch = body
        broker = self.brokers[i]
        partition = broker.partition
        assert partition is not None
        if broker_epoch != broker.broker_epoch:
            return
        change, _ = partition.apply(state, broker.leo, self.min_isr, LAG_MS, self.now)
        if change is Change.BECAME_LEADER:
            broker.assign_epoch(state.leader_epoch, broker.leo)
        if change is Change.BECAME_FOLLOWER and self.protocol == "high-watermark" and state.leader != NO_LEADER:
            broker.truncate(partition.high_watermark)
        role = partition.role
        if isinstance(role, Leader):
            self._advance(i, role)

    def _on_fetch(self, i: int, body: tuple[int, int, int, int, int]) -> None:
        follower, broker_epoch, epoch, offset, last = body
        role, broker = self.leader_role(i), self.brokers[i]
        if role is None or check_current_leader_epoch(epoch, role.leader_epoch) is not ErrorCode.NONE:
            return
        if role.check_fetch(follower, broker_epoch) is not ErrorCode.NONE:
            return
        diverging = epochs.diverging_epoch(broker.end_offset_for, last, offset)
        records: list[tuple[int, str]] = []
        out_of_range = False
        if diverging is None:
            if offset > broker.leo:
                out_of_range = True
            else:
                role.record_fetch(follower, offset, broker_epoch, self.now)
                proposal = role.propose_expand(follower, self.now)
                if proposal is not None:
                    self._send_alter(i, proposal)
                self._advance(i, role)
                records = broker.log[offset : offset + self.rng.randint(0, 3)]
        answer = (i, epoch, offset, records, role.high_watermark, diverging, out_of_range, broker.leo)
        self.bag.append(Message("fetched", follower, answer))

    def _on_fetched(self, i: int, body: tuple[Any, ...]) -> None:
        leader, epoch, offset, records, high, diverging, out_of_range, leader_leo = body
        broker = self.brokers[i]
        partition = broker.partition
        assert partition is not None
        role = partition.role
        if not isinstance(role, Following) or role.leader != leader or role.leader_epoch != epoch:
            return
        if offset != broker.leo:
            return
        if diverging is not None or out_of_range:
            if diverging is not None and diverging != epochs.OUT_OF_RANGE:
                cut: int | None = epochs.truncation_offset(diverging, broker.end_offset_for, broker.leo)
            else:
                may = self.protocol == "high-watermark"
                in_isr = i in role.isr
                high_watermark = partition.high_watermark
                cut = epochs.out_of_range_reset(0, broker.leo, 0, leader_leo, high_watermark, in_isr, may).truncate_to
            if cut is not None:
                if i in self.state.isr and cut < len(self.committed) and cut < broker.leo:
                    raise Violation(f"ISR member {i} cuts to {cut}, {len(self.committed)} committed")
                broker.truncate(cut)
                partition.truncated(cut)
            return
        for record in records:
            broker.assign_epoch(record[0], broker.leo)
            broker.log.append(record)
        partition.learn_high_watermark(high, broker.leo)

    def _on_altered(self, i: int, body: tuple[Any, ...]) -> None:
        role = self.leader_role(i)
        if role is None:
            return
        proposal, error, isr, partition_epoch, leader_epoch = body
        effect = role.handle_alter_response(proposal, error, isr, partition_epoch, leader_epoch)
        if effect is ResponseEffect.COMMITTED:
            self._advance(i, role)
        elif effect is ResponseEffect.RETRY:
            self._send_alter(i, proposal)

    # -- invariants ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        state = self.state
        if not state.isr or not set(state.isr) <= set(state.replicas):
            raise Violation(f"ISR {state.isr}")
        if state.leader != NO_LEADER and state.leader not in state.isr:
            raise Violation(f"leader {state.leader} not in ISR {state.isr}")
        for i in state.isr:
            log = self.brokers[i].log
            if log[: len(self.committed)] != self.committed:
                raise Violation(f"ISR member {i} lacks committed records: {log} against {self.committed}")
        for offset, entry in self.acked:
            if self.committed[offset] != entry:
                raise Violation(f"acknowledged {entry} at {offset} is lost")
        for broker in self.brokers.values():
            starts = broker.epoch_starts
            if any(a[0] >= b[0] or a[1] >= b[1] for a, b in itertools.pairwise(starts)):
                raise Violation(f"epoch history of {broker.id}: {starts}")
            if starts and starts[-1][1] > broker.leo:
                raise Violation(f"epoch history of {broker.id} beyond LEO {broker.leo}: {starts}")
            partition = broker.partition
            if partition is None:
                continue
            if partition.high_watermark > broker.leo:
                raise Violation(f"{broker.id}: HW {partition.high_watermark} > LEO {broker.leo}")
            if isinstance(partition.role, Leader):
                key = (broker.id, broker.broker_epoch, partition.leader_epoch)
                if partition.high_watermark < self.hw_seen.get(key, 0):
                    raise Violation(f"HW of {key} fell")
                self.hw_seen[key] = partition.high_watermark
        self._check_log_matching()

    def _check_log_matching(self) -> None:
        logs = [broker.log for broker in self.brokers.values()]
        for a in range(len(logs)):
            for b in range(a):
                shared = min(len(logs[a]), len(logs[b]))
                for offset in range(shared - 1, -1, -1):
                    if logs[a][offset][0] == logs[b][offset][0]:
                        if logs[a][: offset + 1] != logs[b][: offset + 1]:
                            raise Violation(f"same epoch at {offset}, other prefix: {logs[a]} / {logs[b]}")
                        break

    # -- a random life ---------------------------------------------------------------------------------------------

    def step(self) -> None:
        rng = self.rng
        roll = rng.random()
        i = rng.choice(self.ids)
        if roll < 0.50 and self.bag:
            # Mostly in order, sometimes from anywhere: a delayed message is the interesting one.
            self.deliver(0 if rng.random() < 0.7 else rng.randrange(len(self.bag)))
        elif roll < 0.62:
            self.produce(i)
        elif roll < 0.84:
            self.fetch(i)
        elif roll < 0.88:
            self.tick(rng.choice((1.0, LAG_MS / 2, 2 * LAG_MS)))
        elif roll < 0.90:
            self.checkpoint(i)
        elif roll < 0.915:
            if rng.random() < 0.5:
                self.expire(i)
            else:
                self.reregister(i)
        elif roll < 0.945:
            if self.brokers[i].alive:
                self.kill(i)
            else:
                self.start(i)
        elif roll < 0.96:
            self.resend_alters()
        elif roll < 0.97 and self.bag and self.loss:
            del self.bag[rng.randrange(len(self.bag))]
        else:
            self._tell_all()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            self.check()

    def settle(self) -> None:
        """All up, every message delivered, until nothing is left to do."""
        for i in self.ids:
            if not self.brokers[i].alive:
                self.start(i)
            self.reregister(i)
        for _ in range(400):
            self._tell_all()
            while self.bag:
                self.deliver(0)
                self.check()
            for i in self.ids:
                self.fetch(i)
            self.tick(1.0)
            self.resend_alters()
        while self.bag:
            self.deliver(0)
        self.check()
