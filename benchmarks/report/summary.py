"""Medians, spread, ratios and verdicts from the runs of every row; pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.report.metrics import Target

OURS = "highwater"
THEIRS = "kafka"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a row on one system. void: why it does not count; its values are kept but never used."""

    system: str
    values: Mapping[str, float]
    void: str | None = None


@dataclass(slots=True)
class RowRuns:
    """All runs of a row, in the order in which they were made. metrics: what the table shows of it."""

    group: str
    name: str
    metrics: tuple[str, ...]
    targets: tuple[Target, ...]
    runs: list[Run] = field(default_factory=list)

    def voids(self, system: str) -> list[str]:
        return [run.void for run in self.runs if run.system == system and run.void is not None]

    def values(self, system: str, metric: str) -> list[float]:
        """Of the runs that count."""
        return [
            run.values[metric]
            for run in self.runs
            if run.system == system and run.void is None and metric in run.values
        ]


@dataclass(frozen=True, slots=True)
class Spread:
    """count: of runs that count."""

    median: float
    low: float
    high: float
    count: int


def spread(values: Sequence[float]) -> Spread | None:
    """None of no values."""
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


def ratio(ours: Spread | None, theirs: Spread | None) -> float | None:
    """Of the medians, ours / theirs; None when one is missing or theirs is 0."""
    if ours is None or theirs is None or theirs.median == 0:
        return None
    return ours.median / theirs.median


@dataclass(frozen=True, slots=True)
class Line:
    """One quantity of one row. met: None when there is no target or nothing to judge it by."""

    group: str
    row: str
    metric: str
    ours: Spread | None
    theirs: Spread | None
    ratio: float | None
    target: Target | None
    met: bool | None
    voids: tuple[str, ...]


def lines(rows: Sequence[RowRuns]) -> list[Line]:
    """Every quantity of every row, in their order."""
    made = []
    for row in rows:
        targets = {target.metric: target for target in row.targets}
        voids = tuple(f"{name}: {reason}" for name in (THEIRS, OURS) for reason in row.voids(name))
        for metric in row.metrics:
            ours, theirs = spread(row.values(OURS, metric)), spread(row.values(THEIRS, metric))
            found = ratio(ours, theirs)
            target = targets.get(metric)
            met = None if target is None or ours is None else target.met(ours.median, found)
            made.append(Line(row.group, row.name, metric, ours, theirs, found, target, met, voids))
    return made
