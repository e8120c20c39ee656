"""results.json from verdicts: sentence, durability, linearizability, faults, witnesses with their operations.

Pure but for the two writers at the end. Source: docs/results-format.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from checkers.allowances.allowances import ALLOWED_GONE, GONE
from checkers.coverage.requirements import CoverageResult
from checkers.history.faults import Fault
from checkers.verdicts.verdict import CheckResult, Row, Verdict, worst

SCHEMA = 1

READ_BACK = frozenset({"lost-write", "lost-tail", "unseen", "final-drain"})
"""Checkers that together show that every acknowledged record was read back from every replica."""
NAMED = 5

LINEARIZABLE_CHECKED = (
    "appends linearizable: acknowledged appends of a partition form one order by offset, no two at one offset, none at "
    "two, and the records of one send one behind the other",
    "that order respects real time: what was certainly in the log before a send began, and all below an end that had "
    "been told by then, stands below it",
    "reads prefix-consistent: every answered poll is a gap-free piece of that order, and nothing that was shown to be "
    "committed is gone later",
    "nothing was read that was not sent, or whose send certainly failed",
    "every acknowledged record is in the order that the final drain read",
)
LINEARIZABLE_NOT_CHECKED = (
    "that reads are fresh, for they may be stale: followers and deposed leaders may serve older prefixes; staleness is "
    "measured",
    "the order of sends whose answer was lost and that nobody read: they may never have happened",
    "order across partitions, which the log does not promise",
)


def durability(rows: Sequence[Row], partitions: Sequence[str]) -> list[dict[str, Any]]:
    """Acknowledged, read, lost, gone and unseen per partition. Gone: read once, not returned by a later drain. What is
    not known to be lost, as retention may have deleted it, was not seen.
    """
    figures = {
        (row.p, row.detail): int(row.figure)
        for row in rows
        if row.kind == "figure"
        and (row.checker == "lost-write" or (row.checker == "final-drain" and row.detail in (GONE, ALLOWED_GONE)))
    }
    found: dict[tuple[str | None, str], int] = {}
    for key, count in {(r.p, r.checker, r.kind, r.rule): r.count for r in rows if r.kind != "figure"}.items():
        p, checker, kind, _ = key
        name = "unseen" if checker == "unseen" else "lost" if checker in ("lost-write", "lost-tail") else None
        if name is not None:
            label = {"allowed": "allowed_lost", "unknown": "unseen"}.get(kind, name)
            found[p, label] = found.get((p, label), 0) + count
    return [
        {
            "partition": p,
            "acknowledged": figures.get((p, "acknowledged"), 0),
            "read": figures.get((p, "read"), 0),
            "lost": found.get((p, "lost"), 0),
            "gone": figures.get((p, GONE), 0) + figures.get((p, ALLOWED_GONE), 0),
            "unseen": found.get((p, "unseen"), 0),
            "unknown_sends": figures.get((p, "unknown_sends"), 0),
            "recovered_unknown": figures.get((p, "recovered_unknown"), 0),
            **({"allowed_lost": found[p, "allowed_lost"]} if (p, "allowed_lost") in found else {}),
            **(
                {
                    "unacknowledged": figures[p, "unacknowledged_sends"],
                    "unacknowledged_unread": figures.get((p, "unacknowledged_unread"), 0),
                }
                if (p, "unacknowledged_sends") in figures
                else {}
            ),
        }
        for p in partitions
    ]


def linearizability(checks: Sequence[CheckResult], *, left_out: bool = False) -> dict[str, Any]:
    """The worst of the checkers that together say that appends have one order and that polls are pieces of it.

    left_out: some of them the run does not ask for; without those nothing is shown.
    """
    parts = [check for check in checks if check.linearizability]
    verdicts: list[Verdict] = [check.verdict for check in parts]
    if left_out:
        verdicts.append("unknown")
    witnesses = [witness for check in parts if check.verdict == "invalid" for witness in check.joined]
    return {
        "verdict": worst(verdicts),
        "checked": list(LINEARIZABLE_CHECKED),
        "not_checked": list(LINEARIZABLE_NOT_CHECKED),
        "witnesses": witnesses[:10],
        "parts": {check.name: check.verdict for check in parts},
    }


_COUNTS = {"lost-write": "lost", "lost-tail": "lost", "unseen": "unseen"}


def check_json(check: CheckResult) -> dict[str, Any]:
    """One checker as results.json has it."""
    counts = dict(check.counts)
    if check.name in _COUNTS:
        name = _COUNTS[check.name]
        counts[name] = counts.pop("undecided" if check.name == "unseen" else "found", 0)
        counts.pop("found", None)
    return {
        "verdict": check.verdict,
        "family": check.group,
        "title": check.title,
        "reasons": check.reasons,
        "counts": counts,
        "measures": check.measures,
        "witnesses": check.joined,
        "allowed": check.allowed,
    }


def coverage_json(coverage: CoverageResult) -> dict[str, Any]:
    """Coverage as results.json has it among the checkers."""
    return {
        "verdict": "valid" if coverage.met else "unknown",
        "family": "coverage",
        "title": "The run proved enough for a verdict of valid",
        "reasons": coverage.missing,
        "counts": {name: value for name, value in coverage.figures.items() if isinstance(value, int)},
        "measures": {},
        "witnesses": [],
        "allowed": None,
    }


def join_witnesses(
    check: CheckResult,
    faults: Sequence[Fault],
    lines: Mapping[int, Sequence[Mapping[str, Any]]],
    replicas: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]],
) -> None:
    """Give every witness its history lines, the faults active in its span, and what the replicas hold at its offset."""
    for row in check.witnesses:
        span = (row.from_ns, row.to_ns)
        active = [] if None in span else [f.fault_id for f in faults if f.active(int(span[0] or 0), int(span[1] or 0))]
        evidence: list[dict[str, Any]] = [] if row.evidence is None else [{"text": row.evidence}]
        if row.p is not None and row.offset is not None:
            evidence += [dict(entry) for entry in replicas.get((row.p, row.offset), ())]
        check.joined.append(
            {
                "summary": row.detail,
                "kind": row.kind,
                "partition": row.p,
                "offset": row.offset,
                "value": row.value,
                "from_ns": row.from_ns,
                "to_ns": row.to_ns,
                "faults": active,
                "operations": [_near(line, _offsets(row)) for op in row.ops for line in lines.get(op, ())],
                "evidence": evidence,
                **({"cycle": [dict(edge) for edge in row.cycle]} if row.cycle else {}),
            }
        )


def _offsets(row: Row) -> frozenset[int]:
    named = [row.offset, *(edge.get("offset") for edge in row.cycle)]
    return frozenset(offset for offset in named if offset is not None)


def _near(line: Mapping[str, Any], offsets: Set[int]) -> dict[str, Any]:
    """The line with only the records around these offsets: a poll may have returned thousands."""
    shown = dict(line)
    records = shown.get("records")
    if isinstance(records, list) and len(records) > 7 and offsets:
        near = [r for r in records if any(abs(int(r["offset"]) - offset) <= 3 for offset in offsets)] or records[:3]
        shown["records"] = near
        shown["records_left_out"] = len(records) - len(near)
    return shown


def sentence(
    verdict: Verdict,
    checks: Sequence[CheckResult],
    durable: Sequence[Mapping[str, Any]],
    coverage: CoverageResult,
    run_reasons: Sequence[str],
    unavailable: Iterable[str] = (),
    not_fired: Sequence[str] = (),
    unmet: Sequence[str] = (),
    uncompared: Sequence[str] = (),
    left_out: Sequence[str] = (),
    imported: bool = False,
    ended_early: str | None = None,
) -> str:
    """One sentence a reader can act on; lowered requirements, allowed losses and faults left out always stand in it.

    uncompared: replicas whose files faults touched, so that no rule compares them. left_out: checkers that the run
    does not ask for; what they would show is not said. imported: the history is another tool's, of clients alone: of
    replicas and faults it says nothing. ended_early: why the load did not go on to its end.
    """
    acked = sum(int(row["acknowledged"]) for row in durable)
    lost = sum(int(row["lost"]) for row in durable)
    gone = sum(int(row.get("gone", 0)) for row in durable)
    faults = int(coverage.figures.get("faults", 0))
    seen = f"{acked:,} acknowledged records on {_many(len(durable), 'partition')}"
    around = "in a history from elsewhere" if imported else f"through {_many(faults, 'fault')}"
    if "elections" in coverage.figures:
        around += f" and {_many(int(coverage.figures['elections']), 'election')}"
    if verdict == "invalid":
        # A loss first: it is what the others lead to.
        broken = sorted((c for c in checks if c.verdict == "invalid"), key=lambda c: c.name not in _COUNTS)
        what = f"{_many(lost, 'acknowledged record')} lost; " if lost else ""
        what += f"{_many(gone, 'record')} read and gone at the drain; " if gone else ""
        names = ", ".join(check.name for check in broken)
        by = "found by " if what else ""
        text = f"Invalid: {what}{by}{names}, in {seen}, {around}; first: {broken[0].reasons[0]}"
    elif verdict == "unknown":
        unsure = [
            f"{check.name}: {check.reasons[0]}" for check in checks if check.verdict == "unknown" and check.reasons
        ]
        reasons = [*run_reasons, *unsure, *coverage.missing]
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        text = f"Unknown: {reasons[0] if reasons else 'nothing was checked'}{more}; {seen}, {around}"
    else:
        missing = sum(int(row.get("allowed_lost", 0)) for row in durable)
        which = f"all but {missing:,}" if missing else "all"
        back = "" if imported else " back from every replica"
        read_back = "" if READ_BACK & set(left_out) else f"{which} read{back}, "
        text = f"Valid: {seen}, {read_back}{around}"
    if ended_early is not None:
        text += f"; {ended_early}"
    allowed = _allowed(checks)
    if allowed:
        text += "; allowed: " + "; ".join(allowed)
    if coverage.lowered:
        text += "; required less: " + ", ".join(f"{name} {value}" for name, value in sorted(coverage.lowered.items()))
    unconfirmed = sum(int(row.get("unacknowledged", 0)) for row in durable)
    if unconfirmed:
        unread = sum(int(row.get("unacknowledged_unread", 0)) for row in durable)
        text += f"; sent with acks=0, which confirms nothing: {unconfirmed:,}, of which {unread:,} were read by nobody"
    if not_fired:
        text += f"; not fired: {', '.join(not_fired)}"
    if unmet:
        text += f"; not known to have been met by its broker: {', '.join(unmet)}"
    if uncompared:
        text += f"; not compared, because faults damaged them: files of {', '.join(uncompared)}"
    if left_out:
        # Durability first: of a long list the rest is only counted.
        ordered = sorted(left_out, key=lambda name: name not in READ_BACK)
        others = f" and {len(ordered) - NAMED} more" if len(ordered) > NAMED else ""
        text += f"; not asked for: {', '.join(ordered[:NAMED])}{others}"
    missed = sorted(unavailable)
    if missed:
        text += f"; not available on these nodes: {', '.join(missed)}"
    return text + "."


def _allowed(checks: Sequence[CheckResult]) -> list[str]:
    """What was allowed, and why; checkers with one reason together."""
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for check in checks:
        if check.allowed:
            count, _, reason = check.allowed.partition(": ")
            by_reason.setdefault(reason, []).append((check.name, count))
    return [
        f"{names[0][0]}: {names[0][1]}: {reason}"
        if len(names) == 1
        else ", ".join(f"{name} {count.removesuffix(' allowed')}" for name, count in names) + f": {reason}"
        for reason, names in by_reason.items()
    ]


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Sorted keys, whole file or none: a reader never sees half of it."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, sort_keys=True, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
