"""Carries a plan out: both systems up at once, warmed up, every row on one and then on the other.

Decides the order: in odd rounds Kafka is first, in even rounds highwater, so that neither always follows the other. A
row that fails on one system is void there and nothing else stops. Must not know what rows measure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.measure.guard import VoidRun
from benchmarks.plan import MB, Plan, title
from benchmarks.process import BenchmarkFailed
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
    plan: Plan, benches: Mapping[str, Bench], say: Say, keep: Callable[[Sequence[RowRuns]], object]
) -> list[RowRuns]:
    """All rows of all phases; `keep` gets the state after each row, so that an abort loses nothing."""
    made: list[RowRuns] = []
    warm = plan.warm_up_bytes == 0
    for phase in plan.phases:
        if not warm and not all(_before_load(row) for row in phase.rows):
            _warm_all(plan, benches, say)
            warm = True
        of_phase = [RowRuns(row.group, row.name, row.metrics, row.targets) for row in phase.rows]
        made += of_phase
        for number in range(phase.rounds):
            order = list(benches) if number % 2 == 0 else list(benches)[::-1]
            for row, runs in zip(phase.rows, of_phase, strict=True):
                for name in order:
                    runs.runs.append(measure(row, name, benches[name], say, number + 1, phase.rounds))
                keep(made)
    return made


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
