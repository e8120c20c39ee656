"""Join a run's JSON files, its charts and the template into report.html.

Knows the contract in docs/results-format.md and nothing of how the figures came about. The page needs no network: the
style sheet and the chart library are inside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.report import model
from harness.report.pages import environment


class ReportError(Exception):
    """A file that the report is made from is missing or is not JSON; the text names the file."""


def build(run_dir: Path) -> Path:
    """Write run_dir/report.html.

    Raises ReportError when run.json or results.json cannot be read, ImportError where plotly is not installed.
    """
    # Imported late: plotly takes a tenth of a second, which other pages need not wait for.
    from harness.report import charts

    run = _load(run_dir / "run.json", required=True)
    results = _load(run_dir / "results.json", required=True)
    series = _load(run_dir / "series.json", required=False)
    templates = environment("harness.report")
    templates.filters["seconds"] = model.seconds
    templates.filters["number"] = model.number
    page = templates.get_template("report.html").render(
        run=run,
        results=results,
        page=model.page(run, results),
        charts=charts.all_charts(series, results.get("faults", [])) if series else [],
        library=charts.library() if series else "",
    )
    target = run_dir / "report.html"
    partial = run_dir / "report.html.part"
    partial.write_text(page, encoding="utf-8")
    partial.replace(target)
    return target


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
