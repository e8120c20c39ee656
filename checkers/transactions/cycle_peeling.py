"""Peeling: which edges can be on a cycle at all, so that only those leave Spark.

Every node has a time. A cycle that goes forward in time must come back by an edge that does not, so all of its nodes
lie in a stretch of time that such edges cover without a gap: what lies outside, or leads from one stretch to another,
is on no cycle. No iteration, and no more than a few passes over edges sorted by time.

Each layer is peeled by itself: an edge that cannot be on a cycle of wr edges may well be on one of all kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.spark.tables import kept, one_piece
from checkers.transactions.cycle_edges import COLUMNS, PROCESS, REAL_TIME, RW, WR, WW

_KEPT = (*COLUMNS, "at_u", "at_v")
_SLICE_BITS = 27
"""Of time: a slice is 0.13 s."""
_MOST_SLICES = 4096
"""Of nine minutes. Longer stretches are few, and every edge is held against each of them."""
_BY_TIME = ("low", "high", "u", "v", "edge", "p")
READS, DATA, ORDERED = "reads", "data", "ordered"
"""Layers: reads of one another in whatever order of time; dependencies by data; these and the orders of time."""

LAYERS = {
    READS: (WR, PROCESS, REAL_TIME),
    DATA: (WW, WR, RW),
    ORDERED: (WW, WR, RW, PROCESS, REAL_TIME),
}


@dataclass(frozen=True, slots=True)
class Edge:
    """One that may be on a cycle: columns of `cycle_edges.COLUMNS`, and the times of its nodes, in ns."""

    u: int
    v: int
    edge: str
    p: str | None
    from_op: int | None
    from_offset: int | None
    from_value: int | None
    to_op: int | None
    to_offset: int | None
    to_value: int | None
    at_u: int = 0
    at_v: int = 0


@dataclass(frozen=True, slots=True)
class Peeled:
    """edges: of each layer what is left. over: layers of which more was left than the bound; the rest is not there."""

    edges: dict[str, list[Edge]]
    over: frozenset[str]


def peel(edges: DataFrame, bound: int) -> Peeled:
    """At most so many edges of each layer, the earliest, on the driver."""
    order = Window.partitionBy("layer").orderBy(*_BY_TIME)
    left = _left(edges).withColumn("nth", F.row_number().over(order)).where(F.col("nth") <= bound + 1)
    found: dict[str, list[Edge]] = {layer: [] for layer in LAYERS}
    table = left.select("layer", *_KEPT).toArrow().to_pydict()
    for layer, *values in zip(table["layer"], *(table[name] for name in _KEPT), strict=True):
        found[layer].append(Edge(*values))
    over = frozenset(layer for layer, edges in found.items() if len(edges) > bound)
    return Peeled({layer: edges[:bound] for layer, edges in found.items()}, over)


def stretches(edges: DataFrame, bound: int) -> DataFrame:
    """(stretch, nth, columns of Edge): what peeling leaves of all kinds, by the stretches that no cycle leaves; of each
    the earliest edges, one more than `bound` at most.
    """
    mine = _left(edges).where(F.col("layer") == ORDERED)
    order = Window.partitionBy("stretch").orderBy(*_BY_TIME)
    earliest = mine.withColumn("nth", F.row_number().over(order)).where(F.col("nth") <= bound + 1)
    return earliest.select("stretch", "nth", *_KEPT)


def layers_of(edges: Sequence[Edge]) -> dict[str, list[Edge]]:
    """Edges of one stretch by the layers that they are of."""
    return {layer: [edge for edge in edges if edge.edge in kinds] for layer, kinds in LAYERS.items()}


def _layers() -> Column:
    return F.array_compact(
        F.array(*[F.when(F.col("edge").isin(*kinds), F.lit(layer)) for layer, kinds in LAYERS.items()])
    )


def _left(edges: DataFrame) -> DataFrame:
    """Edges with their layer, and the stretch of it that they lie in: those within one that edges back in time cover.

    stretch: where it begins, in ns. Stretches of a layer lie apart, so an edge lies in one at most.
    """
    low, high = F.least("at_u", "at_v"), F.greatest("at_u", "at_v")
    timed = edges.select(*_KEPT, low.alias("low"), high.alias("high"))
    stretches = kept(_stretches(timed.where(F.col("at_v") <= F.col("at_u"))))
    first, last = _slice_of(F.col("stretch")), _slice_of(F.col("until"))
    is_short = last - first < _MOST_SLICES
    short = stretches.where(is_short).withColumn("slice", F.explode(F.sequence(first, last)))
    long = stretches.where(~is_short)
    inside = (F.col("low") >= F.col("stretch")) & (F.col("high") <= F.col("until"))
    near = timed.withColumn("slice", _slice_of(F.col("low"))).join(F.broadcast(short), on="slice").drop("slice")
    return (
        near.where(inside)
        .unionByName(timed.join(F.broadcast(long), on=inside))
        .transform(one_piece)
        .where(F.array_contains(_layers(), F.col("layer")))
        .drop("until")
    )


def _stretches(back: DataFrame) -> DataFrame:
    """(layer, stretch, until): from where to where such edges cover time without a gap, in ns."""
    by_low = Window.partitionBy("layer").orderBy("low", "high")
    reached = F.max("high").over(by_low.rowsBetween(Window.unboundedPreceding, -1))
    gap = reached.isNull() | (F.col("low") > reached)
    return (
        back.select("low", "high", F.explode(_layers()).alias("layer"))
        .select("layer", "low", "high", gap.cast("int").alias("begins"))
        .withColumn("nth", F.sum("begins").over(by_low.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy("layer", "nth")
        .agg(F.min("low").alias("stretch"), F.max("high").alias("until"))
        .drop("nth")
    )


def _slice_of(at_ns: Column) -> Column:
    return F.shiftright(at_ns, _SLICE_BITS)
