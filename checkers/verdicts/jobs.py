"""Runs families as few Spark jobs and brings back what a verdict needs: all counts, at most ten witnesses per kind.

Findings and figures of a group travel as rows of one query, so that Spark computes what they share once. The driver
gets a bounded number of rows however many anomalies there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.history import schema
from checkers.spark.tables import one_piece
from checkers.spark.threads import threads
from checkers.verdicts.findings import Family, union
from checkers.verdicts.verdict import WITNESSES, Row

Group = Callable[[], Sequence[Family]]
"""Builds its families when called: building a plan takes as long as running it on a small history."""

Excuse = Callable[[DataFrame], DataFrame]
"""Findings → findings, some of which are of kind `allowed` now. Before anything is counted."""


def as_they_are(findings: DataFrame) -> DataFrame:
    """Excuses nothing."""
    return findings


def collect_families(
    groups: Mapping[str, Group],
    *,
    parallel: int = 3,
    witnesses: int = WITNESSES,
    excuse: Excuse = as_they_are,
    done: Callable[[], None] = lambda: None,
) -> list[Row]:
    """One job per group, a few at a time, planned and run in threads; rows of all groups. done: called after each job,
    by its thread.
    """

    def collect(build: Group) -> list[Row]:
        rows = collect_group(build(), witnesses, excuse)
        done()
        return rows

    with threads(parallel) as pool:
        return [row for part in pool.map(collect, groups.values()) for row in part]


def collect_group(families: Sequence[Family], witnesses: int = WITNESSES, excuse: Excuse = as_they_are) -> list[Row]:
    collected = [_row(row.asDict()) for row in bounded(families, witnesses, excuse).collect()]
    return [*collected, *(row for family in families for row in family.rows)]


def bounded(families: Sequence[Family], witnesses: int, excuse: Excuse = as_they_are) -> DataFrame:
    """All figures; of the findings the first few per (checker, kind, rule), and one per partition to carry its
    count.
    """
    figures = _figure_rows(families)
    held = [family.findings for family in families if family.findings is not None]
    if not held:
        return figures
    per_partition = Window.partitionBy("checker", "kind", "rule", "p")
    in_partition = per_partition.orderBy("offset", "value", "detail")
    overall = Window.partitionBy("checker", "kind", "rule").orderBy("p", "offset", "value", "detail")
    # As few steps as there can be: each has Spark go through the whole plan of all families again.
    counted = (
        excuse(union(held))
        .select(
            *[name for name in schema.FINDING.names if name not in ("lost_epoch", "missed_epoch")],
            F.count(F.lit(1)).over(per_partition).alias("count"),
            F.row_number().over(in_partition).alias("nth_in_partition"),
            F.row_number().over(overall).alias("nth"),
            F.lit(0.0).alias("figure"),
        )
        .where((F.col("nth") <= witnesses) | (F.col("nth_in_partition") == 1))
        .drop("nth", "nth_in_partition")
    )
    return counted.unionByName(figures).transform(one_piece)


def _figure_rows(families: Sequence[Family]) -> DataFrame:
    null_long = F.lit(None).cast("bigint")
    return union([family.figures for family in families]).select(
        "checker",
        F.lit("figure").alias("kind"),
        F.lit("").alias("rule"),
        "p",
        null_long.alias("offset"),
        null_long.alias("value"),
        F.array().cast("array<bigint>").alias("ops"),
        null_long.alias("from_ns"),
        null_long.alias("to_ns"),
        F.col("name").alias("detail"),
        F.lit(None).cast("string").alias("evidence"),
        F.lit(1).cast("bigint").alias("count"),
        F.col("value").alias("figure"),
    )


def _row(raw: Mapping[str, object]) -> Row:
    ops = raw["ops"]
    return Row(
        checker=str(raw["checker"]),
        kind=str(raw["kind"]),
        rule=str(raw["rule"] or ""),
        p=_text(raw["p"]),
        count=_int(raw["count"]) or 0,
        offset=_int(raw["offset"]),
        value=_int(raw["value"]),
        ops=tuple(int(op) for op in ops) if isinstance(ops, list) else (),
        from_ns=_int(raw["from_ns"]),
        to_ns=_int(raw["to_ns"]),
        detail=str(raw["detail"] or ""),
        evidence=_text(raw["evidence"]),
        figure=float(str(raw["figure"])),
    )


def _int(value: object) -> int | None:
    return None if value is None else int(str(value))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
