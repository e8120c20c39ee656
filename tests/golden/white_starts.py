"""Changes of a run in where the replicas' logs begin, and what was deleted of them."""

from __future__ import annotations

from typing import Any

from tests.golden.limits import RETENTION_MS
from tests.golden.white_parts import last_event, put_after
from tests.support.histories import TICK_NS
from tests.support.judging import Case

FIRST = 2
"""What is deleted lies below."""
_WRITTEN = 5_000
"""Ticks: more than a broker has to write a log start down."""


def _delete(case: Case, before: int) -> None:
    """The last thing that a client does."""
    at_ns = max(line["time_ns"] for line in case.history) + TICK_NS
    index = len(case.history)
    place = next({"topic": line["topic"], "node": line["node"]} for line in case.history if line["f"] == "send")
    asked: dict[str, Any] = {"process": 900, "kind": "client", "f": "delete_records", "phase": "final", "partition": 0}
    asked |= place
    case.history.append({**asked, "type": "invoke", "index": index, "time_ns": at_ns, "before": before})
    done = {"type": "ok", "index": index + 1, "invoke": index, "time_ns": at_ns + TICK_NS, "low_watermark": before}
    case.history.append({**asked, **done})


def _copied(case: Case, *, after: int = _WRITTEN) -> None:
    """The files of each node, so many ticks after everything."""
    at_ns = max(line["time_ns"] for line in case.history) + after * TICK_NS
    for node in sorted({row["node"] for row in case.tables["batches"]}):
        said = {"type": "info", "process": -2, "kind": "harness", "f": "evidence", "phase": "final", "node": node}
        case.history.append({**said, "index": len(case.history), "time_ns": at_ns})


def _begin_at(case: Case, first: int) -> None:
    case.tables["batches"] = [row for row in case.tables["batches"] if row["base"] >= first]


def _marked(case: Case, start: int) -> None:
    """By the checkpoints of log starts; the files still hold what lies below."""
    for node in sorted({row["node"] for row in case.tables["batches"]}):
        row = {"node": node, "kind": "log-start", "p": case.tables["batches"][0]["p"], "position": 0}
        case.tables["checkpoints"].append({**row, "epoch": None, "offset": start, "problem": None})


def deleted(case: Case) -> None:
    """On request, and gone everywhere."""
    _delete(case, FIRST)
    _begin_at(case, FIRST)
    _copied(case)


def head_gone(case: Case) -> None:
    """Everywhere, and nobody asked for it."""
    _begin_at(case, FIRST)
    _copied(case)


def head_old(case: Case) -> None:
    """The same, and retention can have deleted it before the files were copied."""
    _begin_at(case, FIRST)
    _copied(case, after=2 * RETENTION_MS)


def more_than_was_asked(case: Case) -> None:
    _delete(case, FIRST)
    _begin_at(case, FIRST + 1)
    _copied(case)


def checkpoint_too_high(case: Case) -> None:
    _delete(case, FIRST)
    _marked(case, FIRST + 1)
    _copied(case)


def deleted_by_checkpoint(case: Case) -> None:
    _delete(case, FIRST)
    _marked(case, FIRST)
    _copied(case)


def still_there(case: Case) -> None:
    """What was deleted is in every file, and no checkpoint says that it begins later."""
    _delete(case, FIRST)
    _copied(case)


def not_yet_written(case: Case) -> None:
    """The same, and the files were copied before the brokers had to write it down."""
    _delete(case, FIRST)
    _copied(case, after=500)


def told_to_go(case: Case) -> None:
    """The same, and each replica was once told to go: it began anew as its leader did."""
    _delete(case, FIRST)
    for broker in sorted({event["b"] for event in case.tables["events"]}):
        last = last_event(case, b=broker)
        put_after(case, last, {"e": "stop_replica", "p": case.tables["batches"][0]["p"], "delete": True})
    _copied(case)
