"""Hole: a poll's range has an offset with no record.

Input grain: one row per ok poll. The offsets of a log go on one by one. Only markers of transactions take an offset
that no reader is given, and only compaction removes one between others, so that elsewhere [position, next position) has
a record at each, whether anybody knows of that record or not. Retention and DeleteRecords move the log's start: a
reader whose position lies below it may jump there. Of a history from elsewhere nobody knows what took offsets.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts
from checkers.black_box.jumps import jumps, told_starts
from checkers.history.responses import by_lab, imported, is_poll
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

HOLE = "hole"


def hole_checks(facts: Facts) -> Family:
    answered = facts.history.requests.where(F.col("outcome") == "ok")
    wire = by_lab()
    # A wire reader's answer names the start that it found; a real client's does not.
    start = F.when(wire, F.col("log_start")).otherwise(F.col("told_start"))
    begins = F.greatest("position", F.least(start, F.coalesce("first_offset", "next_position")))
    polls = (
        answered.where(is_poll() & ~imported())
        .join(F.broadcast(told_starts(facts.history)), on="p", how="left")
        .join(F.broadcast(_transactional(facts)), on="p", how="left")
        .withColumn("whole", F.col("transactional").isNull())
        .withColumn("begins", F.coalesce(begins, F.col("position")))
        .join(_jumped_over(facts), on="op", how="left")
        .withColumn(
            "lacking",
            F.col("next_position") - F.col("begins") - F.col("in_range") - F.coalesce("jumped_over", F.lit(0)),
        )
    )
    found = apply_rules(
        polls,
        [
            Rule(
                HOLE,
                F.col("whole") & (F.col("lacking") > 0),
                text(
                    "a poll of consumer {c} passed over {p} offsets {a} to {b} and returned nothing at {n} of them, "
                    "though no transaction wrote there, and nothing cleans that log",
                    c=F.col("consumer"),
                    p=F.col("p"),
                    a=F.col("begins"),
                    b=F.col("next_position") - 1,
                    n=F.col("lacking"),
                ),
                offset=F.col("begins"),
                ops=[F.col("op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    per_partition = polls.groupBy("p").agg(F.count(F.lit(1)).alias("polls"), F.count_if("whole").alias("judged"))
    return Family(
        found, figures(per_partition, {(HOLE, "polls"): F.col("polls"), (HOLE, "polls_judged"): F.col("judged")})
    )


def _jumped_over(facts: Facts) -> DataFrame:
    """(op, jumped_over): offsets that a real client passed over between two records to a log start that had moved."""
    within = jumps(facts.history).where("inner").withColumn("wide", F.col("log_start") - F.col("since"))
    return within.groupBy("op").agg(F.sum("wide").alias("jumped_over"))


def _transactional(facts: Facts) -> DataFrame:
    """(p, transactional): partitions that transactions wrote to, if markers alone."""
    sent = facts.by_value.where(F.col("txn").isNotNull()).select("p")
    added = facts.history.coordination.where(F.col("f") == "add_partitions").select(
        F.explode("asked.partitions").alias("p")
    )
    return sent.unionByName(added).transform(one_piece).distinct().withColumn("transactional", F.lit(True))
