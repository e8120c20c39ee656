"""Two runs side by side: settings that differ, verdicts, figures; out of their run.json and results.json.

Pure. Decides what of run.json is a setting and what only names one run. Believes nothing of what the files say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from harness.serve.details import checkers, numbers

_OF_ONE_RUN = frozenset(
    {"started_wall_ns", "origin_monotonic_ns", "origin_wall_ns", "command", "run_file", "lines", "finished", "aborted"}
)
"""Keys of run.json that differ between any two runs, or say how one ended."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing of both runs, as text; empty where a run has none."""

    name: str
    a: str
    b: str

    @property
    def differs(self) -> bool:
        """Whether the runs say different things."""
        return self.a != self.b


@dataclass(frozen=True, slots=True)
class Comparison:
    """settings: those that differ alone. verdicts: the run's own first, then each checker's. figures: all."""

    settings: tuple[Row, ...]
    verdicts: tuple[Row, ...]
    figures: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A run's run.json and results.json; an empty mapping where there is none."""

    run: Mapping[str, object]
    results: Mapping[str, object]


def compare(a: Judged, b: Judged) -> Comparison:
    """Side by side."""
    return Comparison(
        settings=tuple(row for row in _rows(_settings(a.run), _settings(b.run)) if row.differs),
        verdicts=(Row("run", _verdict(a.results), _verdict(b.results)), *_rows(_verdicts(a), _verdicts(b))),
        figures=tuple(_rows(_figures(a), _figures(b))),
    )


def as_text(comparison: Comparison, names: tuple[str, str]) -> str:
    """For a terminal: three tables, control characters shown as escapes."""
    out = []
    for title, rows in (
        ("settings that differ", comparison.settings),
        ("verdicts", comparison.verdicts),
        ("figures", comparison.figures),
    ):
        lines = [("", *names), *((row.name, row.a or "-", row.b or "-") for row in rows)]
        shown = [[_plain(cell) for cell in line] for line in lines]
        first, second = (max(len(line[column]) for line in shown) for column in (0, 1))
        out += [title, *(f"  {one:<{first}}  {two:<{second}}  {three}".rstrip() for one, two, three in shown)]
        out += [*(["  none"] if not rows else []), ""]
    return "\n".join(out)


def _plain(text: str) -> str:
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _rows(a: Mapping[str, str], b: Mapping[str, str]) -> list[Row]:
    return [Row(name, a.get(name, ""), b.get(name, "")) for name in sorted(a.keys() | b.keys())]


def _verdict(results: Mapping[str, object]) -> str:
    verdict = results.get("verdict")
    return verdict if isinstance(verdict, str) else ""


def _verdicts(judged: Judged) -> dict[str, str]:
    return {checker.name: checker.verdict for checker in checkers(judged.results)}


def _figures(judged: Judged) -> dict[str, str]:
    coverage = judged.results.get("coverage")
    found = numbers(coverage.get("figures")) if isinstance(coverage, dict) else {}
    shown = {name: _number(value) for name, value in found.items()}
    for checker in checkers(judged.results):
        shown |= {f"{checker.name}: {name}": _number(value) for name, value in checker.figures.items()}
    return shown


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def _settings(run: Mapping[str, object]) -> dict[str, str]:
    """`topic.config.retention.ms` → `60000`. Nodes: how many, for their addresses are each run's own."""
    shown: dict[str, str] = {}
    waiting: list[tuple[str, object]] = [(name, value) for name, value in run.items() if name not in _OF_ONE_RUN]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{name}.{key}", below) for key, below in value.items()]
        elif name == "nodes" and isinstance(value, list):
            shown[name] = str(len(value))
        else:
            shown[name] = value if isinstance(value, str) else json.dumps(value)
    return shown
