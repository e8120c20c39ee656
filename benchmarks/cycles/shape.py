"""A made history of transactions: who writes what where and when, as numbers of the transaction alone.

Rounds of eight transactions on eight partitions, four under way at a time, one process each. Each transaction writes a
record to each of two partitions, which in a partition stand, with the marker behind each, in the order of the
transactions. After a round each partition is read to its last stable offset by a consumer of its own under
read_committed. All dependencies go forward in time, so that there is no cycle but those that are planted: two
transactions of one round each of which polls, and is shown, what the other one wrote (G1c).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from benchmarks.checkers.chunks import NULL, Columns, joined, same

TOPIC = "cycles"
PARTITIONS = 8
A_ROUND = 8
"""Transactions."""
_UNDER_WAY = 4
_OPS = 64
"""Numbers of operations that a round has at most."""
_STEP_NS = 1_000_000
"""Between the begins of two transactions."""
_AT_ONCE = 50_000
"""Rounds of one piece."""
PLANTED = 10

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Shape:
    """rounds: of eight transactions. seed: of where cycles are planted."""

    rounds: int
    seed: int

    @property
    def transactions(self) -> int:
        return self.rounds * A_ROUND

    def planted(self) -> list[int]:
        """Rounds whose first two transactions read each other."""
        return sorted(Random(self.seed).sample(range(self.rounds), PLANTED))

    def pieces(self) -> Iterator[tuple[int, int]]:
        """(first, end) of the rounds of each piece."""
        for first in range(0, self.rounds, _AT_ONCE):
            yield first, min(first + _AT_ONCE, self.rounds)


def shape_of(transactions: int, seed: int) -> Shape:
    """At least so many. Raises ValueError where cycles could not be planted apart."""
    rounds = -(-transactions // A_ROUND)
    if rounds < 10 * PLANTED:
        raise ValueError(f"{transactions} transactions are too few: {10 * PLANTED * A_ROUND} are the least")
    return Shape(rounds, seed)


def tables_of(shape: Shape, first: int, end: int) -> dict[str, Columns]:
    """Rows of the tables of a history in these rounds."""
    rounds: Numbers = np.arange(first, end, dtype=np.int64)
    mine = np.array([one for one in shape.planted() if first <= one < end], dtype=np.int64)
    ends_requests, ends_records = _reads_of_ends(rounds)
    own_requests, own_records = _reads_within(mine)
    return {
        "sends": joined([_sends(rounds, 0), _sends(rounds, 1)]),
        "coordination": _commits(rounds),
        "requests": joined([ends_requests, own_requests]),
        "polls": joined([ends_records, own_records]),
    }


def _numbers(rounds: Numbers) -> tuple[Numbers, Numbers]:
    """(round, which of its transactions) of each."""
    return np.repeat(rounds, A_ROUND), np.tile(np.arange(A_ROUND, dtype=np.int64), len(rounds))


def _place(round_: Numbers, j: Numbers, nth: int) -> tuple[Numbers, Numbers]:
    """(partition, offset) of the nth record of the transaction."""
    apart = 1 + round_ % (PARTITIONS - 1)
    p = j if nth == 0 else (j + apart) % PARTITIONS
    other = (j - apart) % PARTITIONS if nth == 0 else p
    return p, 4 * round_ + 2 * (other < j)


def _sends(rounds: Numbers, nth: int) -> Columns:
    round_, j = _numbers(rounds)
    txn = round_ * A_ROUND + j
    p, offset = _place(round_, j, nth)
    began = txn * _STEP_NS + (1 + nth) * _STEP_NS // 10
    return {
        "op": round_ * _OPS + 4 * j + nth,
        "process": txn % _UNDER_WAY,
        "p": _partitions(p),
        "txn": txn,
        "value": 2 * txn + nth,
        "offset": offset,
        "invoke_ns": began,
        "complete_ns": began + _STEP_NS // 2,
        **same(len(txn), f="send", phase="main", nth=0, of=1, outcome="ok", acks=-1, sentinel=False, node="n1"),
    }


def _commits(rounds: Numbers) -> Columns:
    round_, j = _numbers(rounds)
    txn = round_ * A_ROUND + j
    asked = txn * _STEP_NS + _STEP_NS * 7 // 2
    return {
        "op": round_ * _OPS + 4 * j + 2,
        "process": txn % _UNDER_WAY,
        "asked": txn,
        "invoke_ns": asked,
        "complete_ns": asked + _STEP_NS * 3 // 10,
        **same(len(txn), f="end_txn", phase="main", outcome="ok", node="n1"),
    }


def _reads_of_ends(rounds: Numbers) -> tuple[Columns, Columns]:
    """(requests, records): after a round, of each partition what the round wrote there."""
    round_, p = _numbers(rounds)
    began = ((round_ + 1) * A_ROUND - 1) * _STEP_NS + _STEP_NS * 385 // 100
    requests: Columns = {
        "op": round_ * _OPS + 4 * A_ROUND + p,
        "process": 1000 + p,
        "p": _partitions(p),
        "txn": np.full(len(p), NULL),
        "position": 4 * round_,
        "next_position": 4 * (round_ + 1),
        "lso": 4 * (round_ + 1),
        "returned": np.full(len(p), 2),
        "invoke_ns": began,
        "complete_ns": began + _STEP_NS // 5,
    }
    writer = joined([_written(rounds, 0), _written(rounds, 1)])
    op = writer["round"] * _OPS + 4 * A_ROUND + writer["p"]
    at = ((writer["round"] + 1) * A_ROUND - 1) * _STEP_NS + _STEP_NS * 385 // 100
    return _answered(requests), _records(op, writer, at)


def _written(rounds: Numbers, nth: int) -> Columns:
    round_, j = _numbers(rounds)
    p, offset = _place(round_, j, nth)
    return {"round": round_, "p": p, "offset": offset, "value": 2 * (round_ * A_ROUND + j) + nth}


def _reads_within(rounds: Numbers) -> tuple[Columns, Columns]:
    """(requests, records): in each of these rounds the first two transactions poll each other's first record. Neither
    reads to a last stable offset, so that nothing is said of what comes next.
    """
    both: list[tuple[Columns, Columns]] = []
    for reader, read in ((0, 1), (1, 0)):
        p, offset = _place(rounds, np.full(len(rounds), read, dtype=np.int64), 0)
        txn = rounds * A_ROUND + reader
        op = rounds * _OPS + 5 * A_ROUND + reader
        began = rounds * A_ROUND * _STEP_NS + 2 * _STEP_NS
        requests: Columns = {
            "op": op,
            "process": txn % _UNDER_WAY,
            "p": _partitions(p),
            "txn": txn,
            "position": offset,
            "next_position": offset + 1,
            "lso": offset + 3,
            "returned": np.full(len(rounds), 1),
            "invoke_ns": began,
            "complete_ns": began + _STEP_NS // 5,
        }
        what: Columns = {"p": p, "offset": offset, "value": 2 * (rounds * A_ROUND + read)}
        both.append((_answered(requests), _records(op, what, began)))
    return joined([requests for requests, _ in both]), joined([records for _, records in both])


def _answered(requests: Columns) -> Columns:
    n = len(requests["op"])
    return {**requests, **same(n, f="poll", phase="main", outcome="ok", isolation=1, node="n1", reader="wire")}


def _records(op: Numbers, what: Columns, began: Numbers) -> Columns:
    return {
        "op": op,
        "p": _partitions(what["p"]),
        "offset": what["offset"],
        "value": what["value"],
        "invoke_ns": began,
        "complete_ns": began + _STEP_NS // 5,
        **same(len(op), phase="main", isolation=1, intact=True, node="n1", reader="wire"),
    }


def _partitions(p: Numbers) -> Any:
    names = np.array([f"{TOPIC}-{number}" for number in range(PARTITIONS)], dtype=object)
    return names[p]
