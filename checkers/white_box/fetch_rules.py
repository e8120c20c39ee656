"""Rule 5's other half: a leader counts a follower up to the offset that it fetched from, and a follower fetches from no
offset beyond its own log.

Input grain: one row per partition named in a follower's fetch, at either end, matched by request id, so that order
across brokers is causal. A row found proves that a leader counted, or let into the ISR, a follower beyond its fetch
offset; that the two ends logged different offsets of one fetch; that a follower fetched from beyond its own log, or
took a higher watermark than it had been told. A fetch that the leader refused for its position (it diverges, or is out
of range) proves nothing about that log. Event logs are copied while their brokers run, one after the other: what a
leader took after the copy of the follower's log had ended is not in that copy, and proves nothing either.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.evidence.timeline import (
    Evidence,
    sent_fetches,
)
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union
from checkers.white_box.watermark_rules import HW_WITHIN_ISR, OFFSET_ORDER, line_rule

NO_ERROR, OUT_OF_RANGE = "0", "1"
"""Kafka's error codes NONE and OFFSET_OUT_OF_RANGE, as `parts` of a `fetch_answered` line has them."""


def fetch_rules(evidence: Evidence) -> Family:
    per_partition = evidence.fetches.groupBy("p").agg(F.count(F.lit(1)).alias("fetches"))
    sent = sent_fetches(evidence.events)
    return Family(
        union([_claims(evidence), _both_ends(evidence, sent), _beyond_own_log(evidence, sent), _as_told(evidence)]),
        figures(per_partition, {(HW_WITHIN_ISR, "follower_fetches"): F.col("fetches")}),
    )


def _claims(evidence: Evidence) -> DataFrame:
    """HW advances and proposed joiners against the offset of the member's last fetch, in this epoch. A follower may
    fetch from a lower offset again, when it has lost records. Its earlier, higher offsets count no more once a fetch
    was surely counted, which is one whose response had records. Any other may have been passed over, as a late one of a
    dead incarnation is: the highest offset since the last sure fetch bounds what the leader may count.
    """
    null_long = F.lit(None).cast("bigint")
    line = ("b", "i", "s", "t_ns", "p", "le")
    fetched = (
        evidence.fetches.join(_outcomes(evidence), on=["rid", "b", "p"], how="left")
        .where(~F.coalesce("refused", F.lit(False)))
        .select(
            *line,
            F.col("follower").alias("member"),
            "offset",
            F.coalesce("served", F.lit(False)).alias("sure"),
            null_long.alias("claim"),
            F.lit("fetch").alias("what"),
        )
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
        .select(*line, "member", null_long.alias("offset"), F.lit(False).alias("sure"), "claim", "what")
    )
    order = Window.partitionBy("b", "i", "p", "le", "member").orderBy("s")
    since = Window.partitionBy("b", "i", "p", "le", "member", "turn").orderBy("s")
    judged = (
        fetched.unionByName(claims)
        .transform(one_piece)
        .withColumn("turn", F.count_if("sure").over(order.rowsBetween(Window.unboundedPreceding, 0)))
        .withColumn("requested", F.max("offset").over(since.rowsBetween(Window.unboundedPreceding, -1)))
    )
    return apply_rules(
        judged,
        [
            line_rule(
                HW_WITHIN_ISR,
                F.col("claim") > F.coalesce("requested", F.lit(0)),
                text(
                    "{w} {c}, but broker {m} had last fetched from offset {a} at most in epoch {le}",
                    w=F.col("what"),
                    c=F.col("claim"),
                    m=F.col("member"),
                    a=F.col("requested"),
                    le=F.col("le"),
                ),
                F.col("claim"),
            )
        ],
    )


