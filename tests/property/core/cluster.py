"""A whole partition in memory: brokers, logs, network, controller, with every message loose.

The rules under test are the broker's own (`broker.core`); all around them is as plain as it can be: a log is a list of
(epoch, value), the controller is a compare-and-set on one record, the network is a bag from which any message may be
delivered, twice never, lost at will. `check` states what must hold after every step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from broker.core.replication import epochs
from broker.core.replication.fencing import check_current_leader_epoch
from broker.core.replication.isr import Proposal, ResponseEffect
from broker.core.replication.leader import Leader
from broker.core.replication.partition import NO_LEADER, Change, Following, Partition, PartitionState
from broker.wire.errors import ErrorCode
from tests.property.core import invariants
from tests.property.core.invariants import Violation
from tests.property.core.plain_broker import Broker

LAG_MS = 10.0


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
        self.tell_all()

    # -- controller ------------------------------------------------------------------------------------------------

    def tell_all(self) -> None:
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
        self.tell_all()

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
        invariants.check_state(self.state)
        invariants.check_committed([self.brokers[i] for i in self.state.isr], self.committed, self.acked)
        for broker in self.brokers.values():
            invariants.check_epoch_history(broker)
            if broker.partition is not None:
                self._check_high_watermark(broker, broker.partition)
        invariants.check_log_matching([broker.log for broker in self.brokers.values()])

    def _check_high_watermark(self, broker: Broker, partition: Partition) -> None:
        if partition.high_watermark > broker.leo:
            raise Violation(f"{broker.id}: HW {partition.high_watermark} > LEO {broker.leo}")
        if isinstance(partition.role, Leader):
            key = (broker.id, broker.broker_epoch, partition.leader_epoch)
            if partition.high_watermark < self.hw_seen.get(key, 0):
                raise Violation(f"HW of {key} fell")
            self.hw_seen[key] = partition.high_watermark
