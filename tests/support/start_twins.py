"""A slow, plain twin of what judges where logs begin: loops over lists, shared with nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkers.history.faults import Interruption
from tests.support.deletion_twins import settled, until
from tests.support.twins import Op

WRITTEN_NS = 2_000_000_000

Row = Mapping[str, Any]


def _start(node: str, batches: Sequence[Row], checkpoints: Sequence[Row]) -> int | None:
    """Where a replica begins; None where nothing says so."""
    bases = [row["base"] for row in batches if row["node"] == node]
    marks = [row["offset"] for row in checkpoints if row["node"] == node and row["kind"] == "log-start"]
    return max([min(bases), *marks]) if bases else None


def _asked(ops: Sequence[Op], offset: int, sent: int, gone: int, reached: int) -> bool:
    """Whether a client can have had that offset deleted between two times."""
    for op in ops:
        if op.f != "delete_records" or op.outcome == "fail" or op.request["before"] <= offset or op.invoked > gone:
            continue
        if op.outcome == "ok" and op.done is not None and op.done < sent:
            continue
        if op.outcome != "ok" and op.request["before"] > reached:
            continue
        return True
    return False


def above(
    ops: Sequence[Op], copied: Mapping[str, int], batches: Sequence[Row], checkpoints: Sequence[Row], reached: int
) -> set[str]:
    """Nodes whose replica begins above what anything deleted. copied: node → when its files were."""
    acked = [
        (op.response["base_offset"] + nth, op.invoked)
        for op in ops
        if op.f == "send" and op.outcome == "ok" and op.request["acks"] == -1
        for nth in range(len(op.request["values"]))
    ]
    found = set()
    for node in copied:
        start = _start(node, batches, checkpoints)
        below = [] if start is None else [one for one in acked if one[0] < start]
        if below:
            newest = max(offset for offset, _ in below)
            sent = min(at for offset, at in below if offset == newest)
            if not _asked(ops, newest, sent, copied[node], reached):
                found.add(node)
    return found


def below(
    ops: Sequence[Op],
    copied: Mapping[str, int],
    batches: Sequence[Row],
    checkpoints: Sequence[Row],
    spans: Sequence[Interruption],
) -> set[str]:
    """Nodes whose replica begins below what they surely knew to be deleted."""
    found = set()
    for op in ops:
        if op.f != "delete_records" or op.outcome != "ok" or op.done is None:
            continue
        for node, at in copied.items():
            if any(s.forgets and op.invoked <= until(s, list(spans)) and s.from_ns <= at for s in spans):
                continue
            start = _start(node, batches, checkpoints)
            upto = max(op.request["before"], op.response["low_watermark"])
            if start is None or start >= upto or op.done + WRITTEN_NS > at:
                continue
            if settled(op, node, list(spans)):
                found.add(node)
    return found
