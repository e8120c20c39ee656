"""Carries a plan out: every row on one system and then on the other, until as many runs count as are wanted.

Decides the order: whoever was first in one row or round is second in the next, so that neither always follows the
other. A run that fails is void and is repeated, but not for ever; a system that is broken is replaced and warmed up
again; where nothing succeeds any more the plan ends and says why. Must not know what rows measure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from benchmarks.bench import Bench
from benchmarks.measure.guard import NotHeld, VoidRun
from benchmarks.measure.window import OthersWindow
from benchmarks.plan import Phase, Plan, title
from benchmarks.process import BenchmarkFailed
from benchmarks.report.resume import RowName
from benchmarks.report.summary import RowRuns, Run
from benchmarks.rows.base import Found, Row
from benchmarks.warm_up import Warmed, WarmUp, warm_up

VOIDS_REPEATED = 2
"""So many void runs of a row on a system are made up for."""
ROWS_VOID = 3
"""After so many rows in a row that ended void on one system the plan ends."""

Say = Callable[[str], None]


class Site(Protocol):
    """The systems, by name, each with what it is measured with."""

    @property
    def benches(self) -> Mapping[str, Bench]: ...

    def mend(self, system: str) -> bool:
        """After a failure: whether the system was broken, so that another cluster of it is up now. Raises
        BenchmarkFailed.
        """
        ...


@dataclass(slots=True)
class Course:
    """How a plan is going. stopped: why it ended before its end; warmed: by system, the last time."""

    rows: list[RowRuns]
    stopped: str | None = None
    warmed: dict[str, Warmed] = field(default_factory=dict)


class _Stop(Exception):
    """No further run is made; the text says why."""


def carry_out(
    plan: Plan,
    site: Site,
    say: Say,
    keep: Callable[[Course], object],
    before: Mapping[RowName, Sequence[Run]] = MappingProxyType({}),
    out_of_time: Callable[[], str | None] = lambda: None,
    part: int = 1,
    warm: Callable[[Bench, WarmUp, Say], Warmed] = warm_up,
) -> Course:
    """All rows of all phases; `keep` gets the course after each run, so that an abort loses nothing.

    before: runs by row that were made already. out_of_time: why no further run may begin, once that is so.
    """
    made = _Plan(plan, site, say, keep, before, out_of_time, part, warm)
    try:
        made.carry_out()
    except _Stop as stop:
        made.course.stopped = str(stop)
        say(f"stopped: {stop}")
    except KeyboardInterrupt:
        made.course.stopped = "it was interrupted"
        keep(made.course)
        raise
    keep(made.course)
    return made.course


class _Plan:
    """One call of carry_out."""

    def __init__(
        self,
        plan: Plan,
        site: Site,
        say: Say,
        keep: Callable[[Course], object],
        before: Mapping[RowName, Sequence[Run]],
        out_of_time: Callable[[], str | None],
        part: int,
        warm: Callable[[Bench, WarmUp, Say], Warmed],
    ) -> None:
        self._plan = plan
        self._site = site
        self._say = say
        self._keep = keep
        self._out_of_time = out_of_time
        self._part = part
        self._warm_up = warm
        self._phases = [
            [_row_runs(phase, row, list(site.benches), before) for row in phase.rows] for phase in plan.phases
        ]
        self.course = Course([runs for of_phase in self._phases for runs in of_phase])
        self._warm: set[str] = set()
        self._void_rows: dict[str, list[str]] = {name: [] for name in site.benches}

    def carry_out(self) -> None:
        for phase, of_phase in zip(self._plan.phases, self._phases, strict=True):
            for number in range(phase.rounds):
                for nth, (row, runs) in enumerate(zip(phase.rows, of_phase, strict=True)):
                    # By the row's own place: a count of all runs would begin every round alike where rows are even.
                    order = list(runs.wanted) if (nth + number) % 2 == 0 else list(runs.wanted)[::-1]
                    for system in order:
                        self._until_one_counts(row, runs, system, number, phase.rounds)

    def _until_one_counts(self, row: Row, runs: RowRuns, system: str, number: int, of: int) -> None:
        """Until more than `number` runs count, or enough were void in this part."""
        while len(runs.valid(system)) <= number:
            void = sum(run.void is not None and run.part == self._part for run in runs.of(system))
            if void > VOIDS_REPEATED:
                return
            why = self._out_of_time()
            if why is not None:
                raise _Stop(why)
            if row.needs_warm_up:
                self._make_warm()
            bench = self._site.benches[system]
            run, held = self._measure(row, system, bench, f"[{number + 1}/{of}]")
            runs.runs.append(run)
            self._keep(self.course)
            if run.void is None:
                self._void_rows[system].clear()
            if (run.void is not None and held) or bench.doubts:
                self._look_after(system, row, run)

    def _look_after(self, system: str, row: Row, run: Run) -> None:
        """After a failure: another cluster where this one is broken, the plan's end where nothing succeeds."""
        bench = self._site.benches[system]
        for doubt in bench.doubts:
            self._say(f"{system}: {doubt}")
        bench.doubts.clear()
        if run.void is not None:
            void = self._void_rows[system]
            if title(row) not in void:
                void.append(title(row))
            if len(void) >= ROWS_VOID:
                raise _Stop(f"{len(void)} rows in a row were void on {system}, the last, {title(row)}: {run.void}")
        try:
            if self._site.mend(system):
                self._warm.discard(system)
        except BenchmarkFailed as error:
            raise _Stop(f"{system} does not come up again: {error}") from None

    def _make_warm(self) -> None:
        """All systems before the first row that is measured warm, so that none has more before it than another."""
        wanted = self._plan.warm_up
        if wanted is None or not wanted.passes:
            return
        for system in self._site.benches:
            if system in self._warm:
                continue
            try:
                warmed = self._warm_up(self._site.benches[system], wanted, self._say)
            except (BenchmarkFailed, VoidRun) as error:
                raise _Stop(f"{system} could not be warmed up: {error}") from None
            self.course.warmed[system] = warmed
            self._warm.add(system)
            self._say(f"warm-up of {system}: {warmed.text}")

    def _measure(self, row: Row, system: str, bench: Bench, round_text: str) -> tuple[Run, bool]:
        """One run, void when it failed, whatever way; and False where it was the system that did not hold a load."""
        begun_s, begun, found, void, held = time.monotonic(), time.time(), Found(), None, True
        others = OthersWindow()
        try:
            row.run(bench, found)
        except VoidRun as error:
            void, held = str(error) or repr(error), not isinstance(error, NotHeld)
        except BenchmarkFailed as error:
            void = str(error).strip() or repr(error)
        except Exception as error:
            void = f"{type(error).__name__}: {error}"
        # Over all of the run, for rows that do not tell it of when they measured.
        for name, value in others.close().facts().items():
            found.setdefault(name, value)
        seconds = round(time.monotonic() - begun_s, 1)
        text = ", ".join(f"{metric} {found[metric]:.4g}" for metric in row.metrics if metric in found)
        outcome = f"VOID: {void} ({text})" if void is not None else text
        self._say(f"{round_text} {title(row)} | {system}: {outcome} [{seconds:.1f} s]")
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begun))
        return Run(system, found, void, stamp, seconds, self._part), held


def _row_runs(phase: Phase, row: Row, systems: Sequence[str], before: Mapping[RowName, Sequence[Run]]) -> RowRuns:
    return RowRuns(
        group=row.group,
        name=row.name,
        metrics=row.metrics,
        targets=row.targets,
        wanted={system: phase.rounds for system in systems if system not in row.not_served},
        judged_from=phase.judged_from,
        client_threads=row.client_threads,
        not_served=dict(row.not_served),
        runs=list(before.get((row.group, row.name), ())),
    )
