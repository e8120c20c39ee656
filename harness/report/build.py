"""Join a run's JSON files, its stories, its charts and the template into report.html.

Knows the contract in docs/results-format.md and nothing of how the figures came about. The page needs no network: the
style sheet and the scripts that draw are inside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.report import background, charts, circle, diagram, model, words
from harness.report.story import Finding, findings

_WHOLE = 12
"""So many findings are told whole; of more there is one sentence each."""


class ReportError(Exception):
    """A file that the report is made from is missing or is not JSON; the text names the file."""


def build(run_dir: Path) -> Path:
    """Write run_dir/report.html.

    Raises ReportError when run.json or results.json cannot be read, ImportError where jinja2 is not installed.
    """
    # Imported late: stories and charts do without it.
    from harness.report.pages import environment

    run = _load(run_dir / "run.json", required=True)
    results = _load(run_dir / "results.json", required=True)
    series = _load(run_dir / "series.json", required=False)
    templates = environment("harness.report")
    templates.filters["number"] = words.number
    templates.filters["moment"] = words.moment
    drawn = charts.all_charts(series, words.broker_names(run)) if series else []
    duration_ns = int(series.get("duration_ns", 0))
    found = findings(run, results, series)
    page = templates.get_template("report.html").render(
        run=run,
        results=results,
        page=model.page(run, results, duration_ns),
        shrunk=_load(run_dir / "shrunk.json", required=False),
        findings=[
            (one, _drawing(one, run), diagram.svg(one.circle, circle.lanes(one.circle)) if one.circle else "")
            for one in found[:_WHOLE]
        ],
        more_findings=found[_WHOLE:],
        groups=_grouped(drawn),
        chart_data=charts.data(drawn, results.get("faults") or series.get("faults", []), duration_ns / 1e9),
    )
    target = run_dir / "report.html"
    partial = run_dir / "report.html.part"
    partial.write_text(page, encoding="utf-8")
    partial.replace(target)
    return target


def _drawing(finding: Finding, run: Mapping[str, Any]) -> str:
    return diagram.svg(finding.steps, background.lanes(run)) if finding.steps else ""


def _grouped(drawn: Sequence[charts.Chart]) -> list[tuple[str, list[tuple[int, charts.Chart]]]]:
    """Group → its charts with their places in the page's data."""
    numbered = groupby(enumerate(drawn), key=lambda item: item[1].group)
    return [(group, list(items)) for group, items in numbered]


def _load(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not required:
            return {}
        raise ReportError(f"{path} is missing: run `highwater analyze {path.parent}` first") from None
    except json.JSONDecodeError as error:
        raise ReportError(f"{path} is not JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise ReportError(f"{path} holds {type(loaded).__name__}, not an object")
    return loaded
