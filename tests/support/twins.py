"""Slow, plain twins of the black-box checkers: loops over lists, quadratic where that is clearest. The oracle on
small histories.

Each takes one partition's operations and returns the set of what it finds; nothing here is shared with the checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Op:
    """An invocation with its completion. done: None when it never completed."""

    index: int
    f: str
    process: int
    invoked: int
    request: dict[str, Any]
    outcome: str = "info"
    done: int | None = None
    response: dict[str, Any] = field(default_factory=dict)

    @property
    def records(self) -> list[tuple[int, int | None, bool]]:
        return [(r["offset"], r["value"], r["intact"]) for r in self.response.get("records", [])]


def operations(lines: Iterable[dict[str, Any]]) -> list[Op]:
    ops: dict[int, Op] = {}
    for line in lines:
        if line["kind"] != "client":
            continue
        if line["type"] == "invoke":
            ops[line["index"]] = Op(line["index"], line["f"], line["process"], line["time_ns"], line)
        else:
            op = ops[line["invoke"]]
            op.outcome, op.done, op.response = line["type"], line["time_ns"], line
    return list(ops.values())


def _sends(ops: list[Op]) -> list[tuple[Op, int, int | None]]:
    """(operation, value, acknowledged offset)."""
    out: list[tuple[Op, int, int | None]] = []
    for op in ops:
        if op.f == "send":
            base = op.response.get("base_offset", -1) if op.outcome == "ok" else -1
            out += [(op, v, None if base < 0 else base + n) for n, v in enumerate(op.request["values"])]
    return out


def _polls(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.f == "poll" and op.outcome == "ok"]


def _reads(ops: list[Op]) -> list[tuple[Op, int, int | None, bool]]:
    return [(op, *record) for op in _polls(ops) for record in op.records]


def fabricated_value(ops: list[Op]) -> set[Any]:
    sent = {value: op for op, value, _ in _sends(ops)}
    return {
        value
        for op, _, value, intact in _reads(ops)
        if value is None or not intact or value not in sent or (op.done or 0) < sent[value].invoked
    }


def aborted_read(ops: list[Op]) -> set[Any]:
    failed = {value for op, value, _ in _sends(ops) if op.outcome == "fail"}
    return {value for _, _, value, _ in _reads(ops) if value in failed}


def _named(ops: list[Op]) -> list[tuple[int, int]]:
    """(offset, value) of every acknowledgement and every read."""
    acked = [(offset, value) for _, value, offset in _sends(ops) if offset is not None]
    return acked + [(offset, value) for _, offset, value, _ in _reads(ops) if value is not None]


def inconsistent_offset(ops: list[Op]) -> set[Any]:
    named = _named(ops)
    return {a for a, v in named for b, w in named if a == b and v != w}


def duplicate(ops: list[Op]) -> set[Any]:
    named = _named(ops)
    return {v for a, v in named for b, w in named if v == w and a != b}


def _unread(ops: list[Op]) -> list[tuple[int, int]]:
    read = {value for _, _, value, _ in _reads(ops)}
    return [(value, offset) for _, value, offset in _sends(ops) if offset is not None and value not in read]


def _covered(ops: list[Op], offset: int) -> bool:
    return any(op.request["position"] <= offset < op.response["next_position"] for op in _polls(ops))


def lost_write(ops: list[Op]) -> set[Any]:
    """Of what has an offset; where a record that was acknowledged without one is, only golden histories say."""
    return {value for value, offset in _unread(ops) if _covered(ops, offset)}


def lost_tail(ops: list[Op], drained: bool = True) -> set[Any]:
    end = max((op.response["next_position"] for op in _polls(ops)), default=0)
    return {v for v, offset in _unread(ops) if drained and not _covered(ops, offset) and offset >= end}


def _missing(ops: list[Op]) -> list[tuple[Op, int]]:
    """(poll, offset): somebody read something there, and the poll passed over it."""
    known = {offset for _, offset, _, _ in _reads(ops)}
    return [
        (op, offset)
        for op in _polls(ops)
        for offset in known
        if op.request["position"] <= offset < op.response["next_position"] and offset not in {r[0] for r in op.records}
    ]


def _first_read(ops: list[Op], offset: int) -> int:
    return min(op.done or 0 for op, at, _, _ in _reads(ops) if at == offset)


def vanished_read(ops: list[Op]) -> set[Any]:
    gone = {offset for op, offset in _missing(ops) if _first_read(ops, offset) < op.invoked}
    reads = _reads(ops)
    acks = [(op, offset, value) for op, value, offset in _sends(ops) if offset is not None]
    for op, offset, value, _ in reads:
        others = [(o, a, w) for o, a, w, _ in reads] + acks
        for other, at, held in others:
            if at == offset and held != value and None not in (held, value) and (op.done or 0) < other.invoked:
                gone.add(offset)
    return gone | _appended_again(ops)


def _appended_again(ops: list[Op]) -> set[int]:
    """Where a value that was sent again was read in records of two leader epochs."""
    sent = [value for _, value, _ in _sends(ops)]
    places = {
        (r["offset"], r["value"], r["epoch"])
        for op in _polls(ops)
        for r in op.response["records"]
        if r["epoch"] >= 0 and sent.count(r["value"]) > 1
    }
    return {at for at, v, e in places for other, w, f in places if (at, v) == (other, w) and e != f}


def int_poll_skip(ops: list[Op]) -> set[Any]:
    return {offset for op, offset in _missing(ops) if _first_read(ops, offset) >= op.invoked}


def int_nonmonotonic_poll(ops: list[Op]) -> set[Any]:
    odd = set()
    for op in _polls(ops):
        offsets = [offset for offset, _, _ in op.records]
        inside = all(op.request["position"] <= o < op.response["next_position"] for o in offsets)
        epochs = [r["epoch"] for r in op.response["records"] if r["epoch"] >= 0]
        to_come = op.request["leader_epoch"] >= 0 and max(epochs, default=-1) > op.request["leader_epoch"]
        if offsets != sorted(set(offsets)) or not inside or epochs != sorted(epochs) or to_come:
            odd.add(op.index)
    return odd


def _steps(ops: list[Op]) -> list[tuple[Op, Op]]:
    """Consecutive polls of one consumer that says what its own position is."""
    steps: list[tuple[Op, Op]] = []
    last: dict[str, Op] = {}
    for op in sorted(_polls(ops), key=lambda op: op.index):
        if op.request["consumer"] in last and op.request.get("client_position") is not None:
            steps.append((last[op.request["consumer"]], op))
        last[op.request["consumer"]] = op
    return steps


def poll_skip(ops: list[Op]) -> set[Any]:
    known = {offset for _, offset, _, _ in _reads(ops)}
    return {
        b.index
        for a, b in _steps(ops)
        if any(a.response["next_position"] <= offset < b.request["client_position"] for offset in known)
    }


def nonmonotonic_poll(ops: list[Op]) -> set[Any]:
    return {b.index for a, b in _steps(ops) if b.request["client_position"] < a.response["next_position"]}


def read_above_hw(ops: list[Op]) -> set[Any]:
    shown = _shown_ends(ops, "wire")
    bounds = [(op, epoch, end) for op, epoch, end in shown if op.f == "poll" or op.request["timestamp"] == -1]
    told = [(op, epoch, op.response["hw"] if op.f == "poll" else end) for op, epoch, end in bounds]
    return {
        a.index
        for a, in_epoch, end in shown + _returned_by_followers(ops) + _acknowledged_ends(ops)
        for b, epoch, hw in told
        if in_epoch == epoch and (a.done or 0) < b.invoked and hw < end
    }


def _shown_ends(ops: list[Op], *readers: str) -> list[tuple[Op, int, int]]:
    """(operation, leader epoch, end that its answer shows), of polls by these readers."""
    polls = [op for op in _polls(ops) if op.request["reader"] in readers]
    ends = [op for op in ops if op.f == "list_offsets" and op.outcome == "ok" and op.request["timestamp"] == -1]
    shown = [
        (op, op.request["leader_epoch"], max([op.response["hw"], *(r[0] + 1 for r in op.records)])) for op in polls
    ]
    shown += [(op, op.response["leader_epoch_answered"], op.response["offset"]) for op in ends]
    found = [op for op in ops if op.f == "list_offsets" and op.outcome == "ok" and op.request["timestamp"] >= 0]
    shown += [(op, op.request["leader_epoch"], op.response["offset"] + 1) for op in found if op.response["offset"] >= 0]
    return [(op, epoch, end) for op, epoch, end in shown if epoch >= 0]


def _returned_by_followers(ops: list[Op]) -> list[tuple[Op, int, int]]:
    """As `_shown_ends`, of records that a follower returned of the very leader epoch that it was in."""
    return [
        (op, record["epoch"], record["offset"] + 1)
        for op in _polls(ops)
        if op.request["reader"] == "follower"
        for record in op.response["records"]
        if record["epoch"] == op.request["leader_epoch"] >= 0
    ]


def _acknowledged_ends(ops: list[Op]) -> list[tuple[Op, int, int]]:
    """(send with acks=all, leader epoch, end that its acknowledgement shows): of a node that is heard in that epoch
    before and after it.
    """
    refused = [op for op in ops if op.f == "poll" and op.response.get("error") == "OFFSET_OUT_OF_RANGE"]
    answered = [
        *(op for op in _polls(ops) if op.request["reader"] == "wire"),
        *(op for op in ops if op.f == "list_offsets" and op.outcome == "ok"),
    ]
    heard = [
        (op, op.response.get("leader_epoch_answered", op.request["leader_epoch"]), op.request["node"])
        for op in answered + refused
    ]
    acked = [
        op for op in ops if op.f == "send" and op.request["acks"] == -1 and op.response.get("base_offset", -1) >= 0
    ]
    return [
        (send, epoch, send.response["base_offset"] + len(send.request["values"]))
        for send in acked
        for epoch in {epoch for _, epoch, _ in heard if epoch >= 0}
        if any(e == epoch and node == send.request["node"] and op.invoked > (send.done or 0) for op, e, node in heard)
        and (
            epoch == 0
            or any(
                e == epoch and node == send.request["node"] and (op.done or 0) < send.invoked for op, e, node in heard
            )
        )
    ]


def refused_read(ops: list[Op]) -> set[Any]:
    refused = [op for op in ops if op.f == "poll" and op.response.get("error") == "OFFSET_OUT_OF_RANGE"]
    return {
        b.index
        for b in refused
        if b.request["reader"] == "wire"
        for a, epoch, end in _shown_ends(ops, "wire", "follower") + _acknowledged_ends(ops)
        if epoch <= b.request["leader_epoch"] and (a.done or 0) < b.invoked and end >= b.request["position"]
    }


def nonmonotonic_end(ops: list[Op]) -> set[Any]:
    shown = _shown_ends(ops, "wire", "follower")
    return {
        b.index
        for b, in_epoch, told in shown
        if b.f == "list_offsets" and b.request["timestamp"] == -1
        for a, epoch, end in shown + _acknowledged_ends(ops)
        if epoch <= in_epoch and (a.done or 0) < b.invoked and end > told
    }


def nonmonotonic_send(ops: list[Op]) -> set[Any]:
    acked = [(op, value, offset) for op, value, offset in _sends(ops) if offset is not None]
    return {
        value
        for op, value, offset in acked
        for other, _, above in acked
        if other.process == op.process and other is not op and above >= offset and _stands_before(other, op)
    }


def _stands_before(one: Op, other: Op) -> bool:
    return one.invoked < other.invoked if one.request.get("in_order") else (one.done or 0) < other.invoked


def real_time_order(ops: list[Op]) -> set[Any]:
    placed: list[tuple[int, int, int, int]] = []
    committed: set[int] = set()
    for op, value, offset in _sends(ops):
        reads = [(at, o.done or 0) for o, at, v, _ in _reads(ops) if v == value]
        at = offset if offset is not None else min((a for a, _ in reads), default=None)
        if at is None:
            continue
        sure = [done for _, done in reads] + ([op.done or 0] if offset is not None else [])
        placed.append((value, at, op.invoked, min(sure)))
        if reads or op.request["acks"] == -1:
            committed.add(value)
    by_records = {v for v, at, invoked, _ in placed for _, other, _, sure in placed if other > at and sure < invoked}
    return by_records | {
        value
        for value, at, invoked, _ in placed
        if value in committed and any(told < invoked and end > at for told, end in _told_ends(ops))
    }


def _told_ends(ops: list[Op]) -> list[tuple[int, int]]:
    """(when it was told, end)."""
    told = [(op.done or 0, max(op.response["hw"], *(r[0] + 1 for r in op.records), _passed(op))) for op in _polls(ops)]
    asked = [op for op in ops if op.f == "list_offsets" and op.outcome == "ok" and op.request["timestamp"] == -1]
    return told + [(op.done or 0, op.response["offset"]) for op in asked]


def _passed(op: Op) -> int:
    after: int = op.response["next_position"]
    return after if after > op.request["position"] else 0


def _placed_batches(ops: list[Op]) -> list[tuple[Op, set[int]]]:
    """(send of several values, where by each value that was read, and at one offset, the first of them must stand)."""
    placed = []
    for op in ops:
        if op.f == "send" and len(op.request["values"]) > 1:
            bases = set()
            for nth, value in enumerate(op.request["values"]):
                offsets = {at for _, at, read, _ in _reads(ops) if read == value}
                if len(offsets) == 1:
                    bases.add(offsets.pop() - nth)
            placed.append((op, bases))
    return placed


def int_nonmonotonic_send(ops: list[Op]) -> set[Any]:
    return {op.index for op, bases in _placed_batches(ops) if len(bases) > 1}


def torn_batch(ops: list[Op]) -> set[Any]:
    """Of what nothing acknowledged; a part of what was is a lost write."""
    read = {value for _, _, value, _ in _reads(ops)}
    return {
        value
        for op, bases in _placed_batches(ops)
        if len(bases) == 1 and op.outcome != "fail" and op.response.get("base_offset", -1) < 0
        for nth, value in enumerate(op.request["values"])
        if value not in read and _covered(ops, min(bases) + nth)
    }


def hole(ops: list[Op]) -> set[Any]:
    starts = [op.response["log_start"] for op in _polls(ops)]
    found = set()
    for op in _polls(ops):
        start = op.response["log_start"] if op.request["reader"] == "wire" else max(starts)
        returned = {offset for offset, _, _ in op.records}
        first = min(returned, default=op.response["next_position"])
        begins = max(op.request["position"], min(start, first))
        if set(range(begins, op.response["next_position"])) - returned:
            found.add(op.index)
    return found


TWINS: dict[str, Callable[[list[Op]], set[Any]]] = {
    "fabricated-value": fabricated_value,
    "aborted-read": aborted_read,
    "inconsistent-offset": inconsistent_offset,
    "duplicate": duplicate,
    "lost-write": lost_write,
    "lost-tail": lost_tail,
    "torn-batch": torn_batch,
    "vanished-read": vanished_read,
    "hole": hole,
    "int-poll-skip": int_poll_skip,
    "int-nonmonotonic-poll": int_nonmonotonic_poll,
    "poll-skip": poll_skip,
    "nonmonotonic-poll": nonmonotonic_poll,
    "read-above-hw": read_above_hw,
    "refused-read": refused_read,
    "nonmonotonic-end": nonmonotonic_end,
    "nonmonotonic-send": nonmonotonic_send,
    "int-nonmonotonic-send": int_nonmonotonic_send,
    "real-time-order": real_time_order,
}
