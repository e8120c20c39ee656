"""Fabricated value, aborted read, duplicate: what one value of one partition proves by itself.

Input grain: Facts.by_value, and operations whose response could not be decoded. A row of fabricated value proves that a
broker returned something that nobody had sent to that partition by then, or that does not match its own hash, or bytes
that are no response at all; of aborted read, a send that certainly failed; of duplicate, one value at two offsets
although it was sent once.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.black_box.duplicates import DUPLICATE, duplicates
from checkers.black_box.facts import Facts
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

FABRICATED = "fabricated-value"
ABORTED = "aborted-read"


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
                duplicates(facts),
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