def _outcomes(evidence: Evidence) -> DataFrame:
    """(rid, b, p, refused, served): the outcome of a fetch from leader b, as the follower's log has it, where either is
    true.

    refused: only for what is decided as the fetch arrives, and once for all. An error of another kind may come of a
    role that changed after the leader had rightly counted the fetch. served: with records, so it was not fenced.
    """
    error, diverging = F.get("part", F.lit(1)), F.coalesce(F.get("part", F.lit(4)).try_cast("int"), F.lit(-1))
    refused = (error == OUT_OF_RANGE) | (diverging >= 0)
    served = (error == NO_ERROR) & (diverging < 0) & (F.get("part", F.lit(3)).try_cast("bigint") > 0)
    return (
        evidence.events.where(F.col("e") == "fetch_answered")
        .select("rid", F.col("leader").alias("b"), F.explode("parts").alias("part"))
        .select("rid", "b", F.get("part", F.lit(0)).alias("p"), refused.alias("refused"), served.alias("served"))
        .where(F.col("refused") | F.col("served"))
        .groupBy("rid", "b", "p")
        .agg(F.bool_or("refused").alias("refused"), F.bool_and("served").alias("served"))
    )


def _copied_until(events: DataFrame) -> DataFrame:
    """(follower_incarnation, copied_until): of each broker's last incarnation, when it wrote the last line there is."""
    last = Window.partitionBy("b").orderBy(F.col("until").desc())
    return (
        events.groupBy("b", "i")
        .agg(F.max("t_ns").alias("until"))
        .withColumn("place", F.row_number().over(last))
        .where(F.col("place") == 1)
        .select(F.col("i").alias("follower_incarnation"), F.col("until").alias("copied_until"))
    )


def _both_ends(evidence: Evidence, sent: DataFrame) -> DataFrame:
    received = evidence.fetches.select(
        "rid",
        "p",
        F.col("offset").alias("received_offset"),
        F.col("b").alias("leader"),
        F.col("t_ns").alias("received_ns"),
    )
    # Correlation ids count per connection: a request is named by its rid and the broker that it was sent to.
    joined = (
        received.join(sent.select("rid", "leader", "p", "offset"), on=["rid", "leader", "p"], how="left")
        .withColumn("follower_incarnation", F.split_part("rid", F.lit(":"), F.lit(1)))
        .join(F.broadcast(_copied_until(evidence.events)), on="follower_incarnation", how="left")
    )
    unsent = F.col("offset").isNull() & ~F.coalesce(F.col("received_ns") > F.col("copied_until"), F.lit(False))
    return apply_rules(
        joined,
        [
            Rule(
                HW_WITHIN_ISR,
                unsent | (F.col("offset") != F.col("received_offset")),
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
    requested = sent.select(*line, null_long.alias("own_leo"), "offset")
    before = Window.partitionBy("b", "i", "p").orderBy("s").rowsBetween(Window.unboundedPreceding, -1)
    judged = (
        ends.unionByName(requested)
        .transform(one_piece)
        .withColumn("held", F.last("own_leo", ignorenulls=True).over(before))
    )
    return apply_rules(
        judged,
        [
            line_rule(
                HW_WITHIN_ISR,
                F.col("offset") > F.coalesce("held", F.lit(0)),
                text("fetched from offset {o} with a log that ends at {h}", o=F.col("offset"), h=F.col("held")),
                F.col("offset"),
            )
        ],
    )


def _as_told(evidence: Evidence) -> DataFrame:
    """Watermarks that a follower took, and that no answer to the fetch which its line names had told it, as its own log
    has that answer.
    """
    told = evidence.events.where(F.col("e") == "fetch_answered").select(
        "b", "i", "rid", F.explode("parts").alias("part")
    )
    told = told.select("b", "i", "rid", F.get("part", F.lit(0)).alias("p"), F.get("part", F.lit(2)).alias("told"))
    taken = evidence.events.where((F.col("e") == "hw") & (F.col("role") == "follower"))
    by_own_log = [F.col(f"of.{name}").eqNullSafe(F.col(f"by.{name}")) for name in ("b", "i", "rid", "p")]
    enough = F.col("by.told").try_cast("bigint") >= F.col("of.hw")
    return apply_rules(
        taken.alias("of").join(told.alias("by"), on=reduce(Column.__and__, by_own_log, enough), how="left_anti"),
        [
            line_rule(
                OFFSET_ORDER,
                F.lit(True),
                text(
                    "followed up to high watermark {h} in epoch {le}; no answer to fetch {r} had told it as much",
                    h=F.col("hw"),
                    le=F.col("le"),
                    r=F.col("rid"),
                ),
                F.col("hw"),
            )
        ],
    )
