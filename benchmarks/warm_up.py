"""Makes a cluster warm: every kind of request, again and again, until it costs no less.

Decides when a system counts as warm, by one rule for both: each kind of load is repeated until two passes in a row
differ by less than CLOSE in broker CPU per request or per byte. The kinds take turns, so that a compiler in the
background has time. A limit on passes and seconds ends it; what was still moving then is told. Must not know which
system it warms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from benchmarks.bench import Bench
from benchmarks.measure.guard import VoidRun
from benchmarks.process import BenchmarkFailed
from benchmarks.rows.base import Found, Row
from benchmarks.rows.consume import LeanConsume, LibraryConsume
from benchmarks.rows.latency import FixedLoad, OneInFlight
from benchmarks.rows.produce import LeanProduce, LibraryProduce, SmallRequests, ToolProduce
from benchmarks.rows.tail_read import TailRead

CLOSE = 0.05
PASSES_MIN = 2
"""Of every kind of load, however long they take: a cold compiler's are the slowest."""
_PER_BYTE, _PER_REQUEST = "cpu_s_per_gb", "cpu_ms_per_1000_requests"
_LARGE, _SMALL = 1_000_000, 16384
_LEAN, _SINGLE, _IN_FLIGHT = "Produce, lean client", "One record a request", "One record in flight"
_AS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Consume, Kafka's tools": ("Consume, lean client",),
        "Follower that was away": (_LEAN,),
        "Failover, 18 s session": (_IN_FLIGHT,),
        "On disk before acknowledged": (_LEAN, _SINGLE, _IN_FLIGHT),
        "Footprint": (_LEAN, _SINGLE),
        "Coordinators": (_SINGLE, _IN_FLIGHT),
        "Groups": (_SINGLE,),
    }
)
"""Groups of rows that are no load to warm up with: others' serve them."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """total_bytes: of a pass with large batches; others are sized like it. groups: None for every kind of load."""

    total_bytes: int
    passes: int
    seconds: float
    groups: frozenset[str] | None = None

    @property
    def text(self) -> str:
        """For the head of the results."""
        if not self.passes:
            return "no warm-up"
        return (
            f"a warm-up of {self.total_bytes / 1e6:.0f} MB a pass, {self.passes} passes or {self.seconds:g} s at most"
        )


BRIEF = WarmUp(100_000_000, 6, 40.0, frozenset({_LEAN, _IN_FLIGHT}))
"""For clusters that serve one row."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """kinds: of load; moving: those that still changed when passes or seconds ran out, by how much."""

    kinds: int
    passes: int
    seconds: float
    moving: tuple[str, ...]

    @property
    def text(self) -> str:
        moving = f"; still moving: {', '.join(self.moving)}" if self.moving else ""
        return f"{self.passes} passes of {self.kinds} kinds of load in {self.seconds:.0f} s{moving}"

    def facts(self) -> Found:
        """For the JSON file, where a row warms up a cluster of its own."""
        return {
            "warm_up_s": round(self.seconds, 1),
            "warm_up_passes": float(self.passes),
            "warm_up_moving": float(len(self.moving)),
        }


def loads(wanted: WarmUp) -> list[tuple[Row, str]]:
    """(load, quantity that tells its cost), of the wanted groups."""
    groups = None
    if wanted.groups is not None:
        groups = {name for group in wanted.groups for name in _AS.get(group, (group,))}
    size = wanted.total_bytes
    small = max(size // 20_000, 1000)
    every: list[tuple[Row, str]] = [
        (LeanProduce(-1, 1024, 6, _LARGE, size), _PER_BYTE),
        (LeanProduce(1, 1024, 6, _LARGE, size), _PER_BYTE),
        (LeanProduce(-1, 1024, 6, _SMALL, size // 3), _PER_BYTE),
        (LeanProduce(1, 1024, 6, _SMALL, size // 3), _PER_BYTE),
        (SmallRequests(-1, small), _PER_REQUEST),
        (SmallRequests(1, 2 * small), _PER_REQUEST),
        (FixedLoad(-1, 10_000, 1024, 1.5), _PER_REQUEST),
        (OneInFlight(-1, max(size // 50_000, 1000)), _PER_REQUEST),
        (OneInFlight(1, max(size // 20_000, 2000)), _PER_REQUEST),
        (LeanConsume(1024, 6, size, passes=5), _PER_BYTE),
        (TailRead(10_000, 1024, 2.0), _PER_BYTE),
        (LibraryProduce(-1, 1024, 6, _LARGE, size), _PER_BYTE),
        (LibraryConsume(1024, 6, size), _PER_BYTE),
        (ToolProduce(-1, 1024, 6, _SMALL, size // 3), _PER_BYTE),
    ]
    return [(row, cost) for row, cost in every if groups is None or row.group in groups]


def is_close(costs: Sequence[float]) -> bool:
    """Whether the last two passes cost the same, nearly. A pass that found no cost, 0, says nothing."""
    if len(costs) < 2:
        return False
    before, last = costs[-2:]
    return min(before, last) > 0 and abs(last - before) <= CLOSE * max(before, last)


def warm_up(
    bench: Bench,
    wanted: WarmUp,
    say: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Warmed:
    """Returns how it went. A pass that fails raises: a cluster that cannot be warmed cannot be measured."""
    # The first time it takes most of a minute, which is no warmth.
    bench.pretouch()
    begun = clock()
    kinds = loads(wanted)
    costs: dict[int, list[float]] = {index: [] for index in range(len(kinds))}

    def moving() -> list[int]:
        return [index for index, of in costs.items() if not is_close(of)]

    for _ in range(wanted.passes):
        for index in moving():
            if len(costs[index]) >= PASSES_MIN and clock() - begun > wanted.seconds:
                continue
            row, cost = kinds[index]
            found: Found = {}
            try:
                row.run(bench, found)
            except VoidRun as error:
                say(f"warm-up, {row.group}, {row.name}: {error}")
            except BenchmarkFailed as error:
                raise BenchmarkFailed(f"warm-up, {row.group}, {row.name}: {error}") from error
            costs[index].append(found.get(cost, 0.0))
    left = tuple(
        f"{kinds[index][0].group}, {kinds[index][0].name} ({' → '.join(f'{cost:.3g}' for cost in costs[index])})"
        for index in moving()
    )
    return Warmed(len(kinds), sum(len(of) for of in costs.values()), clock() - begun, left)
