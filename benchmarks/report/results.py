"""The files of a benchmark: results.json with every run, results.md with the table, results.svg with the ratios."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.report.plot import svg
from benchmarks.report.summary import RowRuns, lines
from benchmarks.report.table import counts, markdown


def write(folder: Path, name: str, environment: Mapping[str, object], rows: Sequence[RowRuns]) -> str:
    """Write <name>.json, .md and .svg into folder, each replaced at once; returns the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    text = page(name, environment, rows)
    told = {"plan": name, "environment": environment, "rows": [asdict(row) for row in rows]}
    for suffix, content in ((".json", json.dumps(told, indent=1) + "\n"), (".md", text), (".svg", svg(lines(rows)))):
        partial = folder / f".{name}{suffix}.new"
        partial.write_text(content, encoding="utf-8")
        partial.rename(folder / f"{name}{suffix}")
    return text


def page(name: str, environment: Mapping[str, object], rows: Sequence[RowRuns]) -> str:
    """The Markdown page; pure."""
    all_lines = lines(rows)
    about = "".join(f"- {key}: {value}\n" for key, value in environment.items() if not isinstance(value, Mapping))
    return (
        f"# highwater beside Apache Kafka: `{name}`\n\n{about}\n{counts(all_lines)}\n\n"
        "Median (lowest–highest) of the runs that count; ratio of medians, highwater / Kafka.\n\n"
        f"{markdown(all_lines)}![Ratios]({name}.svg)\n"
    )
