"""Fabricated value, aborted read, duplicate: what one value of one partition proves by itself.

Input grain: Facts.by_value, and operations whose response could not be decoded. A row of fabricated value proves that a
broker returned something that nobody had sent to that partition by then, or that does not match its own hash, or bytes
that are no response at all; of aborted read, a send that certainly failed; of duplicate, one value at two offsets
although it was sent once.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts, sent_by_itself, stamped
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

FABRICATED = "fabricated-value"
ABORTED = "aborted-read"
DUPLICATE = "duplicate"
RESENT = "resent"
"""Rule of `duplicate` that an unclean election can account for."""
BY_CLIENT = "by-client"
"""Rule of `duplicate` of what a client sent again by itself, as it may; findings of it are allowed, or not decided."""


def value_checks(facts: Facts) -> Family:
    rows = facts.by_value
    per_partition = rows.groupBy("p").agg(
        F.sum("n_reads").alias("records_read"),
        F.count_if(F.col("send.outcome") == "fail").alias("failed"),
        F.count_if(F.col("n_reads") > 0).alias("values_read"),
    )
    return Family(
        union(
            [
                apply_rules(_with_other_life(facts), [_fabricated()]),
                apply_rules(rows, [_aborted()]),
                _duplicates(facts),
                _unreadable(facts),
            ]
        ),
        figures(
            per_partition,
            {
                (FABRICATED, "records_read"): F.col("records_read"),
                (ABORTED, "records_read"): F.col("records_read"),
                (ABORTED, "failed_sends"): F.col("failed"),
                (DUPLICATE, "values_read"): F.col("values_read"),
            },
        ),
    )


def _was_read() -> Column:
    return F.col("n_reads") > 0


def _with_other_life(facts: Facts) -> DataFrame:
    """The values, with `other`(p, op): of one that nobody sent there, the life of its topic that it was sent to."""
    rows = facts.by_value
    if facts.ended is None:
        return rows.withColumn("other", F.lit(None).cast("struct<p: string, op: bigint>"))
    place = F.concat(F.substring_index("p", "~", 1), F.lit("-"), F.substring_index("p", "-", -1))
    sent = (
        rows.where(F.col("send").isNotNull())
        .groupBy(place.alias("place"), F.col("value").alias("sent"))
        .agg(F.min(F.struct("p", "send.op")).alias("other"))
    )
    fits = F.col("send").isNull() & (F.col("value") == F.col("sent")) & (place == F.col("place"))
    return rows.join(sent, on=fits, how="left").drop("place", "sent")


def _fabricated() -> Rule:
    from_the_future = F.col("first_read_ns") < F.col("send.invoke_ns")
    what = (
        F.when(F.col("value").isNull(), F.lit("a record that cannot be parsed"))
        .when(~F.col("all_intact"), text("value {v}, which does not match its own hash,", v=F.col("value")))
        .when(from_the_future, text("value {v}, which was sent later,", v=F.col("value")))
        .when(
            F.col("other").isNotNull(),
            text("value {v}, which was sent to {q} and not to that one,", v=F.col("value"), q=F.col("other.p")),
        )
        .otherwise(text("value {v}, which nobody sent to that partition,", v=F.col("value")))
    )
    return Rule(
        FABRICATED,
        _was_read() & (F.col("send").isNull() | ~F.col("all_intact") | from_the_future),
        F.concat(what, text(" was read at {p} offset {o}", p=F.col("p"), o=F.col("min_read_offset"))),
        offset=F.col("min_read_offset"),
        value=F.col("value"),
        ops=[F.col("first_read.read_op"), F.coalesce("send.op", "other.op")],
        from_ns=F.coalesce("send.invoke_ns", "first_read_ns"),
        to_ns=F.col("first_read_ns"),
    )


def _unreadable(facts: Facts) -> DataFrame:
    return apply_rules(
        facts.history.ops.where(F.col("error") == "malformed"),
        [
            Rule(
                FABRICATED,
                F.lit(True),
                text(
                    "{n} responded to a {f} of {p} with bytes that cannot be decoded",
                    n=F.col("node"),
                    f=F.col("f"),
                    p=F.col("p"),
                ),
                ops=[F.col("op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )


def _aborted() -> Rule:
    return Rule(
        ABORTED,
        _was_read() & (F.col("send.outcome") == "fail"),
        text(
            "value {v} was read at {p} offset {o}, but its send certainly failed",
            v=F.col("value"),
            p=F.col("p"),
            o=F.col("min_read_offset"),
        ),
        offset=F.col("min_read_offset"),
        value=F.col("value"),
        ops=[F.col("send.op"), F.col("first_read.read_op")],
        from_ns=F.col("send.invoke_ns"),
        to_ns=F.col("first_read_ns"),
    )


def _duplicates(facts: Facts) -> DataFrame:
    """Values at two offsets. `resent`: of a batch that was sent again, whose first place nobody read once another read
    it elsewhere: what was lost by an unclean election may have been appended once more.
    """
    low = F.least("min_read_offset", "ack_offset")
    high = F.greatest("max_read_offset", "ack_offset")
    rows = facts.by_value.where(F.col("value").isNotNull() & (low != high))
    again_ns, name, kind = F.col("first_read_ns"), F.lit(""), F.lit("invalid")
    if facts.unclean:
        rows = rows.join(_places(facts, rows), on=["p", "value"], how="left")
        parted = F.coalesce((F.col("places") == 1) | ((F.col("places") == 2) & F.col("in_turn")), F.lit(False))
        again_ns = F.coalesce("again_ns", "first_read_ns")
        name = F.when((F.col("n_sends") > 1) & parted, F.lit(RESENT)).otherwise(F.lit(""))
    if facts.resends:
        rows = rows.join(_leaderships(facts, rows), on=["p", "value"], how="left")
        all_read = F.coalesce((low == F.col("min_read_offset")) & (high == F.col("max_read_offset")), F.lit(False))
        known = all_read & (F.col("known") == F.col("copies"))
        apart = known & (F.col("leaderships") == F.col("copies"))
        by_client = sent_by_itself() & (apart | ~known)
        name = F.when(by_client, F.lit(BY_CLIENT)).otherwise(name)
        kind = F.when(by_client & apart, F.lit("allowed")).when(by_client, F.lit("unknown")).otherwise(kind)
    return apply_rules(
        rows,
        [
            Rule(
                DUPLICATE,
                F.lit(True),
                text("value {v} stands at {p} offsets {a} and {b}", v=F.col("value"), p=F.col("p"), a=low, b=high),
                kind=kind,
                name=name,
                offset=high,
                value=F.col("value"),
                ops=[F.col("send.op"), F.col("first_read.read_op"), F.col("highest_read.read_op")],
                from_ns=F.coalesce("send.invoke_ns", "first_read_ns"),
                to_ns=F.greatest(again_ns, F.col("send.complete_ns")),
                lost_epoch=F.col("epoch"),
            )
        ],
    )


def _leaderships(facts: Facts, rows: DataFrame) -> DataFrame:
    """(p, value, copies, known, leaderships): at how many offsets it was read; of how many of them it is known in which
    leader epoch that was written; and in how many epochs.
    """
    copies = (
        facts.history.polls.join(F.broadcast(rows.select("p", "value")), on=["p", "value"], how="left_semi")
        .groupBy("p", "value", "offset")
        .agg(F.max(stamped()).alias("written"))
    )
    return copies.groupBy("p", "value").agg(
        F.count(F.lit(1)).alias("copies"),
        F.count("written").alias("known"),
        F.count_distinct("written").alias("leaderships"),
    )


def _places(facts: Facts, rows: DataFrame) -> DataFrame:
    """(p, value, places, in_turn, again_ns): at how many offsets the value was read; whether the reads at one were over
    before those at the other began; when those began.
    """
    reads = (
        facts.history.polls.join(F.broadcast(rows.select("p", "value")), on=["p", "value"], how="left_semi")
        .groupBy("p", "value", "offset")
        .agg(F.min("invoke_ns").alias("begun_ns"), F.max("complete_ns").alias("over_ns"))
    )
    return reads.groupBy("p", "value").agg(
        F.count(F.lit(1)).alias("places"),
        (F.min("over_ns") < F.max("begun_ns")).alias("in_turn"),
        F.max("begun_ns").alias("again_ns"),
    )
