"""Inconsistent offset, and vanished read where the offset was given to another value, or fell below the log's start.

Input grain: Facts.by_offset, then only the offsets in conflict. A row of inconsistent offset proves two values at one
offset; a row of vanished read proves that a value had been read there before the other one was seen there.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts, told_start
from checkers.findings import Family, Rule, apply_rules, figures, text, union

INCONSISTENT = "inconsistent-offset"
VANISHED = "vanished-read"


def offset_checks(facts: Facts) -> Family:
    rows = facts.by_offset
    conflicts = rows.where(F.col("min_value") != F.col("max_value"))
    inconsistent = apply_rules(
        conflicts,
        [
            Rule(
                INCONSISTENT,
                F.lit(True),
                text(
                    "{p} offset {o} holds both value {a} and value {b}",
                    p=F.col("p"),
                    o=F.col("offset"),
                    a=F.col("min_value"),
                    b=F.col("max_value"),
                ),
                offset=F.col("offset"),
                value=F.col("min_value"),
                ops=[F.col("low.op"), F.col("high.op")],
                from_ns=F.col("from_ns"),
                to_ns=F.col("to_ns"),
                lost_epoch=F.when(
                    F.col("low_epoch").isNotNull() & F.col("high_epoch").isNotNull(), F.least("low_epoch", "high_epoch")
                ),
            )
        ],
    )
    per_partition = rows.groupBy("p").agg(
        F.count(F.lit(1)).alias("offsets_known"), F.count_if("is_read").alias("offsets_read")
    )
    return Family(
        union([inconsistent, _replaced(facts, conflicts), _below_start(facts)]),
        figures(
            per_partition,
            {
                (INCONSISTENT, "offsets_known"): F.col("offsets_known"),
                (INCONSISTENT, "offsets_read"): F.col("offsets_read"),
                (VANISHED, "offsets_read"): F.col("offsets_read"),
            },
        ),
    )


def _replaced(facts: Facts, conflicts: DataFrame) -> DataFrame:
    """One row per value that was read at an offset where another value was seen by a later operation."""
    at = conflicts.select("p", "offset")
    polls = facts.history.polls.select("p", "offset", "value", "op", "invoke_ns", "complete_ns", "epoch")
    reads = (
        polls.join(at, on=["p", "offset"], how="left_semi")
        .groupBy("p", "offset", "value")
        .agg(
            F.min(F.struct("complete_ns", "op")).alias("first"),
            F.max(F.struct("invoke_ns", "op")).alias("latest"),
            F.min(F.when(F.col("epoch") >= 0, F.col("epoch"))).alias("epoch"),
        )
    )
    acks = (
        facts.by_value.where(F.col("acked") & ~F.col("forgiven"))
        .select(
            "p", F.col("ack_offset").alias("offset"), "value", F.struct("send.invoke_ns", "send.op").alias("latest")
        )
        .join(at, on=["p", "offset"], how="left_semi")
    )
    others = (
        reads.select("p", "offset", F.col("value").alias("other"), "latest")
        .unionByName(acks.withColumnRenamed("value", "other"))
        .groupBy("p", "offset", "other")
        .agg(F.max("latest").alias("latest"))
    )
    pairs = (
        reads.drop("latest")
        .join(others, on=["p", "offset"], how="inner")
        .where((F.col("value") != F.col("other")) & (F.col("first.complete_ns") < F.col("latest.invoke_ns")))
        .groupBy("p", "offset", "value", "first", "epoch")
        .agg(F.max(F.struct("latest", "other")).alias("successor"))
    )
    return apply_rules(
        pairs,
        [
            Rule(
                VANISHED,
                F.lit(True),
                text(
                    "value {v} was read at {p} offset {o}, which later held value {w}",
                    v=F.col("value"),
                    p=F.col("p"),
                    o=F.col("offset"),
                    w=F.col("successor.other"),
                ),
                offset=F.col("offset"),
                value=F.col("value"),
                ops=[F.col("first.op"), F.col("successor.latest.op")],
                from_ns=F.col("first.complete_ns"),
                to_ns=F.col("successor.latest.invoke_ns"),
                lost_epoch=F.col("epoch"),
            )
        ],
    )


def _below_start(facts: Facts) -> DataFrame:
    """One row per partition whose log was said to start above an offset that was read.

    Allowed where the run's retention can have deleted it.
    """
    told = (
        facts.history.requests.where(F.col("outcome") == "ok")
        .withColumn("log_start", told_start())
        .where(F.col("log_start") > 0)
        .groupBy("p")
        .agg(F.max(F.struct("log_start", "op", "complete_ns")).alias("start"))
    )
    polls = facts.history.polls.select("p", F.struct("offset", "value", "op", "complete_ns", "epoch").alias("read"))
    judged = (
        polls.join(F.broadcast(told), on="p", how="inner")
        .where(F.col("read.offset") < F.col("start.log_start"))
        .groupBy("p", "start")
        .agg(F.min("read").alias("read"))
    )
    return apply_rules(
        judged,
        [
            Rule(
                VANISHED,
                F.lit(True),
                text(
                    "value {v} was read at {p} offset {o}; the log was said to start at {s}, "
                    + ("old enough to be deleted" if facts.retention else "and nothing was configured to delete it"),
                    v=F.col("read.value"),
                    p=F.col("p"),
                    o=F.col("read.offset"),
                    s=F.col("start.log_start"),
                ),
                kind="allowed" if facts.retention else "invalid",
                offset=F.col("read.offset"),
                value=F.col("read.value"),
                ops=[F.col("read.op"), F.col("start.op")],
                from_ns=F.least("read.complete_ns", "start.complete_ns"),
                to_ns=F.greatest("read.complete_ns", "start.complete_ns"),
                lost_epoch=F.when(F.col("read.epoch") >= 0, F.col("read.epoch")),
            )
        ],
    )
