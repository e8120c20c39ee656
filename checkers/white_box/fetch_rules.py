"""Rule 5's other half: what a leader believes of its followers is what they asked, and what they asked for they had.

Input grain: one row per partition named in a follower's fetch, at either end, matched by request id, so that order
across brokers is causal. A row found proves that a leader counted, or let in, a follower beyond what it had asked
for; that the two ends tell different offsets of one fetch; or that a follower asked beyond its own log. A fetch that
the leader refused for what it said of the follower's log (it diverges, or is out of range) says nothing of that log.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.findings import Family, Rule, apply_rules, figures, text, union
from checkers.white_box.inputs import Evidence, sent_fetches
from checkers.white_box.watermark_rules import HW_WITHIN_ISR, line_rule

OUT_OF_RANGE = "1"
"""Kafka's error code OFFSET_OUT_OF_RANGE, as `parts` of a `fetch_answered` line has it."""


def fetch_rules(evidence: Evidence) -> Family:
    per_partition = evidence.fetches.groupBy("p").agg(F.count(F.lit(1)).alias("fetches"))
    sent = sent_fetches(evidence.events).where(F.col("p").isin(*evidence.info.partitions))
    return Family(
        union([_claims(evidence), _both_ends(evidence, sent), _beyond_own_log(evidence, sent)]),
        figures(per_partition, {(HW_WITHIN_ISR, "follower_fetches"): F.col("fetches")}),
    )


def _claims(evidence: Evidence) -> DataFrame:
    """HW advances and proposed joiners against the highest offset that the member asked for in this epoch."""
    null_long = F.lit(None).cast("bigint")
    line = ("b", "i", "s", "t_ns", "p", "le")
    fetched = evidence.fetches.join(F.broadcast(_refused(evidence)), on=["rid", "b", "p"], how="left_anti").select(
        *line, F.col("follower").alias("member"), "offset", null_long.alias("claim"), F.lit("fetch").alias("what")
    )
    advances = (F.col("e") == "hw") & (F.col("role") == "leader")
    joins = (F.col("e") == "isr_propose") & (F.col("kind") == "expand")
    members = F.when(advances, F.array_union("isr", "maximal")).when(joins, F.array_except("isr", "was_isr"))
    claims = (
        evidence.timeline.where(advances | joins)
        .select(
            *line,
            F.when(advances, F.col("hw")).otherwise(F.col("was_leader.hw")).alias("claim"),
            F.when(advances, F.lit("advanced its high watermark to"))
            .otherwise(F.lit("proposed the member while its high watermark was"))
            .alias("what"),
            F.explode(members).alias("member"),
        )
        .where(F.col("member") != F.col("b"))
        .select(*line, "member", null_long.alias("offset"), "claim", "what")
    )
    before = Window.partitionBy("b", "i", "p", "le", "member").orderBy("s").rowsBetween(Window.unboundedPreceding, -1)
    judged = fetched.unionByName(claims).withColumn("asked", F.max("offset").over(before))
    return apply_rules(
        judged,
        [
            line_rule(
                HW_WITHIN_ISR,
                F.col("claim") > F.coalesce("asked", F.lit(0)),
                text(
                    "{w} {c}, but broker {m} had asked for nothing beyond {a} in epoch {le}",
                    w=F.col("what"),
                    c=F.col("claim"),
                    m=F.col("member"),
                    a=F.col("asked"),
                    le=F.col("le"),
                ),
                F.col("claim"),
            )
        ],
    )


def _refused(evidence: Evidence) -> DataFrame:
    """(rid, b, p): what leader b refused of a fetch, as the follower's log has the answer.

    Only what is decided as the fetch arrives, and once for all: an error of another kind may come of a role that
    changed after the leader had rightly counted the fetch.
    """
    return (
        evidence.events.where(F.col("e") == "fetch_answered")
        .select("rid", F.col("leader").alias("b"), F.explode("parts").alias("part"))
        .where((F.get("part", F.lit(1)) == OUT_OF_RANGE) | (F.get("part", F.lit(4)).cast("int") >= 0))
        .select("rid", "b", F.get("part", F.lit(0)).alias("p"))
        .distinct()
    )


def _both_ends(evidence: Evidence, sent: DataFrame) -> DataFrame:
    # Correlation ids count per connection: a fetch is named by its rid and its leader.
    received = evidence.fetches.select(
        "rid",
        "p",
        F.col("offset").alias("received_offset"),
        F.col("b").alias("leader"),
        F.col("t_ns").alias("received_ns"),
    )
    # Correlation ids count per connection: a request's name is its rid together with whom it was sent to.
    joined = received.join(sent.select("rid", "leader", "p", "offset"), on=["rid", "leader", "p"], how="left")
    return apply_rules(
        joined,
        [
            Rule(
                HW_WITHIN_ISR,
                F.col("offset").isNull() | (F.col("offset") != F.col("received_offset")),
                text(
                    "broker {l} took fetch {r} of {p} at {o}; the follower's log has it at {f}",
                    l=F.col("leader"),
                    r=F.col("rid"),
                    p=F.col("p"),
                    o=F.col("received_offset"),
                    f=F.col("offset"),
                ),
                kind=F.when(F.col("offset").isNull(), F.lit("unknown")).otherwise(F.lit("invalid")),
                offset=F.col("received_offset"),
                from_ns=F.col("received_ns"),
                to_ns=F.col("received_ns"),
            )
        ],
    )


def _beyond_own_log(evidence: Evidence, sent: DataFrame) -> DataFrame:
    null_long = F.lit(None).cast("bigint")
    line = ("b", "i", "s", "t_ns", "p")
    ends = evidence.timeline.where(F.col("own_leo").isNotNull()).select(*line, "own_leo", null_long.alias("offset"))
    asked = sent.select(*line, null_long.alias("own_leo"), "offset")
    before = Window.partitionBy("b", "i", "p").orderBy("s").rowsBetween(Window.unboundedPreceding, -1)
    judged = ends.unionByName(asked).withColumn("held", F.last("own_leo", ignorenulls=True).over(before))
    return apply_rules(
        judged,
        [
            line_rule(
                HW_WITHIN_ISR,
                F.col("offset") > F.coalesce("held", F.lit(0)),
                text("asked for offset {o} with a log that ends at {h}", o=F.col("offset"), h=F.col("held")),
                F.col("offset"),
            )
        ],
    )
