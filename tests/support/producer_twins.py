"""Slow, plain twins of the checkers of producers, black box and white box: loops over lists, shared with nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.support.twins import Op

Row = dict[str, Any]


def _batches(ops: list[Op]) -> list[list[Op]]:
    """The requests of each batch, the first one first."""
    of: dict[int, list[Op]] = {}
    for op in ops:
        if op.f == "send" and op.request.get("sequence") is not None:
            of.setdefault(op.request.get("resends", op.index), []).append(op)
    return list(of.values())


def _offsets(requests: list[Op]) -> list[int]:
    return [op.response["base_offset"] for op in requests if op.outcome == "ok"]


def resend_offset(ops: list[Op]) -> set[Any]:
    return {requests[0].index for requests in _batches(ops) if len(set(_offsets(requests))) > 1}


def _place(requests: list[Op]) -> tuple[int, int, int]:
    first = requests[0].request
    return first["producer_id"], first["producer_epoch"], first["sequence"]


def _end(requests: list[Op]) -> int:
    return int(requests[0].request["sequence"]) + len(requests[0].request["values"])


def _taken(requests: list[Op]) -> bool:
    return any(op.outcome != "fail" or op.response["error"] == "DUPLICATE_SEQUENCE_NUMBER" for op in requests)


def _places(ops: list[Op]) -> dict[int, set[int]]:
    """Value → the offsets at which it was read."""
    found: dict[int, set[int]] = {}
    for op in ops:
        for offset, value, _ in op.records if op.f == "poll" and op.outcome == "ok" else ():
            if value is not None:
                found.setdefault(value, set()).add(offset)
    return found


def _stands(requests: list[Op], read: dict[int, set[int]]) -> int | None:
    """The offset of its first record, as acknowledged first, else as its first record was read; None: not known."""
    if _offsets(requests):
        return int(_first_ack(requests).response["base_offset"])
    offsets = read.get(min(requests[0].request["values"]), set())
    return min(offsets) if len(offsets) == 1 and _taken(requests) else None


def producer_order(ops: list[Op]) -> set[Any]:
    batches, read = _batches(ops), _places(ops)
    found = set()
    for one in batches:
        who, epoch, sequence = _place(one)
        same = [other for other in batches if other is not one and _place(other)[:2] == (who, epoch)]
        before = [other for other in same if _taken(other) and _end(other) == sequence]
        mine = _stands(one, read)
        if mine is not None:
            for other in batches:
                theirs, lower = _stands(other, read), _place(other)[1:] < (epoch, sequence)
                if _place(other)[0] == who and lower and theirs is not None and theirs >= mine:
                    found.add(one[0].index)
            if sequence > 0 and not before:
                found.add(one[0].index)
        first = one[0]
        error = first.response.get("error")
        acked_before = [o for o in before if _offsets(o) and (_first_ack(o).done or 0) < first.invoked]
        alone = not any(_place(other)[2] == sequence for other in same)
        if error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and acked_before and alone:
            found.add(first.index)
        higher = any(_place(other)[0] == who and _place(other)[1] > epoch for other in batches)
        if error == "INVALID_PRODUCER_EPOCH" and not higher:
            found.add(first.index)
    return found


def _first_ack(requests: list[Op]) -> Op:
    return min((op for op in requests if op.outcome == "ok"), key=lambda op: op.done or 0)


def producer_sequence(rows: Iterable[Row]) -> set[Any]:
    """(node, offset) of each batch that does not go on where its producer's last one ended."""
    found = set()
    last: dict[tuple[str, int], tuple[int, int]] = {}
    for row in sorted(rows, key=lambda row: (row["node"], row["file"], row["file_position"])):
        if row["control"] or row["producer_id"] < 0 or row["base_sequence"] < 0:
            continue
        who = (row["node"], row["producer_id"])
        epoch, due = last.get(who, (row["producer_epoch"], 0))
        if row["producer_epoch"] > epoch:
            due = 0
        if row["producer_epoch"] < epoch or row["base_sequence"] != due:
            found.add((row["node"], row["base"]))
        last[who] = (row["producer_epoch"], (row["base_sequence"] + row["records"]) % 2**31)
    return found
