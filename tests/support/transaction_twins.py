"""Slow, plain twins of the checkers of transactions: loops over lists. The oracle on small histories.

Each takes all lines of one run and returns the set of what it finds; nothing here is shared with the checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.support.twins import Op, operations

Lines = list[dict[str, Any]]


def _commits(ops: Iterable[Op], txn: int) -> list[Op]:
    return [op for op in ops if op.f == "end_txn" and op.request["txn"] == txn and op.request["commit"]]


def _fate(ops: Iterable[Op], txn: int) -> str:
    outcomes = [op.outcome for op in _commits(ops, txn)]
    if "ok" in outcomes:
        return "committed"
    return "unknown" if "info" in outcomes else "aborted"


def _sends(ops: list[Op]) -> list[tuple[Op, int, int | None, int | None]]:
    """(operation, value, acknowledged offset, source) of values sent in transactions."""
    out = []
    for op in ops:
        if op.f == "send" and op.request.get("txn") is not None:
            base = op.response.get("base_offset") if op.outcome == "ok" else None
            sources = op.request.get("sources") or [None] * len(op.request["values"])
            for nth, (value, source) in enumerate(zip(op.request["values"], sources, strict=True)):
                out.append((op, value, None if base is None else base + nth, source))
    return out


def _committed_polls(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.f == "poll" and op.outcome == "ok" and op.request["isolation"] == 1]


def _shown(ops: list[Op]) -> dict[int, int]:
    """Value → when read_committed first showed it."""
    shown: dict[int, int] = {}
    for op in _committed_polls(ops):
        for _, value, _ in op.records:
            if value is not None:
                shown[value] = min(shown.get(value, op.done or 0), op.done or 0)
    return shown


def aborted_transaction_read(lines: Lines) -> set[Any]:
    ops = operations(lines)
    shown = _shown(ops)
    return {value for op, value, _, _ in _sends(ops) if value in shown and _fate(ops, op.request["txn"]) == "aborted"}


def precommitted_read(lines: Lines) -> set[Any]:
    ops = operations(lines)
    shown = _shown(ops)
    return {
        value
        for op, value, _, _ in _sends(ops)
        if value in shown
        and _fate(ops, op.request["txn"]) != "aborted"
        and shown[value] < min(commit.invoked for commit in _commits(ops, op.request["txn"]))
    }


def _parts(lines: Lines) -> dict[int, tuple[int, int]]:
    """Transaction that is or may be committed → how many of its values read_committed shows, and passes over."""
    ops = operations(lines)
    shown = _shown(ops)
    parts: dict[int, tuple[int, int]] = {}
    for op, value, offset, _ in _sends(ops):
        txn = op.request["txn"]
        if offset is None or _fate(ops, txn) == "aborted":
            continue
        passed = any(
            poll.request["topic"] == op.request["topic"]
            and poll.request["position"] <= offset < poll.response["next_position"]
            for poll in _committed_polls(ops)
        )
        seen, hidden = parts.get(txn, (0, 0))
        parts[txn] = (seen + (value in shown), hidden + (passed and value not in shown))
    return parts


def torn_transaction(lines: Lines) -> set[Any]:
    return {txn for txn, (seen, hidden) in _parts(lines).items() if seen and hidden}


def committed_lost(lines: Lines) -> set[Any]:
    ops = operations(lines)
    return {
        txn for txn, (seen, hidden) in _parts(lines).items() if hidden and not seen and _fate(ops, txn) == "committed"
    }


def last_stable_offset(lines: Lines) -> set[Any]:
    ops = operations(lines)
    polls = [op for op in ops if op.f == "poll" and op.outcome == "ok" and op.request["reader"] == "wire"]

    def decided(op: Op) -> int:
        passed = int(op.response["next_position"]) if op.request["isolation"] == 1 else 0
        return max(int(op.response["lso"]), passed)

    fallen = {
        later.index
        for op in polls
        for later in polls
        if op.request["topic"] == later.request["topic"]
        and op.request["leader_epoch"] == later.request["leader_epoch"]
        and (op.done or 0) < later.invoked
        and min(later.response["lso"], later.response["hw"]) < decided(op)
    }
    told = [(op, int(op.response["lso"])) for op in polls]
    told += [(op, op.response["offset"]) for op in ops if op.f == "list_offsets" and op.request["isolation"] == 1]
    return fallen | {
        answer.index
        for send, _, offset, _ in _sends(ops)
        for answer, stable in told
        if offset is not None
        and offset < stable
        and answer.request["topic"] == send.request["topic"]
        and (send.done or 0) < answer.invoked
        and _fate(ops, send.request["txn"]) == "committed"
        and all((answer.done or 0) < commit.invoked for commit in _commits(ops, send.request["txn"]))
    }


def hanging_transaction(lines: Lines) -> set[Any]:
    ops = operations(lines)
    taken = {op.request["transactional_id"] for op in ops if op.f == "init_producer" and op.request["phase"] == "final"}
    writers = {
        (op.request["topic"], op.request["transactional_id"])
        for op in ops
        if op.f == "send" and op.request.get("transactional_id") is not None
    }
    last = [op for op in ops if op.f == "fetch_offsets" and op.request["phase"] == "final"]
    refused = {
        op.index
        for op in last
        if op.response.get("error") == "UNSTABLE_OFFSET_COMMIT"
        and (op.done or 0) - op.invoked >= 10_000_000_000
        and not any(other.outcome == "ok" for other in last)
    }
    return refused | {
        (line["topic"], line["partition"])
        for line in lines
        if line["f"] == "transactions-open"
        and line["start"] is not None
        and all(number in taken for topic, number in writers if topic == line["topic"])
    }


def transaction_offsets(lines: Lines) -> set[Any]:
    ops = operations(lines)
    sent = [op for op in ops if op.f == "txn_offsets"]
    found = set()
    shown: list[tuple[int, str, int]] = []
    fetches = [op for op in ops if op.f == "fetch_offsets" and op.outcome == "ok"]
    for fetch in sorted(fetches, key=lambda op: op.done or 0):
        for one in fetch.response["offsets"]:
            mine = [(op, o["offset"]) for op in sent for o in op.request["offsets"] if o["p"] == one["p"]]
            possible = [
                offset
                for op, offset in mine
                if op.outcome != "fail"
                and _fate(ops, op.request["txn"]) != "aborted"
                and min(commit.invoked for commit in _commits(ops, op.request["txn"])) < (fetch.done or 0)
            ]
            sure = [
                offset
                for op, offset in mine
                if op.outcome == "ok"
                and any(c.outcome == "ok" and (c.done or 0) < fetch.invoked for c in _commits(ops, op.request["txn"]))
            ]
            sure += [offset for done, p, offset in shown if p == one["p"] and done < fetch.invoked]
            if (one["offset"] >= 0 and one["offset"] not in possible) or one["offset"] < max(sure, default=-1):
                found.add((fetch.index, one["p"]))
            if one["offset"] in possible:
                shown.append((fetch.done or 0, one["p"], one["offset"]))
    return found


def exactly_once(lines: Lines) -> set[Any]:
    ops = operations(lines)
    shown = _shown(ops)
    ends = {
        one["p"]: one["offset"]
        for op in ops
        if op.f == "fetch_offsets" and op.outcome == "ok" and op.request["phase"] == "final"
        for one in op.response["offsets"]
    }
    sources = [source for _, value, _, source in _sends(ops) if source is not None and value in shown]
    found = set()
    for poll in _committed_polls(ops):
        end = ends.get(f"{poll.request['topic']}-{poll.request['partition']}")
        if end is None:
            continue
        records = [(offset, value) for offset, value, _ in poll.records if value is not None]
        found |= {value for offset, value in records if sources.count(value) != (1 if offset < end else 0)}
    return found


def fenced_producer(lines: Lines) -> set[Any]:
    ops = operations(lines)
    inits = [op for op in ops if op.f == "init_producer" and op.outcome == "ok"]

    def identity(op: Op) -> tuple[Any, ...]:
        has = op.response if op.f == "init_producer" else op.request
        return op.request["transactional_id"], has["producer_id"], has["producer_epoch"]

    found: set[Any] = set()
    for op in ops:
        if op.request.get("txn") is None or op.f == "poll" or op.outcome != "ok":
            continue
        if op.f == "end_txn" and not op.request["commit"]:
            continue
        own = [init.done or 0 for init in inits if identity(init) == identity(op)]
        others = [init for init in inits if init.request["transactional_id"] == op.request["transactional_id"]]
        if own and any(init.invoked > max(own) and (init.done or 0) < op.invoked for init in others):
            found.add(op.index)
    for first in inits:
        for second in inits:
            (_, number, epoch), (_, other, other_epoch) = identity(first), identity(second)
            same = second.index > first.index and other_epoch == epoch
            back = second.invoked > (first.done or 0) and other_epoch < epoch
            if number == other and (same or back):
                found.add((first.index, second.index))
    return found


TWINS: dict[str, Callable[[Lines], set[Any]]] = {
    "aborted-transaction-read": aborted_transaction_read,
    "precommitted-read": precommitted_read,
    "torn-transaction": torn_transaction,
    "committed-lost": committed_lost,
    "last-stable-offset": last_stable_offset,
    "hanging-transaction": hanging_transaction,
    "transaction-offsets": transaction_offsets,
    "exactly-once": exactly_once,
    "fenced-producer": fenced_producer,
}
