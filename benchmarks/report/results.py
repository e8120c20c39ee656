"""The files of a benchmark: <name>.json with every run, <name>.md with the table, <name>.svg with the ratios.

Decides their names: what was measured of a part of a plan's rows never takes the place of the whole.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.report.plot import svg
from benchmarks.report.summary import RowRuns, lines, progress, remarks
from benchmarks.report.table import counts, markdown

_SUFFIXES = (".json", ".md", ".svg")


def file_name(plan: str, partial: bool) -> str:
    """Without suffix."""
    return f"{plan}-part" if partial else plan


def set_aside(folder: Path, name: str) -> str | None:
    """Give results of that name that are there a name with their time; returns it, None where there were none."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    kept = f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(path.stat().st_mtime))}"
    for suffix in _SUFFIXES:
        old = folder / f"{name}{suffix}"
        if old.exists():
            old.rename(folder / f"{kept}{suffix}")
    page_kept = folder / f"{kept}.md"
    if page_kept.exists():
        page_kept.write_text(page_kept.read_text(encoding="utf-8").replace(f"({name}.svg)", f"({kept}.svg)"))
    return kept


def write(
    folder: Path, name: str, environment: Mapping[str, object], rows: Sequence[RowRuns], processors: int = 2
) -> str:
    """Write <name>.json, .md and .svg into folder, each replaced at once; returns the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    text = page(name, environment, rows, processors)
    told = {"plan": name, "environment": environment, "rows": [asdict(row) for row in rows]}
    contents = (json.dumps(told, indent=1) + "\n", text, svg(lines(rows, processors)))
    for suffix, content in zip(_SUFFIXES, contents, strict=True):
        partial = folder / f".{name}{suffix}.new"
        partial.write_text(content, encoding="utf-8")
        partial.rename(folder / f"{name}{suffix}")
    return text


def page(name: str, environment: Mapping[str, object], rows: Sequence[RowRuns], processors: int = 2) -> str:
    """The Markdown page; pure."""
    all_lines = lines(rows, processors)
    about = "".join(f"- {key}: {value}\n" for key, value in environment.items() if not isinstance(value, Mapping))
    made = progress(rows)
    told: dict[str, list[str]] = {}
    for row in rows:
        told.setdefault(row.group, []).extend(remarks(row))
    return (
        f"# highwater beside Apache Kafka: `{name}`\n\n{about}"
        f"- runs: {made.valid} of {made.wanted} count, {made.voids} more are void\n\n{counts(all_lines)}\n\n"
        "Median (lowest–highest) of the n runs that count; ratio of medians, highwater / Kafka. A percentile with fewer"
        " than ten samples above it is left blank.\n\n"
        f"{markdown(all_lines, told)}![Ratios]({name}.svg)\n"
    )
