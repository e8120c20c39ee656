"""What nights say over time: figures that moved, schedules whose verdict changes, runs that had to be tried again.

Pure. Decides what counts as moved and as flaky. Must not know where results are kept or how they are drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.nightly.history import NightRow, RunRow
from harness.nightly.jobs import NO_VERDICT

NIGHTS_SHOWN = 30
NIGHTS_COMPARED = 10
LEAST_NIGHTS = 3
"""Before a night: fewer say nothing about what is usual."""
MOVED_BY = 1.5
"""A figure has moved where the night's median is this many times the usual one, or less than one part of it."""

LABELS: Mapping[str, str] = {
    "recovery_ms": "slowest recovery after a fault, ms",
    "unavailable_ms": "longest time without an acknowledgement, ms",
    "per_s": "records acknowledged per second",
}
"""Figures of a run that nights are compared by, with their names for people."""
MORE_IS_BETTER = frozenset({"per_s"})


@dataclass(frozen=True, slots=True)
class NightOfRuns:
    """One night of one run file. counts: what the runs count as → how many; medians: by figure."""

    night: int
    began: str
    counts: Mapping[str, int]
    medians: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Trend:
    """One run file over the nights, the oldest first."""

    name: str
    nights: Sequence[NightOfRuns]

    def points(self, figure: str) -> list[tuple[int, float]]:
        """(night, median) of the nights that measured it."""
        return [(one.night, one.medians[figure]) for one in self.nights if figure in one.medians]


@dataclass(frozen=True, slots=True)
class Moved:
    """A figure of a run file that is not what it was. usual: the median of the nights before."""

    name: str
    figure: str
    now: float
    usual: float

    @property
    def worse(self) -> bool:
        """Whether it moved the wrong way."""
        return (self.now < self.usual) == (self.figure in MORE_IS_BETTER)

    @property
    def text(self) -> str:
        """A sentence for console and pages."""
        how = "worse" if self.worse else "better"
        return f"{self.name}: {LABELS[self.figure]}: {self.now:,.0f}, usually {self.usual:,.0f} ({how})"


@dataclass(frozen=True, slots=True)
class Flaky:
    """One run file with one seed and one code whose runs did not all end alike."""

    name: str
    seed: int
    code: str
    verdicts: Sequence[str]

    @property
    def text(self) -> str:
        """A sentence for console and pages."""
        return f"{self.name} seed {self.seed}: {', '.join(self.verdicts)}, with the same code and seed"


def trends(nights: Iterable[NightRow], runs: Iterable[RunRow]) -> list[Trend]:
    """One for each run file of the last night, over the last nights. runs: of these nights, in their order."""
    shown = list(nights)[-NIGHTS_SHOWN:]
    by_name: dict[str, dict[int, list[RunRow]]] = {}
    for row in last_attempts(runs):
        by_name.setdefault(row.name, {}).setdefault(row.night, []).append(row)
    last = shown[-1].id if shown else None
    return [
        Trend(name, [_night(night, of_nights[night.id]) for night in shown if night.id in of_nights])
        for name, of_nights in sorted(by_name.items())
        if last in of_nights
    ]


def _night(night: NightRow, rows: Sequence[RunRow]) -> NightOfRuns:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.counts_as] = counts.get(row.counts_as, 0) + 1
    medians = {}
    for figure in LABELS:
        values = [value for row in rows if (value := getattr(row.result.figures, figure)) is not None]
        if values:
            medians[figure] = float(median(values))
    return NightOfRuns(night.id, night.began, counts, medians)


def last_attempts(runs: Iterable[RunRow]) -> list[RunRow]:
    """Of each job of each night the attempt that counts."""
    last = {(row.night, row.key): row for row in runs}
    return sorted(last.values(), key=lambda row: row.id)


def moved(of: Iterable[Trend]) -> list[Moved]:
    """Figures of the last night that are far from the median of the nights before; those that are worse first."""
    found = []
    for trend in of:
        for figure in LABELS:
            points = trend.points(figure)
            if not points or points[-1][0] != trend.nights[-1].night:
                continue
            before = [value for _, value in points[-1 - NIGHTS_COMPARED : -1]]
            if len(before) < LEAST_NIGHTS or (usual := float(median(before))) <= 0:
                continue
            now = points[-1][1]
            if not usual / MOVED_BY <= now <= usual * MOVED_BY:
                found.append(Moved(trend.name, figure, now, usual))
    return sorted(found, key=lambda one: (not one.worse, one.name, one.figure))


def flaky(runs: Iterable[RunRow]) -> list[Flaky]:
    """Schedules with more than one verdict; runs without one do not count."""
    seen: dict[tuple[str, str], list[RunRow]] = {}
    for row in runs:
        if row.result.verdict() != NO_VERDICT:
            seen.setdefault((row.schedule, row.code), []).append(row)
    return [
        Flaky(rows[0].name, rows[0].seed, code, tuple(row.result.verdict() for row in rows))
        for (_, code), rows in seen.items()
        if len({row.result.verdict() for row in rows}) > 1
    ]


def tried_again(runs: Iterable[RunRow]) -> list[RunRow]:
    """Attempts that gave no verdict, and were followed by another one or not."""
    return [row for row in runs if row.result.verdict() == NO_VERDICT]
