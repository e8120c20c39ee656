"""Which rows are measured, in which order, how often; pure.

A plan has phases: rows that leave the brokers running come first and are repeated in rounds, so that no JVM is measured
that has just been restarted; rows that end brokers follow. Rows that make Kafka hold its internal topics are the last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.rows.base import Row
from benchmarks.rows.catch_up import CatchUp
from benchmarks.rows.consume import LeanConsume, LibraryConsume
from benchmarks.rows.consume_tools import ConsoleConsume, GroupConsume
from benchmarks.rows.coordination import CoordinatorLoad, OffsetCommits, Transactions
from benchmarks.rows.curves import LogSize, Partitions
from benchmarks.rows.failover import Failover
from benchmarks.rows.footprint import LoadedMemory, Start
from benchmarks.rows.groups import GroupSettles, IdleMembers
from benchmarks.rows.latency import FixedLoad, OneInFlight
from benchmarks.rows.on_disk import OnDisk
from benchmarks.rows.produce import LeanProduce, LibraryProduce, SmallRequests, ToolProduce
from benchmarks.rows.tail_read import TailRead
from benchmarks.warm_up import WarmUp

MB = 1_000_000
SMALL_BATCH = 16384
LARGE_BATCH = 1_048_576


@dataclass(frozen=True, slots=True)
class Phase:
    """rounds: how often each row is measured on each system, in turn. judged_from: a figure is judged from so many runs
    of each system on.
    """

    rows: tuple[Row, ...]
    rounds: int
    judged_from: int


@dataclass(frozen=True, slots=True)
class Plan:
    """warm_up: of the clusters that are up all the time; None where every row has its own, and no other is up."""

    name: str
    warm_up: WarmUp | None
    phases: tuple[Phase, ...]

    @property
    def estimate_s(self) -> float:
        """How long all of it takes, roughly, on two processors."""
        warm_up_s = 0.0 if self.warm_up is None else _START_S + 1.4 * self.warm_up.seconds
        return warm_up_s + sum(row.estimate_s * phase.rounds for phase in self.phases for row in phase.rows)


_START_S = 40.0


def quick(folder: Path) -> Plan:
    """The core of it, in five minutes: what a failover takes and how soon a broker serves is seen from one run."""
    steady: tuple[Row, ...] = (
        LeanProduce(-1, 1024, 6, LARGE_BATCH, 250 * MB),
        LeanProduce(1, 1024, 6, LARGE_BATCH, 250 * MB),
        LeanProduce(-1, 1024, 6, SMALL_BATCH, 60 * MB),
        SmallRequests(-1, 8_000),
        FixedLoad(-1, 10_000, 1024, 2.0),
        OneInFlight(-1, 2_500),
        LeanConsume(1024, 6, 250 * MB, passes=5),
        LibraryProduce(-1, 1024, 6, LARGE_BATCH, 120 * MB),
        ToolProduce(-1, 1024, 6, SMALL_BATCH, 40 * MB),
        LoadedMemory(60 * MB),
    )
    return Plan(
        "quick",
        WarmUp(60 * MB, 3, 76.0),
        (Phase((Start(folder),), 1, 1), Phase(steady, 2, 2), Phase((Failover("SIGKILL"),), 1, 1)),
    )


def full(folder: Path) -> Plan:
    """Every row but the cost curves (docs/benchmarks.md)."""
    sizes, partitions, batches, acks = (100, 200, 1024), (1, 6, 12), (SMALL_BATCH, LARGE_BATCH), (-1, 1)
    matrix = [(a, s, p, b) for b in batches for a in acks for s in sizes for p in partitions]
    steady: tuple[Row, ...] = (
        *(LeanProduce(a, s, p, b, _lean_bytes(a, b)) for a, s, p, b in matrix),
        SmallRequests(-1, 20_000),
        SmallRequests(1, 50_000),
        FixedLoad(-1, 10_000, 1024, 6.0),
        FixedLoad(1, 10_000, 1024, 6.0),
        FixedLoad(-1, 40_000, 1024, 5.0),
        FixedLoad(-1, 250_000, 200, 5.0, linger_us=5000, batch_bytes=LARGE_BATCH, bulk=True),
        TailRead(10_000, 1024, 5.0),
        TailRead(250_000, 200, 5.0, linger_us=5000, batch_bytes=LARGE_BATCH, consumers=2, behind_rate=50_000),
        OneInFlight(-1, 12_000),
        OneInFlight(1, 20_000),
        OnDisk(OneInFlight(-1, 2_000)),
        OnDisk(SmallRequests(-1, 5_000)),
        OnDisk(LeanProduce(-1, 1024, 6, SMALL_BATCH, 40 * MB)),
        OnDisk(LeanProduce(-1, 1024, 6, LARGE_BATCH, 400 * MB)),
        *(LeanConsume(s, p, 400 * MB, passes=6) for s in sizes for p in (1, 6, 12)),
        *(LeanConsume(s, 6, 100 * MB, batch_bytes=SMALL_BATCH, passes=10) for s in sizes),
        *(LeanConsume(s, p, 400 * MB, "cold") for s in sizes for p in (1, 6)),
        LeanConsume(200, 6, 440 * MB, rate=550_000),
        *(LibraryProduce(a, s, 6, b, _library_bytes(b)) for b in batches for a in acks for s in (100, 1024)),
        *(LibraryConsume(s, 6, 400 * MB) for s in (100, 1024)),
        ConsoleConsume(1024, 400 * MB),
        ConsoleConsume(1024, 400 * MB, "cold"),
        LoadedMemory(500 * MB),
    )
    tool = [ToolProduce(a, s, p, b, _tool_bytes(b)) for a, s, p, b in matrix]
    return Plan(
        "full",
        WarmUp(200 * MB, 8, 420.0),
        (
            Phase((Start(folder),), 3, 3),
            Phase(steady, 3, 3),
            Phase(tuple(row for row in tool if row.partitions == 6), 3, 3),
            # What more or fewer partitions change is seen from one run; nothing is judged by it.
            Phase(tuple(row for row in tool if row.partitions != 6), 1, 3),
            Phase((CatchUp(800 * MB),), 3, 3),
            Phase(
                (
                    Failover("SIGKILL"),
                    Failover("SIGKILL", "controller"),
                    Failover("SIGKILL", "leader and controller"),
                    Failover("SIGTERM"),
                ),
                3,
                3,
            ),
            # These make Kafka create topics of 150 replicas.
            Phase(
                (
                    GroupConsume(1024, 400 * MB),
                    OffsetCommits(1, 4.0),
                    OffsetCommits(32, 6.0),
                    Transactions(1, 6.0),
                    Transactions(32, 8.0),
                    Transactions(1000, 10.0),
                    GroupSettles(100),
                ),
                3,
                3,
            ),
            Phase((IdleMembers(10_000, 15.0),), 3, 3),
            Phase((CoordinatorLoad(1_000_000),), 3, 3),
        ),
    )


def _lean_bytes(acks: int, batch_bytes: int) -> int:
    """So that Kafka takes three seconds or so."""
    if batch_bytes == LARGE_BATCH:
        return 400 * MB
    return 120 * MB if acks == -1 else 180 * MB


def _library_bytes(batch_bytes: int) -> int:
    return 300 * MB if batch_bytes == LARGE_BATCH else 100 * MB


def _tool_bytes(batch_bytes: int) -> int:
    return 200 * MB if batch_bytes == LARGE_BATCH else 80 * MB


def curves(folder: Path) -> Plan:
    """What things cost over the length of a log and the number of partitions, each on a cluster of its own."""
    sizes = tuple(LogSize(gigabytes, folder) for gigabytes in (1, 10, 100, 1000))
    partitions = tuple(Partitions(count, folder) for count in (10, 1000, 10_000))
    return Plan("curves", None, (Phase((*sizes, *partitions), 1, 1),))


def chosen(plan: Plan, pattern: str | None, rounds: int | None, warm_up_mb: int | None = None) -> Plan:
    """Only rows whose "group: name" has a match of the pattern, none perhaps; with other numbers.

    A warm-up of 0 MB is none at all.
    """
    phases = []
    for phase in plan.phases:
        rows = tuple(row for row in phase.rows if pattern is None or re.search(pattern, title(row)))
        if rows:
            phases.append(replace(phase, rows=rows, rounds=rounds or phase.rounds))
    warm_up = plan.warm_up
    if warm_up is not None and warm_up_mb is not None:
        passes = warm_up.passes if warm_up_mb else 0
        warm_up = replace(warm_up, total_bytes=warm_up_mb * MB, passes=passes)
    if warm_up is not None:
        # Other loads than those of the rows that were chosen would only take time.
        warm_up = replace(warm_up, groups=frozenset(row.group for phase in phases for row in phase.rows))
    return replace(plan, phases=tuple(phases), warm_up=warm_up)


def titles(plan: Plan) -> Sequence[str]:
    return [title(row) for phase in plan.phases for row in phase.rows]


def title(row: Row) -> str:
    return f"{row.group}: {row.name}"
