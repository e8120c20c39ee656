"""What is missing of the record that a verdict rests on, per source, and what a system cannot have.

Decides unknown and not applicable; judges nothing. `ORDERED` sources are those in which a line that is missing can make
a sound one look wrong. A segment file proves what it holds, whatever other nodes lack; of a node that was copied in
part no file is judged (checkers/coverage/incidents.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkers.coverage.compacted import unfit
from checkers.coverage.imported import beyond
from checkers.coverage.incidents import uncopied_evidence
from checkers.evidence.prepare import Prepared
from checkers.history.health import HistoryHealth
from checkers.history.run_info import RunInfo
from checkers.verdicts.catalogue import BY_NAME
from checkers.verdicts.spec import Spec
from checkers.verdicts.verdict import SENT_TWICE, Row

ORDERED = frozenset({"history", "events", "zookeeper"})


def missing_evidence_of(
    info: RunInfo,
    health: HistoryHealth,
    prepared: Prepared,
    rows: Sequence[Row],
    marks: Sequence[Mapping[str, Any]],
) -> dict[str, list[str]]:
    """Source → what is missing of it. A doubtful event log counts as missing for all rules that rest on event logs, and
    a history some of whose records nobody can tell apart as not whole: what rules find may come of that.
    """
    missing_evidence = {source: list(texts) for source, texts in prepared.missing_evidence.items()}
    for source, texts in uncopied_evidence(marks, info).items():
        missing_evidence.setdefault(source, []).extend(texts)
    missing_evidence.setdefault("history", []).extend(history_problems(info, health))
    doubted = {
        "events": [row.detail for row in rows if row.checker == "event-log" and row.kind == "unknown"],
        "history": [row.detail for row in rows if row.rule == SENT_TWICE],
    }
    for source, doubts in doubted.items():
        if doubts:
            more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
            missing_evidence.setdefault(source, []).append(f"{doubts[0]}{more}")
    if info.system_kind == "highwater" and not info.event_log:
        missing_evidence.setdefault("events", []).append("the run had its event logs switched off")
    return missing_evidence


def wanted(spec: Spec, info: RunInfo) -> bool:
    """What some workloads alone have is judged only where a workload names it."""
    return info.wants(spec.name) and not (spec.own and info.checkers is None)


def clients_resend(info: RunInfo) -> bool:
    """Whether real clients send what the run judges: they may send it again by themselves."""
    return any(wanted(BY_NAME[name], info) for name in ("at-most-once", "at-least-once", "exactly-once"))


def not_applicable(spec: Spec, info: RunInfo, rows: Sequence[Row]) -> str | None:
    """Only where this type of system or of workload has no such evidence; a highwater run without it is unknown.

    rows: this checker's.
    """
    if info.imported and (why := beyond(spec.name)) is not None:
        return why
    if "own_positions" in spec.needs and not _figure(rows, "own_positions"):
        return "no consumer keeps a position of its own through a change of leader or a failed poll of the main phase"
    if "ends_judged" in spec.needs and info.scripted and not _figure(rows, "ends_judged"):
        return "the script requests no end of a log"
    if unfit(spec.name, info) and not info.compacted:
        return "the brokers stamp the records: which one is as new as a time, no client knows"
    if "batches_read" in spec.needs and _figure(rows, "values_sent") and not _figure(rows, "batches_sent"):
        return "no send had several records"
    if spec.name == "hole" and _figure(rows, "polls") and not _figure(rows, "polls_judged"):
        return "every partition has transactions, whose markers take offsets"
    if unfit(spec.name, info):
        return "the topic is compacted: records go on purpose, and of each replica by itself"
    if info.system_kind == "highwater" or info.event_log:
        return None
    if spec.name == "event-log" or ("events" in spec.sources and "zookeeper" not in spec.sources):
        return f"{info.system_kind} keeps no event log"
    return None


def _figure(rows: Sequence[Row], name: str) -> bool:
    """Whether any partition has that figure, above 0."""
    return any(row.figure for row in rows if row.kind == "figure" and row.detail == name)


def history_problems(info: RunInfo, health: HistoryHealth) -> list[str]:
    """Why the history is not whole. One that lost its end differs from a shorter one only by what run.json says."""
    readable = health.lines - health.torn
    if info.lines is None or info.lines == readable:
        return list(health.problems)
    return [*health.problems, f"the history has {readable} lines, and run.json says {info.lines}"]


def run_reasons(info: RunInfo, health: HistoryHealth) -> list[str]:
    """Why no verdict of the whole run can be valid."""
    reasons = history_problems(info, health)
    if info.aborted is not None:
        reasons.append(f"the run was aborted: {info.aborted}")
    elif not info.finished:
        reasons.append("the run did not finish")
    if info.lacking:
        reasons.append(f"run.json does not say {', '.join(info.lacking)}")
    return reasons
