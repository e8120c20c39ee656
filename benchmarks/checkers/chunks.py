"""The columns of one piece of a history: what is sent, asked and read in some blocks of one partition; pure.

Only columns that hold something: readers take the others as null. All is drawn from the seed and the piece's place, so
that pieces can be made in any order, by any number of processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.checkers.planted import OUTCOMES, Anomaly, changes, denied_end
from benchmarks.checkers.shape import (
    BATCH,
    BLOCK,
    END,
    FAILED,
    POLL,
    PROCESSES,
    READERS,
    ROUND_NS,
    ROUNDS,
    SEND_LATENCY_NS,
    SENDS,
    TOPIC,
    Shape,
    Unit,
)

Column = np.ndarray[Any, np.dtype[Any]]
Columns = dict[str, Column]
Tables = dict[str, Columns]
"""Table of the history → its columns, as in checkers/history/tables.py."""

UNKNOWN_SENDS = 0.02
"""Share of the load's sends whose answer is lost, though they stand in the log."""
_POLL_NS, _END_NS, _LATE_NS = 300_000, 400_000, 25_000_000
_QUICK_NS = 2_000_000
"""Latency of a send that is late: done before its process sends again."""
NULL = -(1 << 62)
"""Stands for null in columns of numbers."""
NOT_KNOWN = -1
"""A leader epoch that a real client does not tell."""


def tables_of(shape: Shape, unit: Unit, anomalies: Iterable[Anomaly]) -> Tables:
    """Tables of one piece, rows in the order of their operations."""
    mine = [one for one in anomalies if one.p == unit.p and unit.first <= one.block < unit.last]
    rng = np.random.default_rng([shape.seed, READERS.index(unit.reader), unit.p, unit.first])
    if unit.reader != "main":
        return _read(_drains(shape, unit), shape, unit, mine)
    sends = _sends(shape, unit, mine, rng)
    reads = _read(_polls(shape, unit, mine), shape, unit, mine)
    return {
        "sends": _values(sends, unit),
        "requests": _in_order(joined([reads["requests"], _ends(shape, unit, mine)]), "op"),
        "polls": reads["polls"],
        "ops": _in_order(joined([_ops_of_sends(sends), reads["ops"], _ops_of(_ends(shape, unit, mine))]), "op"),
    }


