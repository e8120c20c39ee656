"""Cycles of a history of which peeling leaves too much for one machine: stretch by stretch, by Spark's workers.

A stretch of time that edges back in time cover without a gap is left by no cycle, nor by a component
(`cycle_peeling`): each is searched by itself, as the whole is where it is small. What comes to the driver are counts by
kind and partition, and the cycles that are shown. Of a stretch with more edges than the bound the rest is not searched.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

import checkers.transactions
from checkers.spark.workers import by_value
from checkers.transactions.cycle_components import Cycle, by_length, cycles
from checkers.transactions.cycle_peeling import Edge, layers_of, stretches

Key = tuple[str, str, bool, str | None]
"""Kind and form of a cycle, whether it is of reads alone, and the partition where it is told."""


def home(cycle: Cycle) -> str | None:
    """The partition where a cycle is told; None: of orders of time alone."""
    return next((edge.p for edge in cycle.edges if edge.p is not None), None)


def key(cycle: Cycle) -> Key:
    """What cycles are counted by."""
    return cycle.kind, cycle.form, cycle.reads_only, home(cycle)


@dataclass(frozen=True, slots=True)
class Found:
    """shown: cycles, shortest first, of each key at least as many as are shown of one. totals: how many there are of
    each. edges: how many were searched; over: whether some were not.
    """

    shown: list[Cycle]
    totals: Counter[Key]
    edges: int
    over: bool


class _Part(NamedTuple):
    """Of some stretches, what `Found` is of all, in plain values: classes of ours stay in the worker.

    shown: (kind, form, reads_only, edges, nodes) of each cycle.
    """

    shown: list[tuple[str, str, bool, list[tuple[Any, ...]], int]]
    totals: Mapping[Key, int]
    edges: int
    over: bool


def search(edges: DataFrame, bound: int, most: int) -> Found:
    """One job. edges: of `cycle_edges`. bound: edges of one stretch; most: cycles that are shown of one key."""
    rows = stretches(edges, bound).rdd.map(lambda row: (row[0], tuple(row[1:])))
    searched = rows.groupByKey().mapPartitions(by_value(_searching(bound, most), checkers.transactions))
    parts = [_Part(*part) for part in searched.collect()]
    cycles_of = [
        Cycle(kind, form, reads_only, tuple(Edge(*edge) for edge in around), nodes)
        for part in parts
        for kind, form, reads_only, around, nodes in part.shown
    ]
    totals: Counter[Key] = Counter()
    for part in parts:
        totals.update(part.totals)
    shown = sorted(cycles_of, key=by_length)
    return Found(shown, totals, sum(part.edges for part in parts), any(part.over for part in parts))


def _searching(bound: int, most: int) -> Callable[[Iterable[tuple[int, Iterable[Any]]]], Iterator[tuple[Any, ...]]]:
    def stretch_by_stretch(groups: Iterable[tuple[int, Iterable[Any]]]) -> Iterator[tuple[Any, ...]]:
        shown: dict[Key, list[Cycle]] = {}
        totals: dict[Key, int] = {}
        edges, over = 0, False
        for _, rows in groups:
            mine = [Edge(*values) for _, *values in sorted(rows, key=lambda row: row[0])]
            edges, over = edges + len(mine[:bound]), over or len(mine) > bound
            for cycle in cycles(layers_of(mine[:bound])):
                of = key(cycle)
                totals[of] = totals.get(of, 0) + 1
                shown[of] = heapq.nsmallest(most, [*shown.get(of, ()), cycle], key=by_length)
        plain = [
            (one.kind, one.form, one.reads_only, [astuple(edge) for edge in one.edges], one.nodes)
            for mine_of in shown.values()
            for one in mine_of
        ]
        yield plain, totals, edges, over

    return stretch_by_stretch
