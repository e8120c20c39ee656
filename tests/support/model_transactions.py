"""A broker that keeps every rule of transactions, told as history: one partition of a topic, one of its output topic.

Producers send plainly or in transactions, processors consume, transform and produce, readers poll under both isolation
levels. Producers take each other's ids, and who was fenced goes on and is refused; commits stay without an answer. What
it writes must be judged valid; tests then change lines and require that exactly that is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.support.histories import OUT, Story

GROUP = "group"
IDS = 8
"""Transactional ids, more than transactions that are open at once."""


@dataclass(frozen=True)
class Entry:
    """value: None for a marker. txn: None for a plain record."""

    value: int | None
    txn: int | None


@dataclass(frozen=True)
class Producer:
    """Which transactional id has which epoch in a transaction."""

    number: int
    epoch: int


class TransactionalModel:
    """One broker's two logs. Each process sends in one transaction at a time, and each id is of one at a time."""

    def __init__(self, topic: str) -> None:
        self.story = Story(topic)
        self.topic, self.out = topic, topic + OUT
        self.logs: dict[str, list[Entry]] = {self.topic: [], self.out: []}
        self.fates: dict[int, bool] = {}
        self.committed = -1
        self._offsets: dict[int, int] = {}
        self._producers: dict[int, Producer] = {}
        self._epochs: dict[int, int] = defaultdict(lambda: -1)
        self._sequences: dict[tuple[Producer, str], int] = defaultdict(int)
        self._next_value = 0
        self._next_txn = 0
        self._processes = 100

    # -- producers -------------------------------------------------------------------------------------------------

    def fresh(self, count: int = 1) -> list[int]:
        """Values that nobody has sent."""
        self._next_value += count
        return list(range(self._next_value - count + 1, self._next_value + 1))

    def plain(self, topic: str | None = None, **fields: Any) -> int:
        """A send of one value in no transaction; returns the value."""
        topic, values = topic or self.topic, self.fresh()
        base = len(self.logs[topic])
        self.logs[topic].append(Entry(values[0], None))
        self.story.send(values, base, topic=topic, **fields)
        return values[0]

    def begin(self, number: int | None = None) -> int:
        """A new transaction, by a producer that takes an id that is free, or that one; then it adds the partitions."""
        self._next_txn += 1
        if number is None:
            taken = {self._producers[txn].number for txn in self._producers.keys() - self.fates.keys()}
            number = min(set(range(IDS)) - taken, key=lambda one: (self._epochs[one], one))
        self._producers[self._next_txn] = self._init(number, process=10 + self._next_txn)
        self.add(self._next_txn)
        return self._next_txn

    def _init(self, number: int, **fields: Any) -> Producer:
        self._epochs[number] += 1
        got = Producer(number, self._epochs[number])
        answer = {"producer_id": 1 + number, "producer_epoch": got.epoch}
        self.story.coordinate("init_producer", answer=answer, transactional_id=f"id{number}", **fields)
        return got

    def _of(self, txn: int) -> dict[str, Any]:
        producer = self._producers[txn]
        return {
            "transactional_id": f"id{producer.number}",
            "txn": txn,
            "producer_id": 1 + producer.number,
            "producer_epoch": producer.epoch,
            "process": 10 + txn,
        }

    def add(self, txn: int, outcome: str = "ok") -> None:
        """AddPartitionsToTxn."""
        self.story.coordinate("add_partitions", outcome=outcome, partitions=[f"{self.topic}-0"], **self._of(txn))

    def send(
        self, txn: int, count: int = 1, topic: str | None = None, sources: Sequence[int] | None = None
    ) -> list[int]:
        """A send of the transaction; returns its values."""
        topic, values = topic or self.topic, self.fresh(count)
        base, lane = len(self.logs[topic]), (self._producers[txn], topic)
        self.logs[topic] += [Entry(value, txn) for value in values]
        extra: dict[str, Any] = {} if sources is None else {"sources": list(sources)}
        self.story.send(values, base, topic=topic, sequence=self._sequences[lane], **extra, **self._of(txn))
        self._sequences[lane] += count
        return values

    def end(self, txn: int, *, commit: bool, asked: bool = True, answered: bool = True) -> None:
        """Markers wherever it wrote. asked: by its producer; else its coordinator aborts it by itself. Not answered: a
        commit is asked for, and comes to pass or not.
        """
        if not answered:
            self.story.coordinate("end_txn", outcome="info", commit=True, **self._of(txn))
        elif asked:
            self.story.coordinate("end_txn", commit=commit, **self._of(txn))
        self._decide(txn, commit=commit)

    def _decide(self, txn: int, *, commit: bool) -> None:
        self.fates[txn] = commit
        for log in self.logs.values():
            if any(entry.txn == txn for entry in log):
                log.append(Entry(None, txn))
        if commit and txn in self._offsets:
            self.committed = self._offsets[txn]

    def take_over(self, txn: int) -> int:
        """Another producer takes the id of a transaction that is open, which aborts it; returns its transaction."""
        self._decide(txn, commit=False)
        return self.begin(self._producers[txn].number)

    def go_on(self, txn: int) -> None:
        """The producer of that transaction, which was fenced, tries to add, to send and to commit all the same."""
        self.add(txn, "fail")
        values = self.fresh()
        lane = (self._producers[txn], self.topic)
        self.story.send(values, outcome="fail", sequence=self._sequences[lane], **self._of(txn))
        self.story.lines[-1]["error"] = "INVALID_PRODUCER_EPOCH"
        self.story.coordinate("end_txn", outcome="fail", commit=True, **self._of(txn))

    # -- readers ---------------------------------------------------------------------------------------------------

    def stable(self, topic: str) -> int:
        """The last stable offset."""
        log = self.logs[topic]
        is_open = (at for at, entry in enumerate(log) if entry.txn is not None and entry.txn not in self.fates)
        return next(is_open, len(log))

    def poll(
        self, position: int, isolation: int, *, topic: str | None = None, limit: int = 10, **fields: Any
    ) -> list[int]:
        """Returns the values, and under `next` in the history where the next poll begins."""
        topic = topic or self.topic
        log, stable = self.logs[topic], self.stable(topic)
        end = max(position, min(position + limit, stable if isolation else len(log)))
        records = [
            (at, entry.value)
            for at, entry in enumerate(log[position:end], position)
            if entry.value is not None and (not isolation or entry.txn is None or self.fates[entry.txn])
        ]
        self._processes += 1
        self.story.poll(
            position,
            records,
            next_position=end,
            hw=len(log),
            lso=stable,
            isolation=isolation,
            topic=topic,
            process=fields.pop("process", self._processes),
            consumer=fields.pop("consumer", f"c{self._processes}"),
            **fields,
        )
        return [value for _, value in records]

    # -- processors ------------------------------------------------------------------------------------------------

    def fetch_offsets(self, **fields: Any) -> None:
        """Only called while no transaction with offsets is open: others are refused."""
        p = f"{self.topic}-0"
        self._processes += 1
        answer = {"offsets": [{"p": p, "offset": self.committed}]}
        self.story.coordinate(
            "fetch_offsets", answer=answer, group=GROUP, partitions=[p], process=self._processes, **fields
        )

    def process(self, *, commit: bool, limit: int = 5) -> None:
        """Consume, transform, produce, from the committed offset on."""
        txn, position = self.begin(), max(0, self.committed)
        self.fetch_offsets()
        before = self.stable(self.topic)
        inputs = self.poll(position, 1, limit=limit, txn=txn, group=GROUP, process=10 + txn)
        if inputs:
            self.send(txn, len(inputs), self.out, inputs)
        end = max(position, min(position + limit, before))
        self.story.coordinate("add_offsets", group=GROUP, **self._of(txn))
        offsets = [{"p": f"{self.topic}-0", "offset": end}]
        self.story.coordinate("txn_offsets", group=GROUP, member="", generation=-1, offsets=offsets, **self._of(txn))
        self._offsets[txn] = end
        self.end(txn, commit=commit)

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Every transaction is over by now: each id is taken once more, then marks, last offsets, sentinels, and drains
        under both isolation levels.
        """
        for number in list(self._epochs):
            self._init(number, phase="final", process=9)
        for topic in self.logs:
            assert self.stable(topic) == len(self.logs[topic])
            end = len(self.logs[topic])
            self.story.harness("transactions-ended", topic=topic, partition=0, start=end, end=end, phase="final")
        self.fetch_offsets(phase="final")
        for topic in self.logs:
            self.plain(topic, sentinel=True, phase="final")
        for topic, log in self.logs.items():
            for isolation in (0, 1):
                for reader in ("wire", "confluent"):
                    where: dict[str, Any] = {"reader": reader, "phase": "drain-current"}
                    self.poll(0, isolation, topic=topic, limit=len(log), **where)
                    self.story.drained(len(log), topic=topic, isolation=isolation, **where)


def random_transactions(rng: Random, topic: str, steps: int = 40) -> TransactionalModel:
    """Plain sends, transactions that overlap, zombies, processors and readers in random order; then the end."""
    model = TransactionalModel(topic)
    open_: list[int] = []
    zombies: list[int] = []
    for first in (True, False):
        txn = model.begin()
        model.send(txn, 2)
        model.end(txn, commit=first)
    model.process(commit=True)
    zombies.append(model.begin())
    model.send(zombies[0])
    model.poll(0, 0)
    model.end(model.take_over(zombies[0]), commit=True)
    positions = [0, 0, 0, 0]
    for _ in range(steps):
        draw = rng.random()
        if draw < 0.2:
            model.plain()
        elif draw < 0.35 and len(open_) < 3:
            open_.append(model.begin())
        elif draw < 0.55 and open_:
            model.send(rng.choice(open_), rng.choice((1, 1, 3)))
        elif draw < 0.7 and open_:
            txn = open_.pop(rng.randrange(len(open_)))
            commit = rng.random() < 0.7
            model.end(txn, commit=commit, asked=commit or rng.random() < 0.7, answered=rng.random() < 0.8)
        elif draw < 0.74 and open_:
            zombies.append(open_.pop(rng.randrange(len(open_))))
            open_.append(model.take_over(zombies[-1]))
        elif draw < 0.8:
            model.go_on(rng.choice(zombies))
        elif draw < 0.86:
            model.process(commit=rng.random() < 0.7)
        else:
            reader = rng.randrange(4)
            isolation, topic = reader % 2, (model.topic, model.out)[reader // 2]
            model.poll(positions[reader], isolation, topic=topic, consumer=f"r{reader}", process=90 + reader)
            positions[reader] = model.story.lines[-1]["next_position"]
    for txn in open_:
        model.end(txn, commit=False, asked=rng.random() < 0.5)
    model.go_on(zombies[0])
    model.poll(0, 1, limit=1000)
    model.process(commit=True, limit=1000)
    model.fetch_offsets()
    model.finish()
    return model
