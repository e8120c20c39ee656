"""Counterexamples as stories: what was found of one record, by whom, and what happened to it step by step.

Decides which witnesses are one finding, which steps belong to it, and their causal order. Takes run.json, results.json
and series.json; series may be empty, and then a story has no more than the operations and faults. Knows neither page
nor terminal. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report import background
from harness.report.circle import circle
from harness.report.curves import Timeline
from harness.report.model import fault_name
from harness.report.steps import Step, Subject, causal, of_operation
from harness.report.words import broker_names, value_name

MOST_STEPS = 40
"""Of one story: more than that nobody reads. Changes of the in-sync set are left out first, then other surroundings."""
_KINDS = ("invalid", "unknown", "allowed")
_LEFT_OUT_FIRST = (("isr",), ("election", "healed"), ("fault",), ("copy", "commit", "append", "cut"))
_BEFORE_S = 1.0
"""So long before the first operation a story begins: what led to it is often shortly before."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one checker says of it. kind: `invalid`, `unknown` or `allowed`."""

    checker: str
    title: str
    summary: str
    kind: str


@dataclass(frozen=True, slots=True)
class Finding:
    """All that was found of one record, or of one place of a log.

    steps: in causal order; left_out: how many there were beside them. holdings: what each node's files hold at that
    offset in the end, in sentences. span: (from, to) in seconds, None where no time is known. operations, evidence: as
    in results.json, each once. circle: of transactions that depend on each other in a cycle, its dependencies.
    """

    title: str
    claims: tuple[Claim, ...]
    kind: str
    partition: str | None
    offset: int | None
    faults: tuple[str, ...]
    span: tuple[float, float] | None
    steps: tuple[Step, ...]
    left_out: int
    holdings: tuple[str, ...]
    operations: tuple[Mapping[str, Any], ...]
    evidence: tuple[Mapping[str, Any], ...]
    circle: tuple[Step, ...] = ()


