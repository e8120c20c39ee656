"""A slow, plain twin of what judges lookups by time: loops over lists, shared with nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.twins import Op


class _Record(NamedTuple):
    offset: int
    stamp: int
    since: int
    epoch: int | None


def _records(ops: list[Op]) -> list[_Record]:
    """What certainly was committed, where and when that was known, and in which epoch it had been written."""
    found = []
    for op in ops:
        if op.f != "send" or "timestamp" not in op.request:
            continue
        for nth, value in enumerate(op.request["values"]):
            reads = [
                (one.done or 0, record["offset"], record["epoch"])
                for one in ops
                if one.f == "poll" and one.outcome == "ok"
                for record in one.response["records"]
                if record["value"] == value
            ]
            acked = op.outcome == "ok" and op.request["acks"] == -1
            places = {offset for _, offset, _ in reads} | ({op.response["base_offset"] + nth} if acked else set())
            if len(places) == 1:
                since = min([done for done, _, _ in reads] + ([op.done or 0] if acked else []))
                epochs = [epoch for _, _, epoch in reads if epoch >= 0]
                found.append(_Record(places.pop(), op.request["timestamp"], since, min(epochs, default=None)))
    return found


def _lookups(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.f == "list_offsets" and op.outcome == "ok" and op.request["timestamp"] >= 0]


def of_the_answer(ops: list[Op]) -> set[Any]:
    """Older than asked for, or of another time than the record there."""
    records = _records(ops)
    wrong = set()
    for op in _lookups(ops):
        offset, stamp = op.response["offset"], op.response["timestamp_answered"]
        there = {one.stamp for one in records if one.offset == offset}
        if offset >= 0 and (stamp < op.request["timestamp"] or (there and stamp not in there)):
            wrong.add(op.index)
    return wrong


def passed_over(ops: list[Op]) -> set[Any]:
    """Where nothing was deleted."""
    return {
        op.index
        for op in _lookups(ops)
        for record in _records(ops)
        if op.request["isolation"] == 0
        and (op.response["offset"] < 0 or record.offset < op.response["offset"])
        and record.stamp >= op.request["timestamp"]
        and record.since < op.invoked
        and record.epoch is not None
        and record.epoch <= op.request["leader_epoch"]
    }


def wrong_lookup(ops: list[Op]) -> set[Any]:
    return of_the_answer(ops) | passed_over(ops)
