"""The Markdown table; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from benchmarks.report.metrics import METRICS
from benchmarks.report.summary import Line, Side

_HEADER = "| row | quantity | Kafka | highwater | ratio | to reach | |\n|---|---|---|---|---|---|---|\n"


def markdown(lines: Sequence[Line], remarks: Mapping[str, Sequence[str]]) -> str:
    """A table a group, in the order of their first rows; below it what is to be remarked of the group's runs."""
    parts = []
    order = {group: number for number, group in enumerate(dict.fromkeys(line.group for line in lines))}
    for group, members in groupby(sorted(lines, key=lambda line: order[line.group]), key=lambda line: line.group):
        parts.append(f"## {group}\n\n{_HEADER}")
        shown = ""
        for line in members:
            parts.append(_row(line, "" if line.row == shown else line.row))
            shown = line.row
        parts.append("\n")
        told = remarks.get(group, ())
        parts += [f"- {remark}\n" for remark in told]
        parts.append("\n" if told else "")
    return "".join(parts)


def counts(lines: Sequence[Line]) -> str:
    """How many targets are met."""
    judged = [line for line in lines if line.target is not None]
    met = sum(line.met is True for line in judged)
    missed = sum(line.met is False for line in judged)
    without = len(judged) - met - missed
    return f"{met} of {len(judged)} figures to reach are met, {missed} are not, {without} are not judged."


def verdict(line: Line) -> str:
    """Of a figure to reach: whether it is met, by how much not, or why that is not said."""
    if line.target is None:
        return ""
    if line.met is True:
        return "met"
    sides = (line.ours,) if line.target.of == "value" else (line.ours, line.theirs)
    if line.met is None:
        if any(side.without == "not served" for side in sides):
            return "not served"
        fewest = min(side.count for side in sides)
        return "no figure" if fewest == 0 or fewest >= line.judged_from else f"not judged, n < {line.judged_from}"
    judged = line.ratio
    if line.target.of == "value" and line.ours.spread is not None:
        judged = line.ours.spread.median
    return "**not met**" if judged is None else f"**not met** ({judged / line.target.limit:.2f} of it)"


def _row(line: Line, name: str) -> str:
    metric = METRICS[line.metric]
    cells = [
        name,
        metric.label,
        cell(line.theirs, metric.digits),
        cell(line.ours, metric.digits),
        "" if line.ratio is None else f"{line.ratio:.2f}",
        "" if line.target is None else line.target.text,
        verdict(line),
    ]
    return f"| {' | '.join(cells)} |\n"


def cell(of: Side, digits: int) -> str:
    """Median, range, and how many runs; or why there is none."""
    void = f", {of.voids} void" if of.voids else ""
    if of.spread is None:
        return f"void, {of.voids}" if of.without == "void" else "" if of.without == "too few samples" else of.without
    bound = ", client-bound" if of.client_bound else ""
    n = f"n={of.spread.count}{void}{bound}"
    if of.spread.count == 1:
        return f"{of.spread.median:,.{digits}f}; {n}"
    return f"{of.spread.median:,.{digits}f} ({of.spread.low:,.{digits}f}–{of.spread.high:,.{digits}f}); {n}"
