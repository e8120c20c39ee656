"""Phantom read, aborted read, duplicate: what one value of one partition says by itself.

Input grain: Facts.by_value. A row of phantom read proves that a poll returned something that nobody had sent to that
partition by then, or that does not match its own hash; of aborted read, a send that certainly failed; of duplicate, one
value at two offsets although it was sent once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts
from checkers.findings import Family, figures, finding, text, union

PHANTOM = "phantom-read"
ABORTED = "aborted-read"
DUPLICATE = "duplicate"


def value_checks(facts: Facts) -> Family:
    rows = facts.by_value
    found = [_phantoms(facts), _aborted(rows), _duplicates(rows)]
    reads = F.sum("n_reads")
    per_partition = rows.groupBy("p").agg(
        reads.alias("records_read"),
        F.count_if(F.col("send.outcome") == "fail").alias("failed"),
        F.count_if(F.col("n_reads") > 0).alias("values_read"),
    )
    return Family(
        union(found),
        figures(
            per_partition,
            {
                (PHANTOM, "records_read"): F.col("records_read"),
                (ABORTED, "records_read"): F.col("records_read"),
                (ABORTED, "failed_sends"): F.col("failed"),
                (DUPLICATE, "values_read"): F.col("values_read"),
            },
        ),
    )


def _phantoms(facts: Facts) -> DataFrame:
    rows = facts.by_value
    from_the_future = F.col("first_read_ns") < F.col("send.invoke_ns")
    odd = rows.where((F.col("n_reads") > 0) & (F.col("send").isNull() | ~F.col("all_intact") | from_the_future))
    elsewhere = (
        facts.history.sends.select("value", F.col("p").alias("sent_to"))
        .groupBy("value")
        .agg(F.min("sent_to").alias("sent_to"))
    )
    odd = odd.join(elsewhere, on="value", how="left")
    where = text(" at {p} offset {o}", p=F.col("p"), o=F.col("min_read_offset"))
    detail = (
        F.when(F.col("value").isNull(), F.concat(F.lit("a record that cannot be parsed"), where))
        .when(
            ~F.col("all_intact"), F.concat(text("value {v} that does not match its own hash", v=F.col("value")), where)
        )
        .when(from_the_future, F.concat(text("value {v} read before it was sent", v=F.col("value")), where))
        .when(
            F.col("sent_to").isNotNull(),
            F.concat(text("value {v}, sent to {s} only,", v=F.col("value"), s=F.col("sent_to")), where),
        )
        .otherwise(F.concat(text("value {v} that nobody sent", v=F.col("value")), where))
    )
    return finding(
        odd,
        PHANTOM,
        detail,
        offset=F.col("min_read_offset"),
        value=F.col("value"),
        ops=[F.col("first_read.read_op"), F.col("send.op")],
        from_ns=F.coalesce("send.invoke_ns", "first_read_ns"),
        to_ns=F.col("first_read_ns"),
    )


def _aborted(rows: DataFrame) -> DataFrame:
    odd = rows.where((F.col("send.outcome") == "fail") & (F.col("n_reads") > 0))
    return finding(
        odd,
        ABORTED,
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


def _duplicates(rows: DataFrame) -> DataFrame:
    low = F.least("min_read_offset", "ack_offset")
    high = F.greatest("max_read_offset", "ack_offset")
    odd = rows.where(F.col("value").isNotNull() & (low != high))
    return finding(
        odd,
        DUPLICATE,
        text("value {v} stands at {p} offsets {a} and {b}", v=F.col("value"), p=F.col("p"), a=low, b=high),
        offset=high,
        value=F.col("value"),
        ops=[F.col("send.op"), F.col("first_read.read_op"), F.col("highest_read.read_op")],
        from_ns=F.coalesce("send.invoke_ns", "first_read_ns"),
        to_ns=F.greatest("first_read_ns", "send.complete_ns"),
    )
