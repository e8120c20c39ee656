"""lost-write, of records that were acknowledged without an offset: the log has no place for all of them.

Of histories that other tools recorded, in which no drain says that all was read. Input grain: one row per partition in
which something was acknowledged without an offset, and read by no poll. The records that are known to be in the log,
and these, are appends, each at one moment between its send and the moment by which it certainly was there. Offsets rise
in the order of appends, and what nobody knows the offset of stands where no poll passed over. Where the search
(`checkers.search.keys`) finds no such order, one of these records is lost, however the others lie. Where it finds one,
or breaks off, nothing is proven: `unseen` says so. Left out is what a transaction sent that may have been aborted.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

import checkers.search
from checkers.black_box.facts import Facts, decided
from checkers.black_box.lost import LOST, UNSEEN, acknowledged_without_offset, covered_ranges
from checkers.search.keys import search_log
from checkers.search.places import APPEND
from checkers.spark.tables import kept
from checkers.spark.workers import in_workers
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

_UNPLACED = T.StructType([T.StructField(name, T.LongType()) for name in ("unplaced", "blocking", "from_ns", "to_ns")])
"""`checkers.search.keys.Unplaced`."""


def unplaced_checks(facts: Facts) -> Family:
    searched = kept(_searched(facts))
    record = F.element_at(F.filter("floating", lambda one: one["op"] == F.col("found.unplaced")), 1)
    found = apply_rules(
        searched.where(F.col("found").isNotNull()).withColumn("record", record),
        [
            Rule(
                LOST,
                F.lit(True),
                text(
                    "value {v} of {p} was acknowledged without an offset, and read by no poll; the log has no place "
                    "for it, where no poll passed over, between what was there before it began and what came after it "
                    "was over ({n} such values)",
                    v=F.col("record.value"),
                    p=F.col("p"),
                    n=F.size("floating"),
                ),
                name="unplaced",
                value=F.col("record.value"),
                ops=[F.col("found.unplaced"), F.col("found.blocking")],
                from_ns=F.col("found.from_ns"),
                to_ns=F.col("found.to_ns"),
            )
        ],
    )
    return Family(found, figures(searched, {(UNSEEN, "places_searched"): F.size("floating")}))


def _searched(facts: Facts) -> DataFrame:
    """(p, floating, found): `floating` the records (op, value) without offset; found: null where each has a place."""
    floating = acknowledged_without_offset() & (F.col("n_reads") == 0)
    known = F.col("known_offset").isNotNull() & F.col("send").isNotNull() & ~F.col("forgiven")
    over_ns = F.when(floating, F.col("send.complete_ns")).otherwise(F.col("effective_ns"))
    appends = (
        facts.by_value.where(decided() & (floating | known))
        .groupBy("p")
        .agg(
            F.collect_list(_append(F.least(F.col("send.invoke_ns"), over_ns), over_ns)).alias("appends"),
            F.collect_list(F.when(floating, F.struct(F.col("send.op").alias("op"), "value"))).alias("floating"),
        )
        .where(F.size("floating") > 0)
    )
    passed_over = (
        covered_ranges(facts.history.requests)
        .groupBy("p")
        .agg(F.collect_list(F.struct("start_offset", "end_offset")).alias("passed_over"))
    )
    search = in_workers(search_log, checkers.search, _UNPLACED)
    none = F.array().cast("array<struct<start_offset: bigint, end_offset: bigint>>")
    return appends.join(passed_over, on="p", how="left").select(
        "p", "floating", search("appends", F.coalesce("passed_over", none)).alias("found")
    )


def _append(begun_ns: Column, over_ns: Column) -> Column:
    """The fields of `checkers.search.operations.Operation`."""
    return F.struct(
        F.col("send.op").alias("index"),
        F.lit(APPEND).alias("f"),
        F.col("known_offset").alias("value"),
        begun_ns.alias("invoke_ns"),
        over_ns.alias("complete_ns"),
        F.lit(None).cast("string").alias("session"),
        F.lit(None).cast("bigint").alias("since_ns"),
    )
