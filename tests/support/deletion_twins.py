"""Slow, plain twins of what judges deletions: loops over lists, shared with nothing."""

from __future__ import annotations

from typing import Any

from tests.support.twins import Op

SETTLE_NS = 2_000_000_000


def _deletions(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.f == "delete_records"]


def _acked(ops: list[Op]) -> list[Op]:
    return [op for op in _deletions(ops) if op.outcome == "ok"]


def _settled(op: Op, interruptions: list[tuple[int, int]]) -> bool:
    done = op.invoked if op.done is None else op.done
    return all(op.invoked > until + SETTLE_NS or done + SETTLE_NS < since for since, until in interruptions)


def _start(op: Op) -> int | None:
    """The log start that a response names."""
    if op.outcome == "ok" and op.f == "poll" and op.response["log_start"] >= 0:
        return int(op.response["log_start"])
    if op.outcome == "ok" and op.f == "list_offsets" and op.request["timestamp"] == -2:
        return int(op.response["offset"])
    return None


def _low(op: Op) -> int | None:
    """The least offset that a response shows to be there."""
    shown = [] if _start(op) is None else [_start(op) or 0]
    if op.outcome == "ok" and op.f == "poll":
        shown += [op.request["position"], *(offset for offset, _, _ in op.records)]
    return min(shown, default=None)


def _epoch(op: Op) -> int:
    return int(op.request["leader_epoch"])


def shown(ops: list[Op], interruptions: list[tuple[int, int]]) -> set[Any]:
    """Reads that show what a settled deletion had deleted."""
    return {
        read.index
        for read in ops
        for deletion in _acked(ops)
        if _settled(deletion, interruptions)
        and (low := _low(read)) is not None
        and (deletion.done or 0) < read.invoked
        and low < deletion.request["before"]
    }


def back(ops: list[Op]) -> set[Any]:
    told = [(op, start) for op in ops if (start := _start(op)) is not None]
    return {
        b.index
        for a, high in told
        for b, low in told
        if _epoch(a) == _epoch(b) and (a.done or 0) < b.invoked and low < high
    }


def _reached(ops: list[Op]) -> int:
    """The furthest end that any response showed."""
    ends = [op.response["offset"] for op in ops if op.f == "list_offsets" and op.request["timestamp"] == -1]
    for op in ops:
        if op.f == "poll" and op.outcome == "ok":
            ends += [op.response["hw"], *(offset + 1 for offset, _, _ in op.records)]
    return max(ends, default=0)


def answers(ops: list[Op]) -> set[Any]:
    reached = _reached(ops)
    return {
        op.index
        for op in _acked(ops)
        if op.response["low_watermark"] < op.request["before"] or op.request["before"] > reached
    }


def deleted_records(ops: list[Op], interruptions: list[tuple[int, int]]) -> set[Any]:
    return shown(ops, interruptions) | back(ops) | answers(ops)


def lost_write(ops: list[Op]) -> set[Any]:
    """Acknowledged, read by nobody, and below a log start that no deletion explains; or passed over."""
    read = {value for op in ops if op.f == "poll" and op.outcome == "ok" for _, value, _ in op.records}
    lost = set()
    for op in ops:
        if op.f != "send" or op.outcome != "ok":
            continue
        for nth, value in enumerate(op.request["values"]):
            if value in read:
                continue
            offset = op.response["base_offset"] + nth
            polls = [one for one in ops if one.f == "poll" and one.outcome == "ok"]
            passed = any(one.request["position"] <= offset < one.response["next_position"] for one in polls)
            if passed or _gone_unasked(ops, op, offset):
                lost.add(value)
    return lost


def _gone_unasked(ops: list[Op], send: Op, offset: int) -> bool:
    """A response named a log start above it, and nobody had asked for its deletion when the first one did."""
    above = [op.done or 0 for op in ops if (_start(op) or 0) > offset and (op.done or 0) >= send.invoked]
    if not above:
        return False
    return not any(
        op.outcome != "fail"
        and op.request["before"] > offset
        and op.invoked <= min(above)
        and (op.outcome == "ok" or op.request["before"] <= _reached(ops))
        and (op.outcome != "ok" or (op.done or 0) >= send.invoked)
        for op in _deletions(ops)
    )
