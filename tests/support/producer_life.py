"""Lives of idempotent producers and one leader, as a history and as the files of its replicas; and one anomaly planted.

The leader keeps Kafka's rules: sequences go on, a batch that it knows is answered with its offset, whatever else is
refused. Requests get lost on the way, and responses on the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.histories import Story
from tests.support.judging import Case

KNOWN = 5


@dataclass
class Batch:
    """op: its first request."""

    producer: int
    epoch: int
    sequence: int
    values: list[int]
    op: int = -1
    offset: int | None = None


@dataclass
class Producer:
    """One id. acked: under its epoch."""

    id: int
    epoch: int = 0
    sequence: int = 0
    acked: list[Batch] = field(default_factory=list)


class ProducerLife:
    """One partition."""

    def __init__(self, rng: Random, topic: str, nodes: tuple[str, ...] = ("n1", "n2")) -> None:
        self.rng, self.topic, self.nodes = rng, topic, nodes
        self.story = Story(topic)
        self.log: list[Batch] = []
        self.producers = [Producer(40), Producer(41)]
        self.next_value = 1
        self.process = 0

    @property
    def end(self) -> int:
        return sum(len(batch.values) for batch in self.log)

    def batch(self, who: Producer, sequence: int | None = None, epoch: int | None = None, records: int = 0) -> Batch:
        """A new one, by default the next."""
        count = records or self.rng.randint(1, 3)
        values = list(range(self.next_value, self.next_value + count))
        self.next_value += count
        return Batch(
            who.id, who.epoch if epoch is None else epoch, who.sequence if sequence is None else sequence, values
        )

    def append(self, batch: Batch) -> int:
        placed = Batch(batch.producer, batch.epoch, batch.sequence, batch.values, offset=self.end)
        self.log.append(placed)
        assert placed.offset is not None
        return placed.offset

    def request(self, batch: Batch, outcome: str, offset: int | None = None, error: str = "") -> None:
        self.process += 1
        again = {} if batch.op < 0 else {"resends": batch.op}
        op = self.story.send(
            batch.values,
            offset,
            outcome=outcome,
            process=self.process,
            producer_id=batch.producer,
            producer_epoch=batch.epoch,
            sequence=batch.sequence,
            **again,
        )
        if error:
            self.story.lines[-1]["error"] = error
        if batch.op < 0:
            batch.op = op

    def send(self, who: Producer) -> Batch:
        """The next batch, until it is acknowledged."""
        batch = self.batch(who)
        offset: int | None = None
        while True:
            fate = self.rng.random()
            if fate < 0.15:
                self.request(batch, "info")
                continue
            if offset is None:
                offset = self.append(batch)
            if fate < 0.3:
                self.request(batch, "info")
                continue
            self.request(batch, "ok", offset)
            break
        self.acknowledged(who, batch, offset)
        return batch

    def acknowledged(self, who: Producer, batch: Batch, offset: int) -> None:
        batch.offset = offset
        who.acked.append(batch)
        who.sequence = batch.sequence + len(batch.values)

    def repeat(self, who: Producer) -> None:
        if not who.acked:
            return
        batch = self.rng.choice(who.acked)
        if batch in who.acked[-KNOWN:]:
            self.request(batch, "ok", batch.offset)
        else:
            self.request(batch, "fail", error="OUT_OF_ORDER_SEQUENCE_NUMBER")

    def wrong(self, who: Producer) -> None:
        if who.acked and self.rng.random() < 0.5:
            self.request(self.batch(who, who.sequence + 1000), "fail", error="OUT_OF_ORDER_SEQUENCE_NUMBER")
        elif who.acked and who.epoch:
            self.request(self.batch(who, 3, who.epoch - 1), "fail", error="INVALID_PRODUCER_EPOCH")

    def bump(self, who: Producer) -> None:
        if who.acked:
            who.epoch, who.sequence, who.acked = who.epoch + 1, 0, []

    def step(self) -> None:
        who = self.rng.choice(self.producers)
        do = self.rng.choices((self.send, self.repeat, self.wrong, self.bump), (10, 4, 3, 1))[0]
        do(who)

    def case(self) -> Case:
        """All is read in the end."""
        records = [(nth, value) for nth, value in enumerate(value for batch in self.log for value in batch.values)]
        self.story.poll(0, records, process=5000)
        rows = [self._row(node, batch) for node in self.nodes for batch in self.log]
        return Case(self.story.lines, {"batches": rows})

    def _row(self, node: str, batch: Batch) -> dict[str, Any]:
        assert batch.offset is not None
        return {
            "node": f"{node}-{self.topic}",
            "p": f"{self.topic}-0",
            "file": f"{0:020d}.log",
            "file_position": 70 * batch.offset,
            "base": batch.offset,
            "last": batch.offset + len(batch.values) - 1,
            "epoch": 0,
            "producer_id": batch.producer,
            "producer_epoch": batch.epoch,
            "base_sequence": batch.sequence,
            "transactional": False,
            "control": False,
            "records": len(batch.values),
            "crc_ok": True,
            "digest": f"{batch.producer}:{batch.epoch}:{batch.sequence}:{batch.offset}",
            "values": batch.values,
        }


Plant = Callable[[ProducerLife, Producer], None]


def another_offset(life: ProducerLife, who: Producer) -> None:
    """A batch that the leader knows is answered with another offset: one below, as none above is committed."""
    batch = who.acked[-1]
    assert batch.offset is not None
    life.request(batch, "ok", batch.offset - 1)


def appended_again(life: ProducerLife, who: Producer) -> None:
    batch = who.acked[-1]
    life.request(batch, "ok", life.append(batch))


def overtaken(life: ProducerLife, who: Producer) -> None:
    """The later of two is taken first."""
    first, second = life.batch(who), life.batch(who, who.sequence, records=1)
    second.sequence = first.sequence + len(first.values)
    life.request(first, "info")
    life.request(second, "ok", life.append(second))
    life.request(first, "ok", life.append(first))
    who.sequence = second.sequence + 1


def late(life: ProducerLife, who: Producer) -> None:
    """The later of two is taken first, and nobody hears of the first one but who reads it."""
    first, second = life.batch(who), life.batch(who, who.sequence, records=1)
    second.sequence = first.sequence + len(first.values)
    life.request(first, "info")
    life.request(second, "ok", life.append(second))
    life.append(first)
    who.sequence = second.sequence + 1


def refused(life: ProducerLife, who: Producer) -> None:
    life.request(life.batch(who), "fail", error="OUT_OF_ORDER_SEQUENCE_NUMBER")
    life.bump(who)


def ahead_taken(life: ProducerLife, who: Producer) -> None:
    batch = life.batch(who, who.sequence + 1000)
    life.request(batch, "ok", life.append(batch))
    life.bump(who)


def stale_taken(life: ProducerLife, who: Producer) -> None:
    before = who.epoch, who.sequence
    life.bump(who)
    life.send(who)
    batch = life.batch(who, before[1], before[0])
    life.request(batch, "ok", life.append(batch))
    life.bump(who)


def one_replica_differs(life: ProducerLife, who: Producer) -> None:
    """What is planted is in the files of one replica: see `planted`."""


PLANTS: dict[str, tuple[Plant, frozenset[str]]] = {
    "another-offset": (another_offset, frozenset({"resend-offset"})),
    "appended-again": (appended_again, frozenset({"resend-offset", "duplicate", "producer-sequence"})),
    "overtaken": (overtaken, frozenset({"producer-order", "producer-sequence"})),
    "late": (late, frozenset({"producer-order", "producer-sequence"})),
    "refused": (refused, frozenset({"producer-order"})),
    "ahead-taken": (ahead_taken, frozenset({"producer-order", "producer-sequence"})),
    "stale-taken": (stale_taken, frozenset({"producer-order", "producer-sequence"})),
    "one-replica-differs": (one_replica_differs, frozenset({"producer-sequence"})),
}
"""Anomaly → how it comes about, and which checkers have to find it, and no others."""


def valid(rng: Random, topic: str, steps: int = 40) -> Case:
    life = ProducerLife(rng, topic)
    for _ in range(steps):
        life.step()
    return life.case()


def planted(rng: Random, topic: str, name: str, steps: int = 20) -> Case:
    life = ProducerLife(rng, topic)
    for _ in range(steps):
        life.step()
    who = rng.choice(life.producers)
    for _ in range(2):
        life.send(who)
    PLANTS[name][0](life, who)
    for _ in range(steps):
        life.step()
    case = life.case()
    if name == "one-replica-differs":
        rows = [row for row in case.tables["batches"] if row["node"].startswith("n2") and row["base"] > 0]
        rng.choice(rows)["base_sequence"] += 7
    return case
