"""Slow, plain twins of what judges deletions: loops over lists, shared with nothing."""

from __future__ import annotations

from typing import Any

from checkers.history.faults import Interruption
from tests.support.twins import Op

SETTLE_NS = 2_000_000_000


def _deletions(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.f == "delete_records"]


def _acked(ops: list[Op]) -> list[Op]:
    return [op for op in _deletions(ops) if op.outcome == "ok"]


def _wire(op: Op) -> bool:
    return bool(op.request.get("reader", "wire") == "wire")


def _of(span: Interruption, node: str | None) -> bool:
    return node is None or span.nodes is None or node in span.nodes


def _took(span: Interruption, node: str | None) -> bool:
    """Whether the broker may have been killed in it, or counted as dead."""
    nodes = span.nodes if span.gone is None or span.forgets else span.gone
    return nodes is None or (bool(nodes) if node is None else node in nodes)


def until(span: Interruption, spans: list[Interruption]) -> int:
    """Its end, or that of the last one that follows it, each within SETTLE_NS of another's."""
    end, again = span.until_ns, True
    while again:
        reached = max([end, *(one.until_ns for one in spans if span.from_ns <= one.from_ns <= end + SETTLE_NS)])
        end, again = reached, reached > end
    return end


def settled(op: Op, node: str | None, spans: list[Interruption]) -> bool:
    """Whether a broker surely knew of a deletion, and wrote it down."""
    done = op.invoked if op.done is None else op.done
    for span in spans:
        if op.invoked - SETTLE_NS > until(span, spans):
            continue
        if _took(span, node) and span.from_ns <= done + SETTLE_NS:
            return False
        if _of(span, op.request["node"]) and span.from_ns <= op.invoked:
            return False
    return True


def _changed(node: str | None, after: int, by: int, spans: list[Interruption]) -> bool:
    return any(span.forgets and _of(span, node) and after < span.from_ns <= by for span in spans)


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
        shown += [offset for offset, _, _ in op.records]
        shown += [op.request["position"]] if _wire(op) else []
    return min(shown, default=None)


def _epoch(op: Op) -> int:
    return int(op.request["leader_epoch"])


def shown(ops: list[Op], spans: list[Interruption]) -> set[Any]:
    """Reads that show what a deletion, settled for who was asked, had deleted."""
    found = set()
    for read in ops:
        low, node = _low(read), read.request["node"] if _wire(read) else None
        for deletion in _acked(ops):
            upto = max(deletion.request["before"], deletion.response["low_watermark"])
            if low is None or low >= upto or (deletion.done or 0) >= read.invoked:
                continue
            if settled(deletion, node, spans) and not _changed(node, deletion.invoked, read.done or 0, spans):
                found.add(read.index)
    return found


def forgot(ops: list[Op], spans: list[Interruption]) -> set[Any]:
    """Reads of a broker that show an offset below a log start that it had given."""
    found = set()
    for told in ops:
        start, node = _start(told), told.request.get("node")
        if start is None or not _wire(told):
            continue
        written = (told.done or 0) + SETTLE_NS
        if any(_took(one, node) and one.from_ns <= written and told.invoked <= until(one, spans) for one in spans):
            continue
        for later in ops:
            low = _low(later)
            if later.request["node"] != node or not _wire(later) or low is None or low >= start:
                continue
            if _epoch(later) == _epoch(told) or (told.done or 0) >= later.invoked:
                continue
            if not _changed(node, told.invoked, later.done or 0, spans):
                found.add(later.index)
    return found


def back(ops: list[Op]) -> set[Any]:
    told = [(op, start) for op in ops if (start := _start(op)) is not None]
    shown_later = [(op, low) for op in ops if _wire(op) and (low := _low(op)) is not None]
    return {
        b.index
        for a, high in told
        for b, low in shown_later
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
        if op.response["low_watermark"] < op.request["before"]
        or op.request["before"] > min(reached, _sent_by(ops, op.done or 0))
    }


def _sent_by(ops: list[Op], at: int) -> int:
    """How many records can have stood in the log by then."""
    return sum(len(op.request["values"]) for op in ops if op.f == "send" and op.outcome != "fail" and op.invoked <= at)


def deleted_records(ops: list[Op], spans: list[Interruption]) -> set[Any]:
    return shown(ops, spans) | forgot(ops, spans) | back(ops) | answers(ops)


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
            passing = [
                one
                for one in ops
                if one.f == "poll"
                and one.outcome == "ok"
                and one.request["position"] <= offset < one.response["next_position"]
            ]
            jumped = [one for one in passing if _jumped(ops, one, offset)]
            if len(passing) > len(jumped) or _gone_unasked(ops, op, offset, jumped):
                lost.add(value)
    return lost


def _jumped(ops: list[Op], poll: Op, offset: int) -> bool:
    """Whether a real client may have passed over it because the log began above it."""
    landed = min((at for at, _, _ in poll.records if at > offset), default=None)
    told = max((_start(one) or 0 for one in ops), default=0)
    return not _wire(poll) and landed is not None and landed <= told


def _gone_unasked(ops: list[Op], send: Op, offset: int, jumped: list[Op]) -> bool:
    """A response named a log start above it, or a client jumped to one, and nobody had asked for its deletion by the
    first of these.
    """
    above = [
        op.done or 0 for op in ops if ((_start(op) or 0) > offset or op in jumped) and (op.done or 0) >= send.invoked
    ]
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
