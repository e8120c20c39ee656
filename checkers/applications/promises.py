"""At-most-once, at-least-once: how often an application's group processed each record.

Input grain: one row per (group, value) of a partition that the group consumes: what it processed, and what stands below
the offset that it had certainly committed once the load was over (`group-drained`). At-most-once is broken by a value
that was processed twice, whoever processed it, and be it twice in one operation: each began only once its commit had
come out well. At-least-once is broken by a value below that offset that was not processed, unless retention can have
deleted it: somebody's commit passed over it. A value stands there that was acknowledged, or that anybody read: nothing
comes below a committed offset later. Of one that stands there twice the higher place counts, which goes last. What the
other way round each promise permits, records that were lost to a group or processed again, is counted:
`never_processed`, `processed_again`.

An unclean election takes back what consumers had been given: members whose positions lie beyond the new end begin
anew, or behind records that came in the place of others; and of the offsets topic it takes commits back. Where one
came first, either promise is beyond what a broker can keep.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.black_box.duplicates import BY_CLIENT, copied
from checkers.black_box.facts import Facts, expired
from checkers.evidence.unclean_elections import of_topic, taken_back
from checkers.history.schema import OFFSETS_TOPIC
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

AT_MOST, AT_LEAST = "at-most-once", "at-least-once"


def _topic() -> Column:
    return F.regexp_replace("p", r"-\d+$", "").alias("topic")


def _commits_taken_back(facts: Facts, by_ns: Column) -> Column:
    """Whether an unclean election of any partition of the offsets topic had."""
    since = [one.from_ns for one in of_topic(facts.unclean, OFFSETS_TOPIC)]
    return by_ns >= F.lit(min(since)) if since else F.lit(False)


def _highest_below(end: str) -> Column:
    """Of a row of `by_value`: the highest offset below the end at which it was acknowledged, or read first or last."""
    known = F.array("ack_offset", "min_read_offset", "max_read_offset")
    return F.array_max(F.filter(known, lambda offset: offset < F.col(end)))


def _missing(facts: Facts, processed: DataFrame, ends: DataFrame) -> DataFrame:
    """Values below the end of a group that did not process them, with that group, and whether they are `excused`."""
    # A group consumes all partitions of a topic, be it that it has processed nothing of one.
    promises = facts.history.processed.select("group", "promise", _topic()).distinct()
    told = (
        (F.col("send.outcome") == "ok")
        & (F.col("send.acks") != 0)
        & F.coalesce(~F.col("forgiven"), F.lit(True))
        & (F.col("send.complete_ns") < F.col("drained_ns"))
    )
    owed = expired(
        facts,
        facts.by_value.where(F.col("send").isNotNull())
        .join(F.broadcast(ends), on="p", how="inner")
        .withColumn("offset", _highest_below("end"))
        .where(F.col("offset").isNotNull() & (told | (F.col("n_reads") > 0)))
        .withColumn("sent_ns", F.col("send.invoke_ns")),
    ).select("p", "value", "offset", "sent_ns", "send", "end", "drained_ns", "drained_op", "expired")
    return (
        owed.withColumn("topic", _topic())
        .join(F.broadcast(promises), on="topic", how="inner")
        .join(processed.select("group", "p", "value"), on=["group", "p", "value"], how="left_anti")
        .where(~F.col("expired"))
        .withColumn("excused", taken_back(facts.unclean, F.col("drained_ns")))
    )


def promise_checks(facts: Facts) -> Family:
    processed = facts.history.processed.groupBy("group", "promise", "p", "value").agg(
        F.count(F.lit(1)).alias("times"),
        F.min(F.struct("invoke_ns", "op", "member")).alias("first"),
        F.max(F.struct("invoke_ns", "op", "member")).alias("last"),
    )
    ends = (
        facts.history.marks.where(F.col("f") == "group-drained")
        .groupBy("p")
        .agg(F.max("end").alias("end"), F.max("time_ns").alias("drained_ns"), F.max("index").alias("drained_op"))
    )
    missing = _missing(facts, processed, ends)
    again = F.col("last.invoke_ns")
    twice = (
        processed.where(F.col("times") > 1)
        .join(copied(facts), on=["p", "value"], how="left")
        .withColumn("copied", F.col("times") <= F.coalesce("copies", F.lit(1)))
        .withColumn("excused", taken_back(facts.unclean, again) | _commits_taken_back(facts, again) | F.col("copied"))
    )
    kind = F.when(F.col("excused"), F.lit("allowed")).otherwise(F.lit("invalid"))
    found = [
        apply_rules(
            twice,
            [
                Rule(
                    AT_MOST,
                    F.col("promise") == AT_MOST,
                    text(
                        "group {g} processed value {v} of {p} {n} times, first by {a} and last by {b}",
                        g=F.col("group"),
                        v=F.col("value"),
                        p=F.col("p"),
                        n=F.col("times"),
                        a=F.col("first.member"),
                        b=F.col("last.member"),
                    ),
                    kind=kind,
                    name=F.when(F.col("copied"), F.lit(BY_CLIENT)).otherwise(F.lit("")),
                    value=F.col("value"),
                    ops=[F.col("first.op"), F.col("last.op")],
                    from_ns=F.col("first.invoke_ns"),
                    to_ns=F.col("last.invoke_ns"),
                )
            ],
        ),
        apply_rules(
            missing,
            [
                Rule(
                    AT_LEAST,
                    F.col("promise") == AT_LEAST,
                    text(
                        "group {g} never processed value {v}, which stands at {p} offset {o}, and had committed {e}",
                        g=F.col("group"),
                        v=F.col("value"),
                        p=F.col("p"),
                        o=F.col("offset"),
                        e=F.col("end"),
                    ),
                    kind=kind,
                    offset=F.col("offset"),
                    value=F.col("value"),
                    ops=[F.col("send.op"), F.col("drained_op")],
                    from_ns=F.col("sent_ns"),
                    to_ns=F.col("drained_ns"),
                )
            ],
        ),
    ]
    counts = processed.groupBy("p").agg(
        F.count(F.lit(1)).alias("processed"), F.count_if(F.col("times") > 1).alias("again")
    )
    lost = ends.join(missing.groupBy("p").agg(F.count(F.lit(1)).alias("lost")), on="p", how="left")
    named = [
        figures(counts, {(name, "processed"): F.col("processed") for name in (AT_MOST, AT_LEAST)}),
        figures(counts, {(name, "processed_again"): F.col("again") for name in (AT_MOST, AT_LEAST)}),
        figures(lost, {(name, "never_processed"): F.coalesce("lost", F.lit(0)) for name in (AT_MOST, AT_LEAST)}),
        figures(ends, {(name, "group_drained"): F.lit(1) for name in (AT_MOST, AT_LEAST)}),
    ]
    return Family(union(found), union(named))
