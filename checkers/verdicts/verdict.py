"""Verdicts from findings and figures: worst first, and never valid without evidence.

Pure: rows in, values out, no Spark, no files. invalid over unknown over valid; not applicable does not count. A checker
is unknown when a partition lacks a figure that its catalogue entry needs, when lines of the history or its evidence are
missing, or when it says so itself. What a record with lines missing seems to prove may come of the missing lines: such
findings are shown, and the verdict is unknown; but not where a single line proves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from checkers.verdicts.catalogue import BY_NAME
from checkers.verdicts.spec import Spec

Verdict = Literal["valid", "invalid", "unknown", "not-applicable"]

_RANK: dict[str, int] = {"not-applicable": 0, "valid": 1, "unknown": 2, "invalid": 3}
WITNESSES = 10

ONE_LINE = "one-line"
"""Rule name of what one line of an event log proves against itself, whatever else of the log is missing."""
SENT_TWICE = "sent-twice"
"""Rule name of a value that two sends have, or one twice: the history does not tell its records apart."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that wins; unknown where nothing applied, because nothing was shown."""
    ranked = [verdict for verdict in verdicts if verdict != "not-applicable"]
    return max(ranked, key=lambda verdict: _RANK[verdict]) if ranked else "unknown"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a judged job: a finding (kind invalid, unknown, allowed; `count` of its kind in its partition) or a
    figure. cycle: of transactions that depend on each other in a circle, its edges as results.json has them.
    """

    checker: str
    kind: str
    p: str | None
    count: int
    offset: int | None = None
    value: int | None = None
    ops: tuple[int, ...] = ()
    from_ns: int | None = None
    to_ns: int | None = None
    detail: str = ""
    evidence: str | None = None
    figure: float = 0.0
    rule: str = ""
    cycle: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True)
class CheckResult:
    """What results.json holds of one checker. witnesses: rows, not yet joined to the history."""

    name: str
    group: str
    title: str
    verdict: Verdict
    reasons: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    measures: dict[str, float] = field(default_factory=dict)
    witnesses: list[Row] = field(default_factory=list)
    allowed: str | None = None
    linearizability: bool = False
    joined: list[dict[str, Any]] = field(default_factory=list)


def by_checker(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by the checker that each names, every one of the catalogue included.

    Raises ValueError for a name that the catalogue does not have: what was found under it would be in no verdict.
    """
    found: dict[str, list[Row]] = {name: [] for name in BY_NAME}
    for row in rows:
        if row.checker not in found:
            raise ValueError(f"a rule of {row.checker!r}, which is no checker of the catalogue, found: {row.detail}")
        found[row.checker].append(row)
    return found


def judge(
    spec: Spec,
    rows: Sequence[Row],
    partitions: Sequence[str],
    *,
    missing_evidence: Sequence[str] = (),
    doubted: bool = False,
    not_applicable: str | None = None,
    allowed: str | None = None,
) -> CheckResult:
    """One checker's verdict.

    rows: this checker's findings and figures. partitions: where it must have seen something. missing_evidence: what is
    missing of the evidence it rests on; doubted: so that a finding may come of what is missing. allowed: why findings
    of kind `allowed` are what the configuration and the faults permit.
    """
    result = CheckResult(spec.name, spec.group, spec.title, "valid", linearizability=spec.linearizability)
    found = [row for row in rows if row.kind != "figure"]
    figures = [row for row in rows if row.kind == "figure"]
    _add_figures(result, figures)
    totals = {kind: _total(found, kind) for kind in ("invalid", "unknown", "allowed")}
    for kind, total in totals.items():
        if total or kind == "invalid":
            result.counts[_COUNT_NAMES[kind]] = total
    if not_applicable is not None and not totals["invalid"]:
        result.verdict = "not-applicable"
        result.reasons = [not_applicable]
        return result
    missing = [*missing_evidence, *_needs(spec, figures, partitions), *_unwanted(spec, figures)]
    # The strongest proofs first: what one line says against itself.
    wrong = sorted((row for row in found if row.kind == "invalid"), key=lambda row: row.rule != ONE_LINE)
    shown = wrong or [row for row in found if row.kind == "unknown"]
    proven = [row for row in wrong if row.rule == ONE_LINE]
    if doubted:
        # What may come of what is missing is shown as what it is worth.
        shown = [row if row.rule == ONE_LINE else replace(row, kind="unknown") for row in shown]
    if proven and doubted:
        result.verdict = "invalid"
        result.reasons = [f"{_total(proven, 'invalid')} found: {proven[0].detail}", *missing]
    elif totals["invalid"] and doubted:
        result.verdict = "unknown"
        result.reasons = [*missing, f"{totals['invalid']} found in a record that is not whole: {shown[0].detail}"]
    elif totals["invalid"]:
        result.verdict = "invalid"
        result.reasons = [f"{totals['invalid']} found: {shown[0].detail}", *missing]
    elif totals["unknown"] or missing:
        result.verdict = "unknown"
        first = [f"{totals['unknown']} undecided: {shown[0].detail}"] if totals["unknown"] else []
        result.reasons = [*first, *missing]
    if totals["allowed"]:
        result.allowed = f"{totals['allowed']} allowed: {allowed or 'by the configuration and the faults that fired'}"
        shown = [*shown, *(row for row in found if row.kind == "allowed")]
    result.witnesses = shown[:WITNESSES]
    return result


def found_unasked(spec: Spec, rows: Sequence[Row]) -> str | None:
    """What the rules of a checker that the run does not ask for found all the same, in a sentence; None if nothing.

    rows: this checker's. They prove too little for a verdict, and too much for the word valid.
    """
    wrong = [row for row in rows if row.kind == "invalid"]
    if not wrong:
        return None
    return f"{spec.name}, which this run does not ask for, found {_total(wrong, 'invalid')}: {wrong[0].detail}"


_COUNT_NAMES = {"invalid": "found", "unknown": "undecided", "allowed": "allowed"}


def _total(rows: Sequence[Row], kind: str) -> int:
    counted = {(row.p, row.rule): row.count for row in rows if row.kind == kind}
    return sum(counted.values())


def _add_figures(result: CheckResult, figures: Sequence[Row]) -> None:
    """Counts add up over partitions; milliseconds take the worst."""
    for row in figures:
        if row.detail.endswith("_ms"):
            result.measures[row.detail] = max(result.measures.get(row.detail, 0.0), round(row.figure, 3))
        else:
            result.counts[row.detail] = result.counts.get(row.detail, 0) + int(row.figure)


def _unwanted(spec: Spec, figures: Sequence[Row]) -> list[str]:
    totals = {name: sum(int(row.figure) for row in figures if row.detail == name) for name in spec.none}
    return [f"{totals[name]} {why}" for name, why in spec.none.items() if totals[name]]


def _needs(spec: Spec, figures: Sequence[Row], partitions: Sequence[str]) -> list[str]:
    seen: Mapping[tuple[str, str | None], float] = {(row.detail, row.p): row.figure for row in figures}
    missing: list[str] = []
    if spec.of_run:
        return [why for name, why in spec.needs.items() if not any(row.figure for row in figures if row.detail == name)]
    for name, why in spec.needs.items():
        without = [p for p in partitions if seen.get((name, p), 0) < 1]
        if without:
            missing.append(f"{why} on {', '.join(without[:5])}" + (" and others" if len(without) > 5 else ""))
    return missing
