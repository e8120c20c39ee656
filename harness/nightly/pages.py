"""A night as a page, as Markdown, as a badge and as JSON.

Pure: text out of values. Decides how a night looks. Must not know where results are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.nightly.history import NightRow
from harness.nightly.jobs import NO_VERDICT, VERDICTS, WORST_FIRST, Job, Result
from harness.nightly.trends import LABELS, Trend
from harness.report.pages import environment

_WORDS = (*(VERDICTS.get(code, NO_VERDICT) for code in WORST_FIRST),)
_COLOURS = {"valid": "#1a7f37", "unknown": "#9a6700", "invalid": "#cf222e", "crash": "#6e4b9e"}
_SPARK = (120.0, 24.0)
_MARKDOWN_ROWS = 20


class RunShown(Protocol):
    """One run of the night."""

    @property
    def job(self) -> Job:
        """What was due."""
        ...

    @property
    def result(self) -> Result:
        """What came of it."""
        ...

    @property
    def counts_as(self) -> str:
        """A verdict, or `crash`."""
        ...

    @property
    def report(self) -> str | None:
        """Where its report stands, beside the page."""
        ...


@dataclass(frozen=True, slots=True)
class Shown:
    """A night. counts: what runs count as → how many; notes: sentences; runs: the worst first; not_run: names."""

    night: NightRow
    counts: Mapping[str, int]
    notes: Sequence[str]
    runs: Sequence[RunShown]
    trends: Sequence[Trend]
    not_run: Sequence[str]

    @property
    def worst(self) -> str:
        """What the night counts as: the word for its exit code."""
        code = self.night.exit_code
        return NO_VERDICT if code is None else VERDICTS.get(code, NO_VERDICT)

    @property
    def headline(self) -> str:
        """`41 runs: 40 valid, 1 invalid`."""
        total = sum(self.counts.values())
        said = ", ".join(f"{self.counts[name]} {name}" for name in ("valid", "invalid", "unknown", "crash"))
        return f"{total} run{'' if total == 1 else 's'}: {said}"


def html(shown: Shown) -> str:
    """The page, which needs nothing from elsewhere."""
    return (
        environment("harness.nightly")
        .get_template("night.html")
        .render(shown=shown, grid=grid(shown.runs), labels=LABELS, spark=spark, axes=axes(shown.runs))
    )


def axes(runs: Sequence[RunShown]) -> list[str]:
    """The axes of a matrix with more than one value, in their order."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for axis, value in run.job.cell.items():
            values.setdefault(axis, set()).add(value)
    return [axis for axis, of_axis in values.items() if len(of_axis) > 1]


def grid(runs: Sequence[RunShown]) -> dict[str, Mapping[str, Mapping[str, int]]]:
    """Of the first two axes: value → value → counts; empty for a night without a matrix of two."""
    names = axes(runs)[:2]
    if len(names) < 2:
        return {}
    cells: dict[str, dict[str, dict[str, int]]] = {}
    columns = sorted({run.job.cell[names[1]] for run in runs if names[1] in run.job.cell})
    for run in sorted(runs, key=lambda one: one.job.cell.get(names[0], "")):
        if not run.job.cell:
            continue
        row = cells.setdefault(run.job.cell[names[0]], {column: {} for column in columns})
        of_cell = row[run.job.cell[names[1]]]
        of_cell[run.counts_as] = of_cell.get(run.counts_as, 0) + 1
    return dict(cells)


def spark(values: Sequence[float]) -> str:
    """Points of an SVG polyline in a box of 120 by 24, from 0 to the largest value; empty for less than two."""
    if len(values) < 2:
        return ""
    width, height = _SPARK
    top = max(values) or 1.0
    step = width / (len(values) - 1)
    return " ".join(f"{index * step:.1f},{height - value / top * height:.1f}" for index, value in enumerate(values))


def markdown(shown: Shown) -> str:
    """For a chat or the summary of a CI job: what is not as it should be, and nothing that is."""
    out = [f"### highwater {shown.night.name}: {shown.worst}", "", shown.headline, ""]
    out += [f"- {_plain(note)}" for note in shown.notes]
    bad = [run for run in shown.runs if run.counts_as != "valid"]
    if bad:
        out += ["", "| run | seed | came out | what was found |", "|---|---|---|---|"]
        out += [
            f"| {_plain(run.job.name)} | {run.job.seed} | {run.counts_as} | {_plain(run.result.sentence)} |"
            for run in bad[:_MARKDOWN_ROWS]
        ]
        if len(bad) > _MARKDOWN_ROWS:
            out += ["", f"and {len(bad) - _MARKDOWN_ROWS} more: summary.html"]
    return "\n".join(out).rstrip() + "\n"


def _plain(text: str) -> str:
    """One line that Markdown shows as it stands."""
    line = " ".join(text.split())
    for mark in "\\`*_[]<>|#~":
        line = line.replace(mark, "\\" + mark)
    return line


def badge(shown: Shown) -> str:
    """A small SVG picture: `nightly | 40 of 41 valid`."""
    total, valid = sum(shown.counts.values()), shown.counts.get("valid", 0)
    right = f"{valid} of {total} valid" if shown.worst != "valid" else f"{valid} valid"
    left_px, right_px = 10 + 7 * len(shown.night.name), 10 + 7 * len(right)
    return (
        environment("harness.nightly")
        .get_template("badge.svg")
        .render(
            left=shown.night.name,
            right=right,
            left_px=left_px,
            right_px=right_px,
            colour=_COLOURS[shown.worst],
            verdict=shown.worst,
        )
    )


def as_json(shown: Shown) -> dict[str, object]:
    """What a webhook gets. text: the Markdown, which chats show."""
    return {
        "schema": 1,
        "name": shown.night.name,
        "night": shown.night.id,
        "began": shown.night.began,
        "ended": shown.night.ended,
        "verdict": shown.worst,
        "exit_code": shown.night.exit_code,
        "counts": dict(shown.counts),
        "notes": list(shown.notes),
        "not_run": list(shown.not_run),
        "runs": [
            {
                "name": run.job.name,
                "seed": run.job.seed,
                "cell": dict(run.job.cell),
                "verdict": run.result.verdict(),
                "expected": run.job.expect,
                "counts_as": run.counts_as,
                "sentence": run.result.sentence,
                "run_dir": run.result.run_dir,
            }
            for run in shown.runs
            if run.counts_as != "valid"
        ],
        "text": markdown(shown),
    }
