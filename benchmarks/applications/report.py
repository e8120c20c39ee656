"""The table of the gaps, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.applications.gaps import spread
from benchmarks.applications.kills import Gap

NAME = "clients-failover"
_HEAD = ("kill -9 of the", "client", "system", "median, ms", "p90", "worst", "kills", "errors", "load")


def table(gaps: Sequence[Gap]) -> str:
    """A line for each role, client and system, in the order in which they first came; void ones below it.

    errors: how many the library handed to the application, a kill. load: the mean over its kills.
    """
    keys = list(dict.fromkeys((gap.role, gap.client, gap.system) for gap in gaps))
    rows = [_HEAD]
    for key in sorted(keys, key=lambda key: [name for name, _, _ in keys].index(key[0])):
        counted = [gap for gap in gaps if (gap.role, gap.client, gap.system) == key and gap.void is None]
        figures = spread([gap.gap_ms for gap in counted])
        if figures is None:
            rows.append((*key, "", "", "", "0", "", ""))
            continue
        errors = sum(len(gap.failures) for gap in counted) / len(counted)
        load = sum(gap.load for gap in counted) / len(counted)
        shown = (f"{figures.median:,.0f}", f"{figures.p90:,.0f}", f"{figures.worst:,.0f}", str(figures.count))
        rows.append((*key, *shown, f"{errors:.1f}", f"{load:.1f}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    void = [f"void: {gap.system}, {gap.client}, {gap.role}: {gap.void}" for gap in gaps if gap.void is not None]
    return "\n".join([*lines, *void])


def write(folder: Path, environment: Mapping[str, object], gaps: Sequence[Gap], left_out: Sequence[str]) -> str:
    """NAME with .md and .json in the folder, each replaced; returns the text."""
    folder.mkdir(parents=True, exist_ok=True)
    head = [f"- {name}: {value}" for name, value in environment.items() if name != "settings"]
    missing = [f"- left out: {why}" for why in left_out]
    text = "\n".join(["# Failover as applications see it", "", *head, *missing, "", table(gaps), ""])
    (folder / f"{NAME}.md").write_text(text, encoding="utf-8")
    content = {"environment": dict(environment), "left out": list(left_out), "kills": [asdict(gap) for gap in gaps]}
    (folder / f"{NAME}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return text
