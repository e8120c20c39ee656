"""Carries a plan out: both systems up at once, warmed up, every row on one and then on the other.

Decides the order: in odd rounds Kafka is first, in even rounds highwater, so that neither always follows the other. A
row that fails on one system is void there and nothing else stops. Must not know what rows measure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from benchmarks.measure.guard import VoidRun
from benchmarks.plan import MB, Plan, title
from benchmarks.process import BenchmarkFailed
from benchmarks.report.resume import RowName
from benchmarks.report.summary import RowRuns, Run
from benchmarks.rows.base import Bench, Row
from benchmarks.rows.consume import LeanConsume
from benchmarks.rows.latency import OneInFlight
from benchmarks.rows.produce import LeanProduce, SmallRequests

Say = Callable[[str], None]


def warm_up(bench: Bench, total_bytes: int) -> None:
    """Every kind of request that rows make, until compilers and caches are warm. Raises BenchmarkFailed, VoidRun."""
    rows: tuple[Row, ...] = (
        LeanProduce(-1, 1024, 6, 1 * MB, total_bytes),
        LeanProduce(1, 1024, 6, 1 * MB, total_bytes),
        LeanProduce(-1, 1024, 6, 16384, total_bytes // 2),
        SmallRequests(-1, max(total_bytes // 20_000, 1000)),
        OneInFlight(-1, max(total_bytes // 50_000, 1000)),
        LeanConsume(1024, 6, total_bytes),
    )
    for row in rows:
        row.run(bench)


def carry_out(
    plan: Plan,
    benches: Mapping[str, Bench],
    say: Say,
    keep: Callable[[Sequence[RowRuns]], object],
    before: Mapping[RowName, Sequence[Run]] = MappingProxyType({}),
    out_of_time: Callable[[], bool] = lambda: False,
) -> bool:
    """All rows of all phases; `keep` gets the state after each row, so that an abort loses nothing.

    before: runs by row that count as made. False where out_of_time came first.
    """
    phases = [
        [
            RowRuns(row.group, row.name, row.metrics, row.targets, list(before.get((row.group, row.name), ())))
            for row in phase.rows
        ]
        for phase in plan.phases
    ]
    warm = plan.warm_up_bytes == 0
    for phase, of_phase in zip(plan.phases, phases, strict=True):
        for number in range(phase.rounds):
            order = list(benches) if number % 2 == 0 else list(benches)[::-1]
            for row, runs in zip(phase.rows, of_phase, strict=True):
                wanted = [name for name in order if sum(run.system == name for run in runs.runs) <= number]
                if not wanted:
                    continue
                if out_of_time():
                    return False
                if not warm and not _before_load(row):
                    _warm_all(plan, benches, say)
                    warm = True
                for name in wanted:
                    runs.runs.append(measure(row, name, benches[name], say, number + 1, phase.rounds))
                keep([made for made_in in phases for made in made_in if made.runs])
    return True


def measure(row: Row, name: str, bench: Bench, say: Say, number: int, of: int) -> Run:
    """One run, void when it failed."""
    begun = time.monotonic()
    try:
        run = Run(name, dict(row.run(bench)))
        text = ", ".join(f"{metric} {value:.4g}" for metric, value in run.values.items())
    except (VoidRun, BenchmarkFailed) as error:
        run = Run(name, {}, str(error).strip() or repr(error))
        text = f"VOID: {run.void}"
    say(f"[{number}/{of}] {title(row)} | {name}: {text} [{time.monotonic() - begun:.1f} s]")
    return run


def _warm_all(plan: Plan, benches: Mapping[str, Bench], say: Say) -> None:
    for name, bench in benches.items():
        begun = time.monotonic()
        try:
            warm_up(bench, plan.warm_up_bytes)
            say(f"warm-up of {name}: {time.monotonic() - begun:.1f} s")
        except (VoidRun, BenchmarkFailed) as error:
            say(f"warm-up of {name} broke off: {error}")


def _before_load(row: Row) -> bool:
    return row.group == "Footprint"
