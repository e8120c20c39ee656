"""A broker that keeps every rule of transactions, told as history: several partitions, and transactions that send to,
and poll, any of them. What tests order its operations into decides which of them depend on each other in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.support.histories import Story


@dataclass(frozen=True)
class Entry:
    """A record of a transaction; value None: its marker."""

    value: int | None
    txn: int


class CycleModel:
    """Each partition's log, and what is decided. A transaction is of one process; processes send one at a time."""

    def __init__(self, topic: str, partitions: int = 2) -> None:
        self.story = Story(topic)
        self.logs: list[list[Entry]] = [[] for _ in range(partitions)]
        self.fates: dict[int, bool] = {}
        self.process_of: dict[int, int] = {}
        self._sequences: dict[tuple[int, int], int] = defaultdict(int)
        self._next_value = self._next_txn = 0
        self._next_process = 100

    def fresh_process(self) -> int:
        """One that has done nothing yet."""
        self._next_process += 1
        return self._next_process

    def begin(self, process: int | None = None) -> int:
        """A new transaction; of a fresh process unless one is named."""
        self._next_txn += 1
        self.process_of[self._next_txn] = self.fresh_process() if process is None else process
        return self._next_txn

    def _of(self, txn: int) -> dict[str, Any]:
        process = self.process_of[txn]
        who = {"transactional_id": f"id{process}", "producer_id": process, "producer_epoch": 0}
        return {"txn": txn, "process": process, **who}

    def send(self, txn: int, partition: int, count: int = 1) -> None:
        """Fresh values at the end of the partition."""
        values = list(range(self._next_value + 1, self._next_value + count + 1))
        self._next_value += count
        log, lane = self.logs[partition], (self.process_of[txn], partition)
        base = len(log)
        log += [Entry(value, txn) for value in values]
        sequence = self._sequences[lane]
        self._sequences[lane] += count
        self.story.send(values, base, partition=partition, sequence=sequence, **self._of(txn))

    def stable(self, partition: int) -> int:
        """The last stable offset."""
        log = self.logs[partition]
        return next((at for at, entry in enumerate(log) if entry.txn not in self.fates), len(log))

    def poll(
        self,
        partition: int,
        *,
        txn: int | None = None,
        process: int | None = None,
        position: int = 0,
        limit: int = 1000,
        dirty: bool = False,
        **fields: Any,
    ) -> None:
        """Under read_committed, by a transaction or by itself. dirty: of what is not decided too, which is wrong."""
        log, stable = self.logs[partition], self.stable(partition)
        end = max(position, min(position + limit, len(log) if dirty else stable))
        records = [
            (at, entry.value)
            for at, entry in enumerate(log[position:end], position)
            if entry.value is not None and self.fates.get(entry.txn, dirty)
        ]
        reader: dict[str, Any] = {"txn": txn, "process": self.process_of[txn]} if txn is not None else {}
        if txn is None:
            reader["process"] = self.fresh_process() if process is None else process
        self.story.poll(
            position,
            records,
            next_position=end,
            hw=len(log),
            lso=max(stable, end),
            isolation=1,
            partition=partition,
            consumer=f"c{reader['process']}",
            **reader,
            **fields,
        )

    def end(self, txn: int, *, commit: bool = True, answered: bool = True) -> None:
        """Markers wherever it wrote. Not answered: it comes to pass, or not, and nobody is told."""
        outcome = "ok" if answered else "info"
        self.story.coordinate("end_txn", outcome=outcome, commit=commit or not answered, **self._of(txn))
        self.fates[txn] = commit
        for log in self.logs:
            if any(entry.txn == txn for entry in log):
                log.append(Entry(None, txn))

    def one_by_one(self, rng: Random, count: int = 3) -> None:
        """Transactions that do not overlap: nothing of them is on a cycle."""
        for _ in range(count):
            txn = self.begin()
            for partition in rng.sample(range(len(self.logs)), len(self.logs)):
                self.poll(partition, txn=txn)
                self.send(txn, partition, rng.choice((1, 2)))
            self.end(txn)
            for partition in range(len(self.logs)):
                self.poll(partition)


def random_cycles(rng: Random, topic: str, *, steps: int = 40, partitions: int = 3) -> CycleModel:
    """Transactions of a few processes that overlap as they will, and readers."""
    model = CycleModel(topic, partitions)
    model.one_by_one(rng, 1)
    processes = [model.fresh_process() for _ in range(3)]
    readers = [model.fresh_process() for _ in range(2)]
    running: dict[int, int] = {}
    for _ in range(steps):
        draw, process = rng.random(), rng.choice(processes)
        partition = rng.randrange(partitions)
        if draw < 0.15:
            model.poll(partition, process=rng.choice(readers), limit=rng.choice((2, 1000)))
        elif process not in running:
            running[process] = model.begin(process)
            model.send(running[process], partition)
        elif draw < 0.45:
            model.send(running[process], partition, rng.choice((1, 2)))
        elif draw < 0.7:
            model.poll(partition, txn=running[process], limit=rng.choice((3, 1000)))
        else:
            answered = rng.random() < 0.85
            model.end(running.pop(process), commit=rng.random() < 0.8, answered=answered)
            if not answered:
                # Nobody goes on after that.
                processes[processes.index(process)] = model.fresh_process()
    for txn in running.values():
        model.end(txn)
    for partition in range(partitions):
        model.poll(partition)
    return model
