"""The common shape of what every checker hands back: findings (rows that prove something) and figures (counts,
measures).

A family is lazy: nothing runs until the verdict unions all families into a few jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.spark.tables import one_piece
from checkers.verdicts.verdict import Row

Kind = Literal["invalid", "unknown", "allowed"]


@dataclass(frozen=True, slots=True)
class Family:
    """findings: schema.FINDING, a row per anomaly; None for what is only measured. figures: schema.FIGURE.

    rows: what was found without Spark, with all counts and no more witnesses than are shown; no allowance looks at it.
    """

    findings: DataFrame | None
    figures: DataFrame
    rows: Sequence[Row] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """What one row proves when `when` is true of it (null counts as false). Columns are those of the row.

    name: which of the checker's rules it is, where an allowance or a doubt is about some of them only. lost_epoch: the
    highest leader epoch in which what is lost, or replaced, is known to have been there; missed_epoch: in which it was
    not; where evidence says (checkers/evidence/unclean_elections.py).
    """

    checker: str | Column
    when: Column
    detail: Column
    kind: Kind | Column = "invalid"
    name: str | Column = ""
    offset: Column | None = None
    value: Column | None = None
    ops: Sequence[Column] = ()
    from_ns: Column | None = None
    to_ns: Column | None = None
    evidence: Column | None = None
    lost_epoch: Column | None = None
    missed_epoch: Column | None = None


def apply_rules(rows: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Rows (with a column `p`) as schema.FINDING: one output row per rule that is true of a row, in one pass."""
    hits = F.array_compact(F.array(*[F.when(rule.when, _cell(rule)) for rule in rules]))
    # Findings are rare: nothing is built for rows that prove nothing.
    proving = rows.where(reduce(Column.__or__, [F.coalesce(rule.when, F.lit(False)) for rule in rules]))
    return proving.select(F.col("p").cast("string").alias("p"), F.inline(hits))


def _cell(rule: Rule) -> Column:
    ops = F.array_compact(F.array(*[op.cast("bigint") for op in rule.ops])) if rule.ops else F.array()
    return F.struct(
        (F.lit(rule.checker) if isinstance(rule.checker, str) else rule.checker).alias("checker"),
        (F.lit(rule.kind) if isinstance(rule.kind, str) else rule.kind).alias("kind"),
        (F.lit(rule.name) if isinstance(rule.name, str) else rule.name).alias("rule"),
        _long(rule.offset).alias("offset"),
        _long(rule.value).alias("value"),
        ops.cast("array<bigint>").alias("ops"),
        _long(rule.from_ns).alias("from_ns"),
        _long(rule.to_ns).alias("to_ns"),
        rule.detail.alias("detail"),
        (F.lit(None).cast("string") if rule.evidence is None else rule.evidence).alias("evidence"),
        (F.lit(None) if rule.lost_epoch is None else rule.lost_epoch).cast("int").alias("lost_epoch"),
        (F.lit(None) if rule.missed_epoch is None else rule.missed_epoch).cast("int").alias("missed_epoch"),
    )


def _long(column: Column | None) -> Column:
    return (F.lit(None) if column is None else column).cast("bigint")


def figures(rows: DataFrame, named: Mapping[tuple[str, str], Column]) -> DataFrame:
    """rows: one per partition (column `p`). named: (checker, name) → column of that row. Nulls are left out."""
    cells = [
        F.struct(F.lit(checker).alias("checker"), F.lit(name).alias("name"), column.cast("double").alias("value"))
        for (checker, name), column in named.items()
    ]
    return rows.select(F.col("p").cast("string").alias("p"), F.inline(F.array(*cells))).where(
        F.col("value").isNotNull()
    )


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames of one schema."""
    assert frames
    return frames[0] if len(frames) == 1 else one_piece(_in_halves(frames))


def _in_halves(frames: Sequence[DataFrame]) -> DataFrame:
    """Spark goes through a union's whole plan when it is made."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return _in_halves(frames[:middle]).unionByName(_in_halves(frames[middle:]))


def text(template: str, **columns: Column) -> Column:
    """`{name}` in the template replaced by that column; nulls print as `?`."""
    pieces: list[Column] = []
    rest = template
    while "{" in rest:
        before, _, tail = rest.partition("{")
        name, _, rest = tail.partition("}")
        if before:
            pieces.append(F.lit(before))
        pieces.append(F.coalesce(columns[name].cast("string"), F.lit("?")))
    if rest:
        pieces.append(F.lit(rest))
    return F.concat(*pieces)