def findings(run: Mapping[str, Any], results: Mapping[str, Any], series: Mapping[str, Any]) -> list[Finding]:
    """What breaks a promise first, then what is unknown, then what was allowed; each of these by its time."""
    grouped: dict[object, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for name, checker in sorted(results.get("checkers", {}).items()):
        for nth, witness in enumerate(checker.get("witnesses", ())):
            title = str(checker.get("title", name))
            grouped.setdefault(_about(witness) or (name, nth), []).append((name, title, witness))
    found = [_finding(group, run, results, series) for group in grouped.values()]
    return sorted(found, key=lambda one: (_KINDS.index(one.kind), one.span is None, one.span or (0.0, 0.0)))


def _about(witness: Mapping[str, Any]) -> tuple[object, ...] | None:
    """What is the same for witnesses of one record; None where a witness names none."""
    p, offset, value = (witness.get(name) for name in ("partition", "offset", "value"))
    if p is None or (offset is None and value is None):
        return None
    return (p, "offset", offset) if offset is not None else (p, "value", value)


def _finding(
    group: Sequence[tuple[str, str, Mapping[str, Any]]],
    run: Mapping[str, Any],
    results: Mapping[str, Any],
    series: Mapping[str, Any],
) -> Finding:
    witnesses = [witness for _, _, witness in group]
    first = witnesses[0]
    p, offset = first.get("partition"), first.get("offset")
    value = next((w["value"] for w in witnesses if w.get("value") is not None), None)
    names = {str(key): str(name) for key, name in (results.get("names") or {}).items()}
    timeline = Timeline(series.get("partitions", {}).get(p, {}), int(series.get("duration_ns", 0)))
    operations = _once(line for witness in witnesses for line in witness.get("operations", ()))
    evidence = _once(row for witness in witnesses for row in witness.get("evidence", ()))
    subject = Subject(p, offset, value, names, lambda q, t_s: _epoch(timeline, t_s) if q == p else None)
    own = [step for lines in _by_operation(operations) for step in of_operation(lines, subject)]
    span = _span(witnesses, own)
    faults = {fault["fault_id"]: fault for fault in results.get("faults", ())}
    named = sorted({fault_id for witness in witnesses for fault_id in witness.get("faults", ())})
    around = _around(run, results, series, timeline, p, offset, span, own) if p is not None else []
    if p is None and span is not None:
        around = background.of_faults(results.get("faults", ()), *span)
    steps, left_out = _shortened(own, around)
    claims = [
        Claim(name, title, str(witness["summary"]), str(witness.get("kind") or "invalid"))
        for name, title, witness in sorted(group, key=lambda one: _cause_first(results, *one))
    ]
    return Finding(
        title=_title(group[0][1], p, offset, value, names),
        claims=tuple(dict.fromkeys(claims)),
        kind=min((claim.kind for claim in claims), key=lambda kind: _KINDS.index(kind)),
        partition=p,
        offset=offset,
        faults=tuple(fault_name(faults[n]) if n in faults else f"fault {n}" for n in named),
        span=span,
        steps=tuple(steps),
        left_out=left_out,
        holdings=tuple(_holding(row, offset, names) for row in evidence),
        operations=tuple(operations),
        evidence=tuple(evidence),
        circle=circle(first.get("cycle", ())),
    )


def _cause_first(results: Mapping[str, Any], name: str, _title: str, witness: Mapping[str, Any]) -> tuple[bool, int]:
    """What nodes did leads to what clients saw."""
    return results["checkers"][name].get("family") != "white-box", witness.get("to_ns") or 0


def _around(
    run: Mapping[str, Any],
    results: Mapping[str, Any],
    series: Mapping[str, Any],
    timeline: Timeline,
    p: str,
    offset: int | None,
    span: tuple[float, float] | None,
    own: Sequence[Step],
) -> list[Step]:
    """What the nodes did meanwhile, so far as the series know it."""
    names = broker_names(run)
    acked = [step.at_s for step in own if step.kind == "ack"]
    logs: list[Step] = []
    data = series.get("partitions", {}).get(p, {})
    if offset is not None:
        logs = background.of_logs(data, p, offset, names, timeline, min(acked, default=None))
    times = [*(span or ()), *(step.at_s for step in logs)]
    if not times:
        return []
    from_s, to_s = min(times) - _BEFORE_S, max(times)
    return [
        *background.of_faults(results.get("faults", ()), from_s, to_s),
        *background.of_leaders(timeline, p, names, from_s, to_s),
        *background.of_isr(timeline, p, names, from_s, to_s),
        *logs,
    ]


def _shortened(own: Sequence[Step], around: Sequence[Step]) -> tuple[list[Step], int]:
    """All steps in causal order, without those that matter least where there are too many, and how many those are."""
    kept = [*own, *around]
    for kinds in _LEFT_OUT_FIRST:
        surplus = len(kept) - MOST_STEPS
        if surplus > 0:
            # What is nearest to the operations stays.
            times = [step.at_s for step in own]
            droppable = [step for step in kept if step.kind in kinds and step not in own]
            droppable.sort(key=lambda step: min((abs(step.at_s - t) for t in times), default=step.at_s), reverse=True)
            dropped = droppable[:surplus]
            kept = [step for step in kept if step not in dropped]
    kept.sort(key=causal)
    most = kept[:MOST_STEPS] if len(own) <= MOST_STEPS else [*kept[: MOST_STEPS // 2], *kept[-MOST_STEPS // 2 :]]
    return most, len(own) + len(around) - len(most)


def _span(witnesses: Iterable[Mapping[str, Any]], steps: Sequence[Step]) -> tuple[float, float] | None:
    times = [
        witness[name] / 1e9 for witness in witnesses for name in ("from_ns", "to_ns") if witness.get(name) is not None
    ]
    times += [step.at_s for step in steps]
    return (min(times), max(times)) if times else None


def _by_operation(lines: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Lines of one operation together; a line without an index stands alone."""
    operations: dict[object, list[Mapping[str, Any]]] = {}
    for nth, line in enumerate(lines):
        index = line.get("invoke") if line.get("type") != "invoke" else line.get("index")
        operations.setdefault(("alone", nth) if index is None else index, []).append(line)
    return list(operations.values())


def _once(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    kept: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        # A poll is shown with the records around its witness's offset, so that one line may come in two shapes.
        key = str(row["index"]) if "index" in row else repr(sorted(row.items()))
        kept.setdefault(key, row)
    return sorted(kept.values(), key=lambda row: row.get("index", -1)) if kept else []


def _title(checker: str, p: str | None, offset: int | None, value: int | None, names: Mapping[str, str]) -> str:
    if p is None or (offset is None and value is None):
        return checker
    what = "What stands" if value is None else value_name(value, names)
    where = f"on {p}" if offset is None else f"at offset {offset} of {p}"
    text = f"{what} {where}"
    return text[0].upper() + text[1:] if value is None or str(value) not in names else text


def _holding(row: Mapping[str, Any], offset: int | None, names: Mapping[str, str]) -> str:
    """What results.json says of a node's files, or of something else, as a sentence."""
    if "text" in row:
        return str(row["text"])
    if "node" not in row or "log_end" not in row:
        return ", ".join(f"{key} {value}" for key, value in row.items())
    if "base" not in row:
        return f"{row['node']} holds nothing there: its log ends at offset {row['log_end']}."
    value = row.get("value")
    what = "a record without a value of the lab's" if value is None else value_name(value, names)
    where = f"{row.get('file')}, byte {row.get('file_position')}"
    return f"{row['node']} holds {what} at offset {offset}, appended in leader epoch {row.get('epoch')} ({where})."


def _epoch(timeline: Timeline, t_s: float) -> int | None:
    leader = timeline.leader_at(t_s)
    return None if leader is None else leader[1]
