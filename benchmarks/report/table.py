"""The Markdown table; pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from benchmarks.report.metrics import METRICS
from benchmarks.report.summary import Line, Spread

_HEADER = "| row | quantity | Kafka | highwater | ratio | to reach | |\n|---|---|---|---|---|---|---|\n"


def markdown(lines: Sequence[Line]) -> str:
    """A table a group; void runs are listed below it with their reasons."""
    parts = []
    for group, members in groupby(lines, key=lambda line: line.group):
        of_group = list(members)
        parts.append(f"## {group}\n\n{_HEADER}")
        shown = ""
        for line in of_group:
            parts.append(_row(line, "" if line.row == shown else line.row))
            shown = line.row
        parts.append("\n")
        voids = [(line.row, reason) for line in of_group for reason in line.voids]
        parts += [f"- void: {row}: {reason}\n" for row, reason in dict.fromkeys(voids)]
        parts.append("\n" if voids else "")
    return "".join(parts)


def counts(lines: Sequence[Line]) -> str:
    """How many targets are met."""
    judged = [line for line in lines if line.target is not None]
    met = sum(line.met is True for line in judged)
    missed = sum(line.met is False for line in judged)
    without = len(judged) - met - missed
    return f"{met} of {len(judged)} figures to reach are met, {missed} are not, {without} are without a figure."


def _row(line: Line, name: str) -> str:
    metric = METRICS[line.metric]
    verdict = {True: "met", False: "**not met**", None: "" if line.target is None else "no figure"}[line.met]
    ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
    target = "" if line.target is None else line.target.text
    cells = [
        name,
        metric.label,
        cell(line.theirs, metric.digits),
        cell(line.ours, metric.digits),
        ratio,
        target,
        verdict,
    ]
    return f"| {' | '.join(cells)} |\n"


def cell(of: Spread | None, digits: int) -> str:
    """Median, and the range when there was more than one run; "void" without any."""
    if of is None:
        return "void"
    if of.count == 1:
        return f"{of.median:,.{digits}f}"
    return f"{of.median:,.{digits}f} ({of.low:,.{digits}f}–{of.high:,.{digits}f})"
