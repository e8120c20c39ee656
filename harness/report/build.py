"""Join a run's JSON files, its stories, the lives of the records they are about, its charts and the template.

Knows the contract in docs/results-format.md and nothing of how the figures came about. The page needs no network: the
style sheet and the scripts that draw are inside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.report import background, charts, circle, diagram, model, words
from harness.report.life.files import RunFiles
from harness.report.life.life import Life, NoSuchPlace, life
from harness.report.story import Finding, findings

_WHOLE = 12
"""So many findings are told whole; of more there is one sentence each."""
_READ_BYTES = 4 << 30
"""Of the history, for the lives of these findings' records: each of them reads it through, or twice."""


class ReportError(Exception):
    """A file that the report is made from is missing or is not JSON; the text names the file."""


def build(run_dir: Path) -> Path:
    """Write run_dir/report.html.

    Raises ReportError when run.json or results.json cannot be read, or are not what runs and checkers write;
    ImportError where jinja2 is not installed.
    """
    run = _load(run_dir / "run.json", required=True)
    results = _load(run_dir / "results.json", required=True)
    series = _load(run_dir / "series.json", required=False)
    shrunk = _load(run_dir / "shrunk.json", required=False)
    try:
        page = _page(run_dir, run, results, series, shrunk)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ReportError(
            f"{run_dir}: run.json, results.json or series.json are not what a run and its checkers write: "
            f"{type(error).__name__}: {error}"
        ) from error
    target = run_dir / "report.html"
    partial = run_dir / "report.html.part"
    partial.write_text(page, encoding="utf-8")
    partial.replace(target)
    return target


def _page(
    run_dir: Path, run: dict[str, Any], results: dict[str, Any], series: dict[str, Any], shrunk: dict[str, Any]
) -> str:
    # Imported late: stories and charts do without it.
    from harness.report.pages import environment

    templates = environment("harness.report")
    templates.filters["number"] = words.number
    templates.filters["moment"] = words.moment
    drawn = charts.all_charts(series, words.broker_names(run)) if series else []
    duration_ns = int(series.get("duration_ns", 0))
    found = findings(run, results, series)
    return templates.get_template("report.html").render(
        run=run,
        results=results,
        page=model.page(run, results, duration_ns),
        shrunk=shrunk,
        findings=[
            (one, _drawing(one, run), diagram.svg(one.circle, circle.lanes(one.circle)) if one.circle else "", lived)
            for one, lived in _with_lives(found[:_WHOLE], run_dir, run, results)
        ],
        more_findings=found[_WHOLE:],
        groups=_grouped(drawn),
        chart_data=charts.data(drawn, results.get("faults") or series.get("faults", []), duration_ns / 1e9),
    )


def _with_lives(
    found: Sequence[Finding], run_dir: Path, run: Mapping[str, Any], results: Mapping[str, Any]
) -> list[tuple[Finding, Life | None]]:
    """Each with the life of the record that it is about; None where it names no offset, or the run has no history."""
    files = RunFiles.below(run_dir)
    names = {str(value): str(name) for value, name in (results.get("names") or {}).items()}
    history = run_dir / "history.jsonl"
    most = _READ_BYTES // max(1, 2 * history.stat().st_size) if history.is_file() else 0
    told: list[tuple[Finding, Life | None]] = []
    for one in found:
        lived = None
        if most and one.partition is not None and one.offset is not None:
            most -= 1
            with suppress(NoSuchPlace, OSError):
                lived = life(files, run, one.partition, one.offset, names)
        told.append((one, None if lived is None or lived.is_empty else lived))
    return told


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
    except ValueError as error:
        raise ReportError(f"{path} is not JSON: {error}") from None
    except RecursionError:
        raise ReportError(f"{path}: brackets are nested too deeply") from None
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}") from None
    if not isinstance(loaded, dict):
        raise ReportError(f"{path} holds {type(loaded).__name__}, not an object")
    return loaded
