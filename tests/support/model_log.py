"""One partition that keeps every promise, through whatever costs records by right, told as what clients see.

Three replicas, of which all are in sync until a leader is deposed; who is deposed goes on in its old epoch, takes what
it is sent and shows what it knew, until it hears. Sends of several records overlap, with any acks; answers get lost; an
idempotent producer sends its batches again. Retention moves the start; with `unclean` a replica that lacks committed
records, or that has others, may be elected.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.histories import Story

NODES = (1, 2, 3)
PRODUCER = 77


@dataclass
class Sent:
    """A send under way, or a batch of the idempotent producer. base: where its node appended it; none: not yet."""

    values: list[int]
    acks: int
    op: int
    node: int
    epoch: int = -1
    base: int | None = None


@dataclass
class Replica:
    """log: (value, leader epoch) by offset. leads: the epoch in which it takes itself for the leader."""

    log: list[tuple[int, int]] = field(default_factory=list)
    hw: int = 0
    leads: int | None = None
    epoch_start: int = 0


class ModelLog:
    """age: how many ticks a record has to be old before retention takes it; none: never."""

    def __init__(self, rng: Random, topic: str, number: int, *, unclean: bool = False, age: int | None = None) -> None:
        self.rng, self.topic, self.story = rng, topic, Story(topic)
        self.unclean, self.age = unclean, age
        self.replicas = {node: Replica() for node in NODES}
        self.leader, self.epoch, self.start = 1, 0, 0
        self.committed: list[tuple[int, int]] = []
        self.replicas[1].leads = 0
        self.open: list[Sent] = []
        self.again: Sent | None = None
        self.sequence = self.next_value = 0
        self.positions = [0, 0, 0]
        self.sent_at: dict[int, int] = {}
        self.znodes: list[dict[str, Any]] = []
        self._zxid = 1000 * number + 10
        self._state([*NODES])
        self._told_leader()

    # -- the cluster -----------------------------------------------------------------------------------------------

    @property
    def log(self) -> list[tuple[int, int]]:
        return self.replicas[self.leader].log

    @property
    def hw(self) -> int:
        return self.replicas[self.leader].hw

    def _state(self, isr: list[int]) -> None:
        version, base = len(self.znodes), {"node": "zk1", "position": 0, "session": 7}
        data = {"leader": self.leader, "leader_epoch": self.epoch, "controller_epoch": 1, "isr": isr}
        self._zxid += 1
        row = {**base, "zxid": self._zxid, "time_ms": self.story.now, "version": version, "data": json.dumps(data)}
        row |= {"op": "set" if version else "create", "path": f"/brokers/topics/{self.topic}/partitions/0/state"}
        self.znodes.append(row)

    def _told_leader(self) -> None:
        self.story.harness(
            "leadership", topic=self.topic, partition=0, leader=f"n{self.leader}", epoch=self.epoch, isr=[*NODES]
        )

    def replicate(self, whole: bool = False) -> None:
        """Followers that follow take a part of what they lack, or all of it; the watermark goes as far as they are."""
        lead = self.replicas[self.leader]
        for node, replica in self.replicas.items():
            if node != self.leader and replica.leads is None:
                agreed = 0
                for mine, theirs in zip(replica.log, lead.log, strict=False):
                    if mine != theirs:
                        break
                    agreed += 1
                del replica.log[agreed:]
                upto = len(lead.log) if whole or self.rng.random() < 0.6 else agreed
                # Batches come whole.
                replica.log += lead.log[agreed:upto]
                replica.hw = min(lead.hw, len(replica.log))
        following = [replica for replica in self.replicas.values() if replica.leads is None]
        if len(following) == len(NODES) - 1:
            lead.hw = max(lead.hw, min(len(replica.log) for replica in self.replicas.values()))
            self.committed = lead.log[: max(lead.hw, len(self.committed))]

    def elect(self) -> None:
        """A replica that has all that is committed; the one before goes on until it hears."""
        able = [n for n in NODES if n != self.leader and self.replicas[n].leads is None]
        able = [n for n in able if self.replicas[n].log[: len(self.committed)] == self.committed]
        if able:
            self._lead(self.rng.choice(able), [*NODES])

    def elect_unclean(self) -> None:
        """Any other one, a deposed leader with its own records too."""
        self._state([self.leader])
        self._lead(self.rng.choice([n for n in NODES if n != self.leader]), [])

    def _lead(self, node: int, isr: list[int]) -> None:
        self.leader, self.epoch = node, self.epoch + self.rng.randint(1, 2)
        chosen = self.replicas[node]
        chosen.leads, chosen.epoch_start = self.epoch, len(chosen.log)
        chosen.hw = min(chosen.hw, len(chosen.log))
        self._state(isr or [node])
        if isr == []:
            # Alone in its ISR, it commits what it has.
            self.start = min(self.start, len(chosen.log))
            chosen.hw = len(chosen.log)
            self.committed = [*chosen.log]
            self._state([*NODES])
        self._told_leader()

    def hear(self) -> None:
        """Deposed leaders hear that they are."""
        for node, replica in self.replicas.items():
            if node != self.leader:
                replica.leads = None

    def retain(self) -> None:
        if self.age is None:
            return
        old = [at for at, (value, _) in enumerate(self.log[: self.hw]) if self._old(value)]
        young = [at for at, (value, _) in enumerate(self.log) if not self._old(value)]
        self.start = max(self.start, min(young, default=len(old)))

    def _old(self, value: int) -> bool:
        assert self.age is not None
        return self.sent_at[value] + self.age + 2 < self.story.now

    # -- sends -----------------------------------------------------------------------------------------------------

    def _leading(self) -> int:
        """A node that takes sends: mostly the leader."""
        others = [node for node, replica in self.replicas.items() if replica.leads is not None and node != self.leader]
        return self.rng.choice(others) if others and self.rng.random() < 0.4 else self.leader

    def begin_send(self, **fields: Any) -> Sent:
        count = self.rng.choice((1, 1, 2, 3))
        values = list(range(self.next_value + 1, self.next_value + 1 + count))
        self.next_value += count
        acks = fields.pop("acks", None)
        acks = self.rng.choice((-1, -1, 1, 1, 0)) if acks is None else acks
        node = fields.pop("to", None) or self._leading()
        op = self.story.invoke(
            "send",
            process=values[0],
            node=f"n{node}",
            values=values,
            acks=acks,
            sentinel=fields.pop("sentinel", False),
            **fields,
        )
        self.sent_at |= dict.fromkeys(values, self.story.now)
        sent = Sent(values, acks, op, node)
        self.open.append(sent)
        return sent

    def append(self, sent: Sent) -> None:
        replica = self.replicas[sent.node]
        if sent.base is None and replica.leads is not None:
            sent.base, sent.epoch = len(replica.log), replica.leads
            replica.log += [(value, replica.leads) for value in sent.values]

    def answer(self, sent: Sent) -> None:
        """What its node can say by now, unless that is lost."""
        self.open.remove(sent)
        replica = self.replicas[sent.node]
        lost = self.rng.random() < 0.3
        if sent.base is None:
            refused = not lost and self.rng.random() < 0.5
            self.story.complete(sent.op, "fail" if refused else "info", error="NOT_ENOUGH_REPLICAS")
        elif sent.acks == 0:
            self.story.complete(sent.op)
        elif lost or (sent.acks == -1 and not self._committed(replica, sent)):
            self.story.complete(sent.op, "info", error="timeout")
        else:
            self.story.complete(sent.op, base_offset=sent.base)

    @staticmethod
    def _committed(replica: Replica, sent: Sent) -> bool:
        assert sent.base is not None
        return replica.leads == sent.epoch and replica.hw >= sent.base + len(sent.values)

    def send_again(self) -> None:
        """The idempotent producer's next batch, or the last one once more, to the leader."""
        lead = self.replicas[self.leader]
        fields: dict[str, Any] = {"producer_id": PRODUCER, "producer_epoch": 0, "sequence": self.sequence}
        if self.again is None:
            sent = self.begin_send(acks=-1, to=self.leader, **fields)
            first = sent
        else:
            first = self.again
            asked: dict[str, Any] = {"node": f"n{self.leader}", "values": first.values, "acks": -1, "sentinel": False}
            op = self.story.invoke("send", process=first.values[0], resends=first.op, **asked, **fields)
            sent = Sent(first.values, -1, op, self.leader)
            self.open.append(sent)
        known = [at for at, (value, _) in enumerate(lead.log) if value == first.values[0]]
        if known:
            sent.base, sent.epoch = known[0], self.epoch
        else:
            self.append(sent)
        self.replicate(whole=True)
        self.answer(sent)
        answered = self.story.lines[-1]["type"] == "ok"
        if answered:
            self.sequence += len(first.values)
        self.again = None if answered else first

    # -- reads -----------------------------------------------------------------------------------------------------

    def poll(self, reader: int) -> None:
        node = self._leading()
        replica, at = self.replicas[node], self.positions[reader]
        common: dict[str, Any] = {"node": f"n{node}", "process": 9000 + reader, "epoch": replica.leads}
        where: dict[str, Any] = {**common, "consumer": f"c{reader}"}
        if at < self.start:
            self.story.poll(at, outcome="fail", error="OFFSET_OUT_OF_RANGE", log_start=self.start, **where)
            self.positions[reader] = self.start
            return
        if at > len(replica.log) and self.unclean:
            self.positions[reader] = 0
            return
        end = max(at, min(replica.hw, at + self.rng.randint(1, 6)))
        records = [(offset, replica.log[offset][0]) for offset in range(at, end)]
        self.story.poll(at, records, hw=max(replica.hw, self.start), log_start=self.start, **where)
        for record, offset in zip(self.story.lines[-1]["records"], range(at, end), strict=True):
            record["epoch"] = replica.log[offset][1]
        self.positions[reader] = end
        if self.rng.random() < 0.2:
            self.positions[reader] = self.rng.randint(self.start, end)

    def ask_end(self) -> None:
        lead = self.replicas[self.leader]
        if lead.hw >= lead.epoch_start:
            self.story.list_offsets(lead.hw, epoch=self.epoch, node=f"n{self.leader}", process=9100)

    # -- its life --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        moves: list[tuple[int, Callable[[], object]]] = [
            (10, self.begin_send),
            (12, lambda: self.append(self.rng.choice(self.open)) if self.open else None),
            (10, lambda: self.answer(self.rng.choice(self.open)) if self.open else None),
            (12, self.replicate),
            (14, lambda: self.poll(self.rng.randrange(3))),
            (4, self.ask_end),
            (3, self.send_again),
            (2, self.elect),
            (3, self.hear),
            (4 if self.age is not None else 0, self.retain),
            (1 if self.unclean else 0, self.elect_unclean),
        ]
        self.rng.choices([move for _, move in moves], [weight for weight, _ in moves])[0]()

    def finish(self) -> None:
        self.hear()
        while self.open:
            self.answer(self.open[0])
        self.replicate(whole=True)
        while True:
            sentinel = self.begin_send(acks=-1, to=self.leader, sentinel=True, phase="final")
            self.append(sentinel)
            self.replicate(whole=True)
            self.answer(sentinel)
            if self.story.lines[-1]["type"] == "ok":
                break
        end = len(self.log)
        for reader in ("wire", "confluent"):
            for at in range(self.start, end, 7):
                records = [(offset, self.log[offset][0]) for offset in range(at, min(at + 7, end))]
                self.story.poll(
                    at,
                    records,
                    hw=end,
                    epoch=self.epoch,
                    node=f"n{self.leader}",
                    log_start=self.start,
                    reader=reader,
                    consumer=f"d-{reader}",
                    phase="drain-current",
                    process=9800 + len(reader),
                )
                for record in self.story.lines[-1]["records"] if reader == "wire" else ():
                    record["epoch"] = self.log[record["offset"]][1]
            where: dict[str, Any] = {"leader": f"n{self.leader}", "phase": "drain-current"}
            self.story.drained(end, start=self.start, reader=reader, **where)


def random_log(
    rng: Random, topic: str, number: int, *, unclean: bool = False, age: int | None = None, steps: int = 200
) -> ModelLog:
    """number: of this one among several in one table."""
    model = ModelLog(rng, topic, number, unclean=unclean, age=age)
    for _ in range(steps):
        model.step()
    model.finish()
    return model
