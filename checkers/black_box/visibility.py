"""Read above the high watermark, from what clients saw alone.

Input grain: one row per wire poll or list_offsets with a response. A row proves: a response in leader epoch e showed
offset o, or had a HW or an end beyond it, or acknowledged it with acks=all (`ends_told`), and the response to a request
that was sent after it had HW <= o in e. Within an epoch the HW never falls, so o had been shown above it. The HW of the
same response does not bound what that response shows: it may be older than the read.

A follower that reads for a consumer (KIP-392) lags, and may know of more than a new leader's watermark has reached, by
the leader before. But a record of epoch e is committed in e by e's leader alone: what a follower returned of e in e
counts as shown. Its own watermark bounds nothing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.ends_told import acknowledged_ends
from checkers.black_box.facts import Facts
from checkers.history.responses import (
    by_follower,
    by_wire,
    carried_end,
    requests_latest,
    response_epoch,
    response_watermark,
    shown_end,
)
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

ABOVE_HW = "read-above-hw"


def visibility_checks(facts: Facts) -> Family:
    requests = facts.history.requests.where((F.col("outcome") == "ok") & by_wire())
    latest, end_offset = requests_latest(), F.col("end_offset")
    responses = requests.select(
        "p",
        "op",
        response_epoch().alias("epoch"),
        "invoke_ns",
        "complete_ns",
        shown_end().alias("shown_end"),
        F.when(latest & (F.col("isolation") == 0), end_offset).otherwise(response_watermark()).alias("hw"),
        F.when(latest, end_offset).otherwise(carried_end()).alias("data_end"),
    ).where(F.col("epoch") >= 0)
    acked = acknowledged_ends(facts.history).withColumnRenamed("end", "shown_end")
    showing = responses.select("p", "epoch", "op", "complete_ns", "shown_end")
    showing = showing.unionByName(_by_followers(facts)).unionByName(acked)
    shown = showing.where(F.col("shown_end").isNotNull()).select(
        "p",
        "epoch",
        F.col("complete_ns").alias("at_ns"),
        F.lit(1).alias("turn"),
        F.struct("shown_end", "op", "complete_ns").alias("shown"),
        F.lit(None).cast("bigint").alias("op"),
        F.lit(None).cast("bigint").alias("hw"),
        F.lit(None).cast("bigint").alias("complete_ns"),
    )
    bounded = responses.where(F.col("hw").isNotNull()).select(
        "p",
        "epoch",
        F.col("invoke_ns").alias("at_ns"),
        F.lit(0).alias("turn"),
        F.lit(None).cast(shown.schema["shown"].dataType).alias("shown"),
        "op",
        "hw",
        "complete_ns",
    )
    # At equal times the request counts as the earlier one: it was not certainly sent after the response.
    before = Window.partitionBy("p", "epoch").orderBy("at_ns", "turn").rowsBetween(Window.unboundedPreceding, 0)
    judged = (
        shown.unionByName(bounded)
        .transform(one_piece)
        .withColumn("highest", F.max("shown").over(before))
        .where(F.col("hw").isNotNull())
    )
    above = judged.where(F.col("hw") < F.col("highest.shown_end"))
    # One row per response that showed too much, not one per later request.
    witnessed = above.groupBy("p", "epoch", "highest").agg(F.min(F.struct("hw", "op", "complete_ns")).alias("later"))
    found = apply_rules(
        witnessed,
        [
            Rule(
                ABOVE_HW,
                F.lit(True),
                text(
                    "{p} told that all below {e} is committed in leader epoch {le}; a later request was given "
                    "a high watermark of {h}",
                    p=F.col("p"),
                    e=F.col("highest.shown_end"),
                    le=F.col("epoch"),
                    h=F.col("later.hw"),
                ),
                offset=F.col("highest.shown_end") - 1,
                ops=[F.col("highest.op"), F.col("later.op")],
                from_ns=F.col("highest.complete_ns"),
                to_ns=F.col("later.complete_ns"),
            )
        ],
    )
    per_partition = responses.groupBy("p").agg(
        F.count("data_end").alias("answers_with_data"), F.count("hw").alias("answers_with_hw")
    )
    return Family(
        found,
        figures(
            per_partition,
            {
                (ABOVE_HW, "answers_with_data"): F.col("answers_with_data"),
                (ABOVE_HW, "answers_with_hw"): F.col("answers_with_hw"),
            },
        ),
    )


def _by_followers(facts: Facts) -> DataFrame:
    """(p, epoch, op, complete_ns, shown_end): what followers returned of the leader epoch that they were in."""
    own = facts.history.polls.where(by_follower() & (F.col("epoch") == F.col("leader_epoch")) & (F.col("epoch") >= 0))
    return own.groupBy("p", "epoch", "op", "complete_ns").agg((F.max("offset") + 1).alias("shown_end"))
