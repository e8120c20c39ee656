"""Registers, searched for an order (`checkers.search`), and what was found as findings: the same of every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

import checkers.search
from checkers.spark.tables import kept, one_piece
from checkers.spark.workers import in_workers
from checkers.verdicts.findings import Rule, apply_rules, text

FOUND = T.StructType(
    [
        T.StructField("verdict", T.StringType()),
        T.StructField("completed", T.LongType()),
        T.StructField("blocking", T.LongType()),
        T.StructField("states", T.ArrayType(T.LongType())),
        T.StructField("before", T.ArrayType(T.LongType())),
        T.StructField("from_ns", T.LongType()),
        T.StructField("to_ns", T.LongType()),
    ]
)
"""`checkers.search.keys.Found`."""

RULE = "order"
"""Name of the rule that each of these findings is of."""


def operation(
    f: str,
    value: Column,
    *,
    complete_ns: Column | None = None,
    session: Column | None = None,
    since_ns: Column | None = None,
) -> Column:
    """The fields of `checkers.search.operations.Operation`, of a row with op, invoke_ns and complete_ns.

    complete_ns: None for the row's own. session: the node that answered, and after a slash which of its lives.
    """
    return F.struct(
        F.col("op").alias("index"),
        F.lit(f).alias("f"),
        value.cast("bigint").alias("value"),
        F.col("invoke_ns").alias("invoke_ns"),
        (F.col("complete_ns") if complete_ns is None else complete_ns).cast("bigint").alias("complete_ns"),
        (F.lit(None) if session is None else session).cast("string").alias("session"),
        (F.lit(None) if since_ns is None else since_ns).cast("bigint").alias("since_ns"),
    ).alias("operation")


def alone() -> Column:
    """The session of a row whose answer is compared with no other of its node."""
    return F.concat("node", F.lit("/"), F.col("op").cast("string"))


def registers(rows: DataFrame, *keys: str, counted: Sequence[Column]) -> DataFrame:
    """One row per register: keys, `operations`, and the aggregates `counted`. rows: one per `operation`."""
    operations = F.collect_list("operation").alias("operations")
    return rows.transform(one_piece).groupBy(*keys).agg(operations, *counted)


def sought(of: DataFrame, search: Callable[..., Any], begins_at: Column) -> DataFrame:
    """Registers with what a search of `checkers.search.keys` found of each, in parallel. begins_at: value at first."""
    found = in_workers(search, checkers.search, FOUND)("operations", begins_at)
    return kept(of.withColumn("found", found))


def order_findings(
    checker: str,
    searched: DataFrame,
    refused: str,
    undecided: str,
    *,
    shown: Mapping[str, Column],
    state: Mapping[int, str],
    offsets: bool = False,
) -> DataFrame:
    """schema.FINDING of what has no order, and of what was not found out.

    searched: (p, operations, found, …), one row per register. refused, undecided: templates of what is said; beside the
    columns of `shown` they may name k (operations before the one that blocks), s (states before it), v (what it
    returned), n (who did), m (operations in all). state: names of values that are no numbers to people. offsets:
    whether values are offsets of the partition.
    """
    found = F.col("found")
    blocking = F.element_at(F.filter("operations", lambda one: one["index"] == found["blocking"]), 1)
    rows = searched.where(found["verdict"] != "linearizable").select(
        "*", F.size("operations").alias("_size"), blocking.alias("_blocking")
    )
    said = {
        "k": F.col("found.completed"),
        "s": F.array_join(F.transform("found.states", lambda one: _named(one, state)), " or "),
        "v": _named(F.col("_blocking.value"), state),
        "n": F.regexp_extract("_blocking.session", "^[^/]*", 0),
        "m": F.col("_size"),
        **shown,
    }
    rules = [
        Rule(
            checker,
            F.col("found.verdict") == verdict,
            text(template, **said),
            name=RULE,
            kind="invalid" if verdict == "not-linearizable" else "unknown",
            offset=F.col("_blocking.value") if offsets else None,
            ops=[F.get("found.before", F.lit(0)), F.get("found.before", F.lit(1)), F.col("found.blocking")],
            from_ns=F.col("found.from_ns"),
            to_ns=F.col("found.to_ns"),
        )
        for verdict, template in (("not-linearizable", refused), ("out-of-budget", undecided))
    ]
    return apply_rules(rows, rules)


def _named(value: Column, names: Mapping[int, str]) -> Column:
    shown = value.cast("string")
    for number, name in names.items():
        shown = F.when(value == number, F.lit(name)).otherwise(shown)
    return shown
