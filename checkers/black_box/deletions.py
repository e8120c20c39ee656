"""Deleted records: what clients had deleted by DeleteRecords, and what the cluster showed of it afterwards.

Input grain: one row per delete_records, and one per read with a response. The leader acknowledges once every live
replica's log begins at the offset that was named, or above (KIP-107), and a replica writes its log start down within a
second. So these hold:

- *shown*: a read that was begun after an acknowledged deletion shows nothing below its offset: no record, no log start,
  no earliest offset, and no poll from there is answered but by a refusal.
- *back*: of one leader epoch, no log start is below one that a response gave before the request was sent.
- *low*: the low watermark of an acknowledgement is not below the offset that was asked for.
- *beyond*: nothing is acknowledged that lies beyond the end of the log: a high watermark as high was there, and the run
  ends with one at least as high. Else such a deletion would account for every loss.

A deletion is *settled* where no broker stopped, stood still or was cut off from two seconds before it was asked for to
two seconds after its acknowledgement. Around others a replica that was not alive does not know of it, and one that is
killed within the second forgets it: where such a one leads before it has fetched, what was deleted is there again. That
is allowed, and counted. So are losses below an offset that a deletion named that did not certainly fail
(checkers/allowances/expiry.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts, known_epoch, response_log_start
from checkers.history.responses import by_wire, furthest_shown, is_poll, looks_up, response_epoch
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

DELETED = "deleted-records"
SETTLE_NS = 2_000_000_000
"""How long after an interruption, and after its acknowledgement, a deletion may still be forgotten."""


def deletion_checks(facts: Facts) -> Family:
    deletions = facts.history.deletions.withColumn("settled", ~_interrupted(facts.interruptions))
    acked = deletions.where(F.col("outcome") == "ok")
    reads = _reads(facts)
    after = _after(acked, reads)
    return Family(
        union([_shown(after), _back(reads), _answers(acked, furthest_shown(facts.history.requests))]),
        union([_of_deletions(deletions), _of_reads(after)]),
    )


def _interrupted(spans: Sequence[tuple[int, int]]) -> Column:
    """Of a row of `deletions`: whether one of these spans of run time lies around it."""
    over = [
        (F.col("invoke_ns") <= until + SETTLE_NS) & (F.coalesce("complete_ns", "invoke_ns") + SETTLE_NS >= since)
        for since, until in spans
    ]
    return reduce(Column.__or__, over, F.lit(False))


def _reads(facts: Facts) -> DataFrame:
    """Reads with a response. low: the least offset that it shows to be there, null where it shows none; log_start: as
    it gives it; epoch: of the leader, where known. A lookup by time shows the record that it found. The real client's
    position is its own: of it only records count.
    """
    wire = by_wire()
    start = F.when(wire & (response_log_start() >= 0), response_log_start())
    return facts.history.requests.where(F.col("outcome") == "ok").select(
        "p",
        "op",
        "invoke_ns",
        "complete_ns",
        F.when(wire, known_epoch(response_epoch())).alias("epoch"),
        start.alias("log_start"),
        F.least(
            F.when(is_poll(), F.col("first_offset")),
            F.when(wire & is_poll(), F.col("position")),
            F.when(looks_up() & (F.col("end_offset") >= 0), F.col("end_offset")),
            start,
        ).alias("low"),
    )


def _after(acked: DataFrame, reads: DataFrame) -> DataFrame:
    """Reads that show an offset, with the furthest deletion that had been acknowledged when each was begun: `settled`
    of those that are, `any` of all. At equal times the read counts as the earlier one.
    """
    done = acked.select(
        "p",
        F.col("complete_ns").alias("at_ns"),
        F.lit(1).alias("turn"),
        F.struct("before", "op", "complete_ns").alias("deletion"),
        F.col("settled").alias("is_settled"),
    )
    begun = reads.where(F.col("low").isNotNull()).select(
        "p",
        F.col("invoke_ns").alias("at_ns"),
        F.lit(0).alias("turn"),
        F.struct("invoke_ns", "low", "op", "complete_ns").alias("read"),
    )
    earlier = Window.partitionBy("p").orderBy("at_ns", "turn").rowsBetween(Window.unboundedPreceding, 0)
    return (
        done.unionByName(begun, allowMissingColumns=True)
        .withColumn("settled", F.max(F.when(F.col("is_settled"), F.col("deletion"))).over(earlier))
        .withColumn("any", F.max("deletion").over(earlier))
        .where(F.col("read").isNotNull() & F.col("any").isNotNull())
        .select("p", "read", "settled", "any")
    )


def _shown(after: DataFrame) -> DataFrame:
    """One row per deletion below whose offset something was shown afterwards, by the first read that did."""
    broken = F.coalesce(F.col("read.low") < F.col("settled.before"), F.lit(False))
    found = (
        after.where(F.col("read.low") < F.col("any.before"))
        .withColumn("deletion", F.when(broken, F.col("settled")).otherwise(F.col("any")))
        .groupBy("p", broken.alias("broken"), "deletion")
        .agg(F.min("read").alias("read"))
    )
    return apply_rules(
        found,
        [
            Rule(
                DELETED,
                F.lit(True),
                F.concat(
                    text(
                        "what lies below offset {b} of {p} was deleted, and that acknowledged; a read that was begun "
                        "later shows offset {o}",
                        b=F.col("deletion.before"),
                        p=F.col("p"),
                        o=F.col("read.low"),
                    ),
                    F.when(F.col("broken"), F.lit("")).otherwise(
                        F.lit("; a broker had stopped, or was cut off, around the deletion")
                    ),
                ),
                kind=F.when(F.col("broken"), F.lit("invalid")).otherwise(F.lit("allowed")),
                name="shown",
                offset=F.col("read.low"),
                ops=[F.col("deletion.op"), F.col("read.op")],
                from_ns=F.col("deletion.complete_ns"),
                to_ns=F.col("read.complete_ns"),
            )
        ],
    )


def _back(reads: DataFrame) -> DataFrame:
    """One row per log start that a later response of the same leader denied."""
    told = reads.where(F.col("epoch").isNotNull() & F.col("log_start").isNotNull())
    high = told.select(
        "p",
        "epoch",
        F.col("complete_ns").alias("at_ns"),
        F.lit(1).alias("turn"),
        F.struct("log_start", "op", "complete_ns").alias("told"),
    )
    asked = told.select(
        "p",
        "epoch",
        F.col("invoke_ns").alias("at_ns"),
        F.lit(0).alias("turn"),
        F.struct("invoke_ns", "log_start", "op", "complete_ns").alias("later"),
    )
    earlier = Window.partitionBy("p", "epoch").orderBy("at_ns", "turn").rowsBetween(Window.unboundedPreceding, 0)
    fallen = (
        high.unionByName(asked, allowMissingColumns=True)
        .withColumn("highest", F.max("told").over(earlier))
        .where(F.col("later.log_start") < F.col("highest.log_start"))
        .groupBy("p", "epoch", "highest")
        .agg(F.min("later").alias("later"))
    )
    return apply_rules(
        fallen,
        [
            Rule(
                DELETED,
                F.lit(True),
                text(
                    "the log of {p} began at {h} in leader epoch {e}; a later request was told {l} in the same epoch",
                    p=F.col("p"),
                    h=F.col("highest.log_start"),
                    e=F.col("epoch"),
                    l=F.col("later.log_start"),
                ),
                name="back",
                offset=F.col("later.log_start"),
                ops=[F.col("highest.op"), F.col("later.op")],
                from_ns=F.col("highest.complete_ns"),
                to_ns=F.col("later.complete_ns"),
            )
        ],
    )


def _answers(acked: DataFrame, reached: DataFrame) -> DataFrame:
    """What the acknowledgements themselves say."""
    rows = acked.join(F.broadcast(reached), on="p", how="left")
    return apply_rules(
        rows,
        [
            Rule(
                DELETED,
                F.col("low_watermark") < F.col("before"),
                text(
                    "what lies below offset {b} of {p} was said to be deleted with the low watermark at {l}",
                    b=F.col("before"),
                    p=F.col("p"),
                    l=F.col("low_watermark"),
                ),
                name="low",
                offset=F.col("before"),
                ops=[F.col("op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("complete_ns"),
            ),
            Rule(
                DELETED,
                F.col("before") > F.coalesce("reached", F.lit(0)),
                text(
                    "what lies below offset {b} of {p} was said to be deleted, and no response of the run shows its "
                    "log to reach beyond {r}",
                    b=F.col("before"),
                    p=F.col("p"),
                    r=F.coalesce("reached", F.lit(0)),
                ),
                name="beyond",
                offset=F.col("before"),
                ops=[F.col("op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("complete_ns"),
            ),
        ],
    )


def _of_deletions(deletions: DataFrame) -> DataFrame:
    ok, deletes = F.col("outcome") == "ok", F.col("before") > 0
    per_partition = deletions.groupBy("p").agg(
        F.count_if(ok & deletes).alias("acknowledged"),
        F.count_if(ok & deletes & F.col("settled")).alias("settled"),
        F.count_if(F.col("error") == "OFFSET_OUT_OF_RANGE").alias("refused"),
        F.count_if(F.col("outcome") == "info").alias("unknown"),
    )
    return figures(
        per_partition,
        {
            (DELETED, "deletions"): F.col("acknowledged"),
            (DELETED, "settled_deletions"): F.col("settled"),
            (DELETED, "refused_deletions"): F.col("refused"),
            (DELETED, "unknown_deletions"): F.nullif("unknown", F.lit(0)),
        },
    )


def _of_reads(after: DataFrame) -> DataFrame:
    per_partition = after.groupBy("p").agg(F.count_if(F.col("any.before") > 0).alias("reads"))
    return figures(per_partition, {(DELETED, "reads_after_deletion"): F.col("reads")})
