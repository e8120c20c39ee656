"""Which rows are measured, in which order, how often; pure.

A plan has phases: rows that leave the brokers running come first and are repeated in rounds, so that no JVM is measured
that has just been restarted; rows that end brokers follow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.rows.base import Row
from benchmarks.rows.catch_up import CatchUp
from benchmarks.rows.consume import LeanConsume, LibraryConsume, ToolConsume
from benchmarks.rows.curves import LogSize, Partitions
from benchmarks.rows.failover import Failover
from benchmarks.rows.footprint import Memory, Start
from benchmarks.rows.latency import FixedLoad, OneInFlight
from benchmarks.rows.produce import LeanProduce, LibraryProduce, SmallRequests, ToolProduce

MB = 1_000_000
SMALL_BATCH = 16384
LARGE_BATCH = 1_048_576


@dataclass(frozen=True, slots=True)
class Phase:
    """rounds: how often each row is measured on each system, in turn."""

    rows: tuple[Row, ...]
    rounds: int


@dataclass(frozen=True, slots=True)
class Plan:
    """warm_up_bytes: written and read by each system, per kind of request, before anything counts."""

    name: str
    warm_up_bytes: int
    phases: tuple[Phase, ...]


def quick(folder: Path) -> Plan:
    """The core in about five minutes."""
    steady: tuple[Row, ...] = (
        LeanProduce(-1, 1024, 6, LARGE_BATCH, 300 * MB),
        LeanProduce(1, 1024, 6, LARGE_BATCH, 300 * MB),
        LeanProduce(-1, 100, 6, LARGE_BATCH, 150 * MB),
        LeanProduce(1, 100, 6, LARGE_BATCH, 150 * MB),
        LeanProduce(-1, 1024, 6, SMALL_BATCH, 150 * MB),
        SmallRequests(-1, 20_000),
        SmallRequests(1, 20_000),
        FixedLoad(-1, 10_000, 1024, 2.5),
        OneInFlight(-1, 3_000),
        OneInFlight(1, 6_000),
        LeanConsume(1024, 6, 300 * MB, passes=5),
        LeanConsume(100, 6, 150 * MB, passes=10),
    )
    last: tuple[Row, ...] = (
        Memory("after load"),
        LibraryProduce(-1, 1024, 6, LARGE_BATCH, 150 * MB),
        LibraryConsume(1024, 6, 150 * MB),
        ToolProduce(-1, 1024, 6, SMALL_BATCH, 100 * MB),
        Failover("SIGKILL"),
        Failover("SIGTERM"),
    )
    first: tuple[Row, ...] = (Start(folder), Memory("idle, before any load"))
    return Plan("quick", 100 * MB, (Phase(first, 1), Phase(steady, 2), Phase(last, 1)))


def full(folder: Path) -> Plan:
    """Everything that issue 4 lists but the cost curves."""
    sizes, partitions, batches, acks = (100, 200, 1024), (1, 6, 12), (SMALL_BATCH, LARGE_BATCH), (-1, 1)
    matrix = [(a, s, p, b) for b in batches for a in acks for s in sizes for p in partitions]
    steady: tuple[Row, ...] = (
        *(LeanProduce(a, s, p, b, 300 * MB if s < 1024 else 800 * MB) for a, s, p, b in matrix),
        SmallRequests(-1, 100_000),
        SmallRequests(1, 100_000),
        FixedLoad(-1, 10_000, 1024, 10.0),
        FixedLoad(1, 10_000, 1024, 10.0),
        FixedLoad(-1, 40_000, 1024, 5.0),
        FixedLoad(-1, 250_000, 200, 5.0, linger_us=5000, batch_bytes=LARGE_BATCH),
        OneInFlight(-1, 20_000),
        OneInFlight(1, 40_000),
        *(LeanConsume(s, p, 800 * MB, passes=5) for s in sizes for p in (1, 6)),
        *(LeanConsume(s, p, 800 * MB, "cold") for s in sizes for p in (1, 6)),
        *(LibraryProduce(a, s, 6, b, 200 * MB) for b in batches for a in acks for s in (100, 1024)),
        *(LibraryConsume(s, 6, 400 * MB) for s in (100, 1024)),
        LeanConsume(1024, 6, 400 * MB, batch_bytes=SMALL_BATCH),
        LeanConsume(200, 6, 550 * MB, rate=550_000),
        ToolConsume("kafka-console-consumer", 1024, 800 * MB),
        ToolConsume("kafka-console-consumer", 1024, 800 * MB, "cold"),
        ToolConsume("kafka-consumer-perf-test", 1024, 800 * MB),
    )
    tool: tuple[Row, ...] = tuple(ToolProduce(a, s, p, b, 100 * MB if s < 1024 else 400 * MB) for a, s, p, b in matrix)
    return Plan(
        "full",
        800 * MB,
        (
            Phase((Start(folder),), 5),
            Phase((Memory("idle, before any load"),), 1),
            Phase(steady, 3),
            Phase((Memory("after load"),), 1),
            Phase(tool, 2),
            Phase((CatchUp(800 * MB),), 3),
            Phase(
                (
                    Failover("SIGKILL"),
                    Failover("SIGKILL", "controller"),
                    Failover("SIGKILL", "leader and controller"),
                    Failover("SIGTERM"),
                ),
                5,
            ),
        ),
    )


def curves(folder: Path) -> Plan:
    """What things cost over the length of a log and the number of partitions, each on a cluster of its own."""
    sizes = tuple(LogSize(gigabytes, folder) for gigabytes in (1, 10, 100, 1000))
    partitions = tuple(Partitions(count, folder) for count in (10, 1000, 10_000))
    return Plan("curves", 0, (Phase((*sizes, *partitions), 1),))


def chosen(plan: Plan, pattern: str | None, rounds: int | None, warm_up_mb: int | None = None) -> Plan:
    """Only rows whose "group: name" has a match of the pattern; with other numbers. Raises ValueError if none."""
    phases = []
    for phase in plan.phases:
        rows = tuple(row for row in phase.rows if pattern is None or re.search(pattern, title(row)))
        if rows:
            phases.append(replace(phase, rows=rows, rounds=rounds or phase.rounds))
    if not phases:
        known = "\n  ".join(titles(plan))
        raise ValueError(f"no row matches {pattern!r}; there are:\n  {known}")
    warm_up = plan.warm_up_bytes if warm_up_mb is None else warm_up_mb * MB
    return replace(plan, phases=tuple(phases), warm_up_bytes=warm_up)


def titles(plan: Plan) -> Sequence[str]:
    return [title(row) for phase in plan.phases for row in phase.rows]


def title(row: Row) -> str:
    return f"{row.group}: {row.name}"
