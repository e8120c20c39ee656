"""Medians, spread, ratios and verdicts from the runs of every row; pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.report.metrics import Target

OURS = "highwater"
THEIRS = "kafka"
DISTURBED_CORES = 0.1
"""A run is marked when others on the machine, or the host, took more of a processor than this."""
BUSY_SHARE = 0.9
"""A client that uses so much of its threads may be what bounds a row."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a row on one system. void: why it does not count; its values are kept but never used.

    begun: UTC; part: in which call of a benchmark that was done in parts.
    """

    system: str
    values: Mapping[str, float]
    void: str | None = None
    begun: str = ""
    seconds: float = 0.0
    part: int = 1


@dataclass(slots=True)
class RowRuns:
    """All runs of a row, in the order in which they were made. metrics: what the table shows of it.

    wanted: runs by system; judged_from: so many of each make a verdict; client_threads: 0 when not known; not_served:
    why a system is not tried.
    """

    group: str
    name: str
    metrics: tuple[str, ...]
    targets: tuple[Target, ...]
    wanted: Mapping[str, int]
    judged_from: int = 1
    client_threads: int = 0
    not_served: Mapping[str, str] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def of(self, system: str) -> list[Run]:
        return [run for run in self.runs if run.system == system]

    def valid(self, system: str) -> list[Run]:
        return [run for run in self.of(system) if run.void is None]

    def voids(self, system: str) -> list[str]:
        return [run.void for run in self.of(system) if run.void is not None]

    def values(self, system: str, metric: str) -> list[float]:
        """Of the runs that count."""
        return [run.values[metric] for run in self.valid(system) if metric in run.values]


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


Without = Literal["", "not run", "not served", "void", "too few samples"]


@dataclass(frozen=True, slots=True)
class Side:
    """One quantity of one row on one system. without: why there is no spread. client_bound: the client was busy."""

    spread: Spread | None
    voids: int
    without: Without
    client_bound: bool = False

    @property
    def count(self) -> int:
        return 0 if self.spread is None else self.spread.count


def side(row: RowRuns, system: str, metric: str, processors: int) -> Side:
    found = spread(row.values(system, metric))
    voids = len(row.voids(system))
    without: Without = ""
    if system in row.not_served:
        without = "not served"
    elif found is None:
        without = "too few samples" if row.valid(system) else "void" if voids else "not run"
    threads = min(row.client_threads, processors)
    bound = metric == "client_cores" and threads > 0 and found is not None and found.median >= BUSY_SHARE * threads
    return Side(found, voids, without, bound)


@dataclass(frozen=True, slots=True)
class Line:
    """One quantity of one row. met: None when there is no target or not enough to judge it by."""

    group: str
    row: str
    metric: str
    ours: Side
    theirs: Side
    ratio: float | None
    target: Target | None
    met: bool | None
    judged_from: int


def lines(rows: Sequence[RowRuns], processors: int = 2) -> list[Line]:
    """Every quantity of every row, in their order."""
    made = []
    for row in rows:
        targets = {target.metric: target for target in row.targets}
        for metric in row.metrics:
            ours, theirs = (side(row, system, metric, processors) for system in (OURS, THEIRS))
            found = ratio(ours.spread, theirs.spread)
            target = targets.get(metric)
            met = _met(target, ours, theirs, found, row.judged_from)
            made.append(Line(row.group, row.name, metric, ours, theirs, found, target, met, row.judged_from))
    return made


def _met(target: Target | None, ours: Side, theirs: Side, found: float | None, judged_from: int) -> bool | None:
    if target is None or ours.spread is None:
        return None
    counted = ours.count if target.of == "value" else min(ours.count, theirs.count)
    return target.met(ours.spread.median, found) if counted >= judged_from else None


def remarks(row: RowRuns) -> list[str]:
    """What a reader must know of the runs of a row: which are void, which were disturbed, what is not served."""
    texts = [f"not served: {row.name}: {system}: {why}" for system, why in row.not_served.items()]
    for system in (THEIRS, OURS):
        texts += [f"void: {row.name}: {system}: {reason}" for reason in dict.fromkeys(row.voids(system))]
        for what, name in (("foreign_cores", "others on the machine"), ("steal_cores", "the host")):
            taken = [run.values.get(what, 0.0) for run in row.valid(system)]
            disturbed = [cores for cores in taken if cores > DISTURBED_CORES]
            if disturbed:
                texts.append(
                    f"disturbed: {row.name}: {system}: {name} took up to {max(disturbed):.2f} of a processor in"
                    f" {len(disturbed)} of {len(taken)} runs"
                )
    return texts


@dataclass(frozen=True, slots=True)
class Progress:
    """Runs that count, of those wanted; and voids."""

    valid: int
    wanted: int
    voids: int


def progress(rows: Sequence[RowRuns]) -> Progress:
    return Progress(
        sum(min(len(row.valid(system)), wanted) for row in rows for system, wanted in row.wanted.items()),
        sum(wanted for row in rows for wanted in row.wanted.values()),
        sum(run.void is not None for row in rows for run in row.runs),
    )


def without_figure(rows: Sequence[RowRuns]) -> list[str]:
    """Figures that are judged and wanted, and have no run that counts."""
    return [
        f"{row.group}: {row.name}: {target.metric} of {system}"
        for row in rows
        for target in row.targets
        for system in row.wanted
        if not row.values(system, target.metric)
    ]
