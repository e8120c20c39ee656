"""Reversed batch: values of one send that stand out of order, or apart.

Input grain: one row per send of several values, from those that were read. They went out in one batch, which a leader
appends as it is: the nth stands n offsets above the first. What is told of acknowledged ones is so by definition; what
was read of any send is held against the rest of it. A value that stands at two offsets is another anomaly (duplicate),
and is left out. That a value is nowhere, though another of its send was read: `checkers.black_box.lost`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts
from checkers.evidence.unclean_elections import span
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

REVERSED = "int-nonmonotonic-send"
TORN = "torn-batch"
RESENT = "resent"
"""Rule of a batch that was sent again: what an unclean election lost of it may have been appended once more."""


def of_several() -> Column:
    """Of a row of by_value: sent together with others."""
    return F.coalesce(F.col("send.of") > 1, F.lit(False))


def read_once() -> Column:
    """Of a row of by_value: read, and at one offset."""
    return (F.col("n_reads") > 0) & (F.col("min_read_offset") == F.col("max_read_offset"))


def batch_base() -> Column:
    """Where the first value of its send must stand, by where this one was read."""
    return F.col("min_read_offset") - F.col("send.nth")


def batch_checks(facts: Facts) -> Family:
    parts = facts.by_value.where(of_several())
    place = F.struct(
        batch_base().alias("base"),
        F.col("send.nth").alias("nth"),
        "value",
        F.col("min_read_offset").alias("offset"),
        F.col("first_read.read_op").alias("op"),
        F.col("first_read_ns").alias("at_ns"),
        F.col("read_epoch").alias("epoch"),
    )
    batches = (
        parts.where(read_once())
        .groupBy("p", F.col("send.op").alias("op"))
        .agg(
            F.min(place).alias("low"),
            F.max(place).alias("high"),
            F.max("n_sends").alias("n_sends"),
            F.min("send.invoke_ns").alias("invoke_ns"),
        )
    )
    return Family(apply_rules(batches, [_apart()]), _figures(facts.by_value))


def _apart() -> Rule:
    lost_epoch, missed_epoch = span(F.col("low.epoch"), F.col("high.epoch"))
    return Rule(
        REVERSED,
        F.col("low.base") != F.col("high.base"),
        text(
            "of one send to {p} value {v}, its record {i}, was read at offset {o}, and value {w}, its record {j}, "
            "at {q}",
            p=F.col("p"),
            v=F.col("low.value"),
            i=F.col("low.nth") + 1,
            o=F.col("low.offset"),
            w=F.col("high.value"),
            j=F.col("high.nth") + 1,
            q=F.col("high.offset"),
        ),
        name=F.when(F.col("n_sends") > 1, F.lit(RESENT)).otherwise(F.lit("")),
        offset=F.col("high.offset"),
        value=F.col("high.value"),
        ops=[F.col("op"), F.col("low.op"), F.col("high.op")],
        from_ns=F.col("invoke_ns"),
        to_ns=F.greatest("low.at_ns", "high.at_ns"),
        lost_epoch=lost_epoch,
        missed_epoch=missed_epoch,
    )


def _figures(by_value: DataFrame) -> DataFrame:
    read = F.col("n_reads") > 0
    per_partition = by_value.groupBy("p").agg(
        F.count("send").alias("values_sent"),
        F.count_distinct(F.when(of_several(), F.col("send.op"))).alias("batches_sent"),
        F.count_distinct(F.when(of_several() & read, F.col("send.op"))).alias("batches_read"),
    )
    names = ("values_sent", "batches_sent", "batches_read")
    return figures(per_partition, {(checker, name): F.col(name) for checker in (REVERSED, TORN) for name in names})
