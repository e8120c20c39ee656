"""The common shape of what every checker hands back: findings (rows that prove something) and figures (counts,
measures).

A family is lazy: nothing runs until the verdict unions all families into a few jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

Kind = Literal["invalid", "unknown", "allowed"]


@dataclass(frozen=True, slots=True)
class Family:
    """findings: schema.FINDING, a row per anomaly; None for what is only measured. figures: schema.FIGURE."""

    findings: DataFrame | None
    figures: DataFrame


def finding(
    rows: DataFrame,
    checker: str | Column,
    detail: Column,
    *,
    kind: Kind | Column = "invalid",
    offset: Column | None = None,
    value: Column | None = None,
    ops: Sequence[Column] = (),
    from_ns: Column | None = None,
    to_ns: Column | None = None,
    evidence: Column | None = None,
) -> DataFrame:
    """Rows (with a column `p`) as schema.FINDING; one output row per input row."""
    null_long = F.lit(None).cast("bigint")
    op_list = F.array_compact(F.array(*[op.cast("bigint") for op in ops])) if ops else F.array().cast("array<bigint>")
    return rows.select(
        (F.lit(checker) if isinstance(checker, str) else checker).alias("checker"),
        (F.lit(kind) if isinstance(kind, str) else kind).alias("kind"),
        F.col("p").cast("string").alias("p"),
        (null_long if offset is None else offset.cast("bigint")).alias("offset"),
        (null_long if value is None else value.cast("bigint")).alias("value"),
        op_list.alias("ops"),
        (null_long if from_ns is None else from_ns.cast("bigint")).alias("from_ns"),
        (null_long if to_ns is None else to_ns.cast("bigint")).alias("to_ns"),
        detail.alias("detail"),
        (F.lit(None).cast("string") if evidence is None else evidence).alias("evidence"),
    )


def figures(rows: DataFrame, named: Mapping[tuple[str, str], Column]) -> DataFrame:
    """rows: one per partition (column `p`). named: (checker, name) → column of that row. Nulls are left out."""
    cells = [
        F.struct(F.lit(checker).alias("checker"), F.lit(name).alias("name"), column.cast("double").alias("value"))
        for (checker, name), column in named.items()
    ]
    return (
        rows.select(F.col("p").cast("string").alias("p"), F.explode(F.array(*cells)).alias("cell"))
        .select("cell.checker", "p", "cell.name", "cell.value")
        .where(F.col("value").isNotNull())
    )


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames of one schema."""
    assert frames
    return reduce(DataFrame.unionByName, frames)


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


def empty(spark: SparkSession, kind: T.StructType) -> DataFrame:
    """No rows of a type, without a Python worker (which createDataFrame would start)."""
    return spark.range(0).select(*[F.lit(None).cast(field.dataType).alias(field.name) for field in kind.fields])