def _sends(shape: Shape, unit: Unit, anomalies: Sequence[Anomaly], rng: np.random.Generator) -> Columns:
    """One row per send of the load, and per one that fails; `first` is the first of its values."""
    rounds: Column = np.arange(unit.first * ROUNDS, unit.last * ROUNDS)
    n = len(rounds)
    invoke: Column = rounds * ROUND_NS + rng.integers(0, ROUND_NS * 9 // 10, n)
    latency = rng.integers(*SEND_LATENCY_NS, n)
    outcome = np.where(rng.random(n) < UNKNOWN_SENDS, "info", "ok").astype(object)
    process = unit.p * PROCESSES + rounds % PROCESSES
    for one in anomalies:
        at = (one.block - unit.first) * ROUNDS + one.round_
        outcome[at] = OUTCOMES.get(one.kind, outcome[at])
        if one.kind in ("real-time-order", "nonmonotonic-send"):
            # Those that stand above it were acknowledged before this one began, and surely.
            outcome[at + 1] = "ok"
            invoke[at], latency[at] = rounds[at] * ROUND_NS + _LATE_NS, _QUICK_NS
        if one.kind == "nonmonotonic-send":
            process[at] = process[at + 1]
    nodes = _nodes(shape, unit.p, rounds)
    taken: Columns = {
        "op": shape.line(shape.in_block(unit.p, rounds // ROUNDS, SENDS) + rounds % ROUNDS),
        "process": process,
        "node": nodes,
        "first": shape.value(unit.p, rounds),
        "base_offset": np.where(outcome == "ok", rounds * BATCH, NULL),
        "outcome": outcome,
        "error": _error(outcome, {"info": "timeout", "fail": "NOT_ENOUGH_REPLICAS"}),
        "invoke_ns": invoke,
        "complete_ns": invoke + latency,
    }
    blocks: Column = np.arange(unit.first, unit.last)
    begun = blocks * ROUNDS * ROUND_NS + rng.integers(0, ROUND_NS, len(blocks))
    refused: Columns = {
        "op": shape.line(shape.in_block(unit.p, blocks, FAILED)),
        "process": np.full(len(blocks), 5000 + unit.p),
        "node": _nodes(shape, unit.p, blocks * ROUNDS),
        "first": shape.failed_value(unit.p, blocks),
        "base_offset": np.full(len(blocks), NULL),
        "outcome": _text("fail", len(blocks)),
        "error": _text("NOT_ENOUGH_REPLICAS", len(blocks)),
        "invoke_ns": begun,
        "complete_ns": begun + _POLL_NS,
    }
    whole = _in_order(joined([taken, refused]), "op")
    n = len(whole["op"])
    return {**whole, **same(n, f="send", phase="main", p=f"{TOPIC}-{unit.p}", acks=-1, sentinel=False)}


def _values(sends: Columns, unit: Unit) -> Columns:
    """One row per value of these sends."""
    rows = {name: np.repeat(column, BATCH) for name, column in sends.items()}
    nth = np.tile(np.arange(BATCH), len(sends["op"]))
    base = rows.pop("base_offset")
    rows.pop("f")
    rows |= {"value": rows.pop("first") + nth, "nth": nth, "offset": np.where(base == NULL, NULL, base + nth)}
    return {**rows, **same(len(nth), of=BATCH, in_order=False, tombstone=False)}


def _ops_of_sends(sends: Columns) -> Columns:
    rows = {name: column for name, column in sends.items() if name != "first"}
    return {**rows, "n_values": np.full(len(rows["op"]), BATCH)}


def _polls(shape: Shape, unit: Unit, anomalies: Sequence[Anomaly]) -> Columns:
    """One row per poll of the load."""
    blocks: Column = np.arange(unit.first, unit.last)
    rounds = shape.poll_round(blocks)
    polls: Columns = {
        "op": shape.line(shape.in_block(unit.p, blocks, POLL)),
        "block": blocks.copy(),
        "hw": shape.end_at(rounds),
        "leader_epoch": _epochs(shape, rounds),
        "node": _nodes(shape, unit.p, rounds),
        "outcome": _text("ok", len(blocks)),
        "error": _text(None, len(blocks)),
        "invoke_ns": rounds * ROUND_NS,
        "complete_ns": rounds * ROUND_NS + _POLL_NS,
    }
    for one in anomalies:
        at = one.block - unit.first
        if one.kind == "skipped-poll":
            polls["outcome"][at], polls["error"][at] = "fail", "NOT_LEADER_OR_FOLLOWER"
        if one.kind == "repeated-poll":
            polls["block"][at] -= 1
        if one.kind == "read-above-hw":
            polls["hw"][at] = denied_end(one)
    n = len(blocks)
    own = {"client_position": polls["block"] * BLOCK}
    return {**polls, **own, **same(n, phase="main", process=1000 + unit.p, reader="wire", consumer=f"main-{unit.p}")}


def _drains(shape: Shape, unit: Unit) -> Columns:
    """One row per poll of a drain."""
    blocks: Column = np.arange(unit.first, unit.last)
    wire = unit.reader == "wire"
    n = len(blocks)
    begun = shape.drains_ns + (0 if wire else (shape.blocks + 2) * ROUND_NS) + blocks * ROUND_NS
    epoch = shape.epoch(shape.rounds)
    polls: Columns = {
        "op": shape.line(shape.drain(unit.reader, unit.p, blocks)),
        "block": blocks,
        "hw": np.full(n, shape.end + 1),
        "leader_epoch": np.full(n, epoch if wire else NOT_KNOWN),
        "node": _text(shape.node(unit.p, epoch), n),
        "outcome": _text("ok", n),
        "error": _text(None, n),
        "invoke_ns": begun,
        "complete_ns": begun + _POLL_NS,
    }
    own: Columns = {} if wire else {"client_position": blocks * BLOCK}
    process = (2000 if wire else 3000) + unit.p
    consumer = f"drain-{unit.reader}-{unit.p}"
    return {
        **polls,
        **own,
        **same(n, phase="drain-current", process=process, reader=unit.reader, consumer=consumer),
    }


def _ends(shape: Shape, unit: Unit, anomalies: Sequence[Anomaly]) -> Columns:
    """One row per request for the end; one of them may be a poll that is refused."""
    blocks: Column = np.arange(unit.first, unit.last)
    n = len(blocks)
    rounds = shape.poll_round(blocks)
    epochs = _epochs(shape, rounds)
    rows: Columns = {
        "op": shape.line(shape.in_block(unit.p, blocks, END)),
        "f": _text("list_offsets", n),
        "node": _nodes(shape, unit.p, rounds),
        "consumer": _text(None, n),
        "leader_epoch": epochs,
        "leader_epoch_answered": epochs.copy(),
        "timestamp": np.full(n, -1),
        "end_offset": shape.end_at(rounds),
        "position": np.full(n, NULL),
        "outcome": _text("ok", n),
        "error": _text(None, n),
        "invoke_ns": rounds * ROUND_NS + _END_NS,
        "complete_ns": rounds * ROUND_NS + _END_NS + _POLL_NS,
    }
    for one in anomalies:
        at = one.block - unit.first
        if one.kind == "nonmonotonic-end":
            rows["end_offset"][at] = denied_end(one)
        if one.kind == "read-above-hw":
            # Right before the poll, so that it is this end which the watermark denies, and no acknowledgement.
            rows["invoke_ns"][at] -= 2 * _END_NS
            rows["complete_ns"][at] -= 2 * _END_NS
        if one.kind == "refused-read":
            rows["f"][at], rows["consumer"][at], rows["position"][at] = "poll", "refused", one.block * BLOCK
            rows["outcome"][at], rows["error"][at] = "fail", "OFFSET_OUT_OF_RANGE"
            rows["timestamp"][at] = rows["end_offset"][at] = rows["leader_epoch_answered"][at] = NULL
    common = same(n, phase="main", process=4000 + unit.p, p=f"{TOPIC}-{unit.p}", reader="wire", isolation=0)
    return {**rows, **common, **same(n, returned=0, in_range=0, ascending=True, epochs_ascend=True)}


def _read(polls: Columns, shape: Shape, unit: Unit, anomalies: Sequence[Anomaly]) -> Tables:
    """Requests, operations and records of these polls: what their reader finds in the blocks that they are of."""
    ok = polls["outcome"] == "ok"
    n = len(ok)
    offsets: Column = (polls["block"][:, None] * BLOCK + np.arange(BLOCK)[None, :]).ravel()
    values = shape.value_at(unit.p, offsets)
    there = np.repeat(ok, BLOCK)
    begin = unit.first * BLOCK
    for one in anomalies:
        for change in changes(shape, one, unit.reader):
            at = change.offset - begin
            there[at] &= change.value is not None
            values[at] = values[at] if change.value is None else change.value
        if one.kind == "disordered-poll" and unit.reader == "main":
            at = one.offset - begin
            pair, turned = [at, at + 1], [at + 1, at]
            offsets[pair], values[pair] = offsets[turned], values[turned]
    poll = np.repeat(np.arange(n), BLOCK)[there]
    offsets, values = offsets[there], values[there]
    returned = np.bincount(poll, minlength=n)
    nth = np.arange(len(poll)) - np.repeat(np.cumsum(returned) - returned, returned)
    position, following = polls["block"] * BLOCK, (polls["block"] + 1) * BLOCK
    least, most = np.full(n, np.iinfo(np.int64).max), np.full(n, NULL)
    np.minimum.at(least, poll, offsets)
    np.maximum.at(most, poll, offsets)
    falls = np.zeros(n, dtype=bool)
    falls[poll[1:][(np.diff(offsets) <= 0) & (np.diff(poll) == 0)]] = True
    epochs = _epochs(shape, offsets // BATCH) if unit.reader != "confluent" else np.full(len(offsets), NOT_KNOWN)
    back, highest = np.zeros(n, dtype=bool), np.full(n, NULL)
    back[poll[1:][(np.diff(epochs) < 0) & (np.diff(poll) == 0)]] = True
    np.maximum.at(highest, poll, epochs)
    common = {**polls, **same(n, f="poll", p=f"{TOPIC}-{unit.p}", isolation=0)}
    common.pop("block")
    requests: Columns = {
        **common,
        "position": position,
        "next_position": np.where(ok, following, NULL),
        "hw": np.where(ok, common["hw"], NULL),
        "lso": np.where(ok, common["hw"], NULL),
        "log_start": np.where(ok, 0, NULL),
        "returned": returned,
        "in_range": returned,
        "first_offset": np.where(returned > 0, least, NULL),
        "last_offset": most,
        "ascending": ~falls,
        "epochs_ascend": ~back,
        "highest_epoch": np.where(highest >= 0, highest, NULL),
    }
    names = ("op", "process", "phase", "p", "node", "reader", "consumer", "isolation", "leader_epoch")
    records = {name: common[name][poll] for name in (*names, "invoke_ns", "complete_ns")}
    intact = np.ones(len(nth), dtype=bool)
    records |= {"nth": nth, "offset": offsets, "value": values, "epoch": epochs, "intact": intact}
    return {"requests": requests, "polls": records, "ops": _ops_of(requests)}


def _ops_of(requests: Columns) -> Columns:
    names = ("op", "f", "process", "phase", "p", "node", "invoke_ns", "complete_ns", "outcome", "error")
    n = len(requests["op"])
    return {name: requests[name] for name in names} | same(n, sentinel=False, n_values=0)


def _epochs(shape: Shape, rounds: Column) -> Column:
    begins = np.array([shape.epoch_begins(epoch) for epoch in range(1, shape.epoch(shape.rounds) + 1)])
    return np.searchsorted(begins, rounds, side="right")


def _nodes(shape: Shape, p: int, rounds: Column) -> Column:
    names = np.array([shape.node(p, epoch) for epoch in range(shape.epoch(shape.rounds) + 1)], dtype=object)
    named: Column = names[_epochs(shape, rounds)]
    return named


def _error(outcome: Column, by: Mapping[str, str]) -> Column:
    errors = _text(None, len(outcome))
    for name, error in by.items():
        errors[outcome == name] = error
    return errors


def _text(value: str | None, n: int) -> Column:
    return np.full(n, value, dtype=object)


def same(n: int, **values: Any) -> Columns:
    """Columns of one value each."""
    return {name: _text(value, n) if isinstance(value, str) else np.full(n, value) for name, value in values.items()}


def joined(parts: Sequence[Columns]) -> Columns:
    """Rows of all parts; a column that a part lacks is null there."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    kinds = {name: next(part[name].dtype for part in parts if name in part) for name in names}
    return {
        name: np.concatenate([part[name] if name in part else _null(kinds[name], len(part["op"])) for part in parts])
        for name in names
    }


def _null(kind: np.dtype[Any], n: int) -> Column:
    return _text(None, n) if kind.hasobject else np.full(n, NULL)


def _in_order(rows: Columns, by: str) -> Columns:
    order = np.argsort(rows[by], kind="stable")
    return {name: column[order] for name, column in rows.items()}
