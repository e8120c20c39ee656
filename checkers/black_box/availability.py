"""Availability: the longest time without an acknowledged send per partition, and the time to recover after each heal.

Measured, never invalid. Input grain: one row per acknowledged send of the main phase; one per end of a fault.
"""

from __future__ import annotations

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, figures, union

AVAILABILITY = "availability"


def availability(facts: Facts) -> Family:
    # A topic that is deleted and made anew is away by right.
    of_a_life = F.contains("p", F.lit("~"))
    sends = facts.history.ops.where((F.col("f") == "send") & (F.col("phase") == "main") & ~of_a_life)
    begun = sends.groupBy("p").agg(
        F.min("invoke_ns").alias("at_ns"), F.max(F.coalesce("complete_ns", "invoke_ns")).alias("end_ns")
    )
    # acks=0 is acknowledged by nobody.
    is_acked = (F.col("outcome") == "ok") & F.col("base_offset").isNotNull()
    acked = sends.where(is_acked).select("p", F.col("complete_ns").alias("at_ns"))
    # The phase's own begin and end bound the first and the last window.
    marks = (
        acked.unionByName(begun.select("p", "at_ns"))
        .unionByName(begun.select("p", F.col("end_ns").alias("at_ns")))
        .transform(one_piece)
    )
    order = Window.partitionBy("p").orderBy("at_ns")
    gaps = marks.withColumn("gap_ms", (F.col("at_ns") - F.lag("at_ns").over(order)) / 1e6)
    worst = gaps.groupBy("p").agg(F.max("gap_ms").alias("worst"))
    totals = sends.groupBy("p").agg(F.count_if(is_acked).alias("acknowledged"), F.count(F.lit(1)).alias("sends"))
    stops = facts.history.marks.where((F.col("kind") == "nemesis") & (F.col("f") == "stop")).select(
        F.col("time_ns").alias("stop_ns"), "fault_id"
    )
    recovered = (
        acked.join(F.broadcast(stops), on=F.col("at_ns") > F.col("stop_ns"), how="inner")
        .groupBy("p", "fault_id")
        .agg(((F.min("at_ns") - F.min("stop_ns")) / 1e6).alias("recovery_ms"))
        .groupBy("p")
        .agg(F.max("recovery_ms").alias("recovery"))
    )
    return Family(
        None,
        union(
            [
                figures(worst, {(AVAILABILITY, "worst_ms"): F.col("worst")}),
                figures(
                    totals,
                    {(AVAILABILITY, "acknowledged"): F.col("acknowledged"), (AVAILABILITY, "sends"): F.col("sends")},
                ),
                figures(recovered, {(AVAILABILITY, "worst_recovery_ms"): F.col("recovery")}),
            ]
        ),
    )
