"""Real-time order, nonmonotonic send, staleness: offsets against the clock of the harness.

Input grain: one row per value whose offset is known, and one per end that an answer told. Real-time order: a was
certainly in the log before b was invoked, yet b stands below a. A record is certainly in the log from its
acknowledgement or its first read, whichever came first, so sends whose response was lost take part once they are read.
And an end that was told before b was invoked lies at b or below, whoever leads by then, and whether or not anybody
knows a record there: all below it is committed. Of b it must be known that it is, too: it was read, or acks=all
acknowledged it; a deposed leader takes records with less. Staleness is measured, never invalid.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.ends_told import told_end
from checkers.black_box.facts import Facts, may_come_back, seen_in
from checkers.evidence.unclean_elections import epoch_interval, span, with_highest
from checkers.history.resends import numbered_anew, sent_by_itself
from checkers.history.responses import answered_in
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

REAL_TIME = "real-time-order"
NONMONOTONIC_SEND = "nonmonotonic-send"
STALENESS = "staleness"
_LAST_OP = (1 << 63) - 1


def real_time_checks(facts: Facts) -> Family:
    placed = facts.by_value.where(
        F.col("send").isNotNull() & F.col("known_offset").isNotNull() & ~F.col("forgiven")
    ).select(
        "p",
        _place(facts).alias("offset"),
        "value",
        F.col("send.op").alias("op"),
        F.col("send.invoke_ns").alias("invoke_ns"),
        # What acks=1 confirmed a leader that is elected unclean may bring back; until then it is not there.
        (
            F.when(may_come_back(), F.col("first_read_ns")).otherwise(F.col("effective_ns"))
            if facts.unclean
            else F.col("effective_ns")
        ).alias("effective_ns"),
        "epoch",
        ((F.col("send.acks") == -1) | (F.col("n_reads") > 0)).alias("committed"),
    )
    records = placed.withColumn("stands", F.struct("effective_ns", "op", "offset", "value", "epoch"))
    higher = Window.partitionBy("p").orderBy(F.col("offset").desc()).rangeBetween(Window.unboundedPreceding, -1)
    judged = (
        records.unionByName(_told(facts), allowMissingColumns=True)
        .transform(one_piece)
        .withColumn("record_above", F.min("stands").over(higher))
        .withColumn("told_above", F.min("told").over(higher))
    )
    above = [_earlier("record_above"), F.when(F.col("committed"), _earlier("told_above"))]
    if facts.unclean:
        # What no unclean election parts from it comes first: nothing excuses it.
        near = Window.partitionBy("p", "epoch_interval").orderBy(F.col("offset").desc())
        since = near.rangeBetween(Window.unboundedPreceding, -1)
        judged = (
            judged.withColumn("epoch_interval", epoch_interval(facts.unclean, F.col("epoch")))
            .unionByName(_shown(facts), allowMissingColumns=True)
            .transform(one_piece)
            .withColumn("record_since", F.min("shown").over(since))
            .withColumn("told_since", F.min("told").over(since))
        )
        within = F.col("epoch").isNotNull()
        above = [
            F.when(within, _earlier("record_since")),
            F.when(within & F.col("committed"), _earlier("told_since")),
            *above,
        ]
    broken = (
        judged.where(F.col("stands").isNotNull()).withColumn("by", F.coalesce(*above)).where(F.col("by").isNotNull())
    )
    lost_epoch, missed_epoch = span(F.col("by.epoch"), F.col("epoch"))
    found = apply_rules(
        broken,
        [
            Rule(
                REAL_TIME,
                F.lit(True),
                F.concat(
                    text("value {b} stands at {p} offset {o}, ", b=F.col("value"), p=F.col("p"), o=F.col("offset")),
                    F.when(
                        F.col("by.value").isNull(),
                        text(
                            "below an end of {e} that an answer had told before {b} was sent",
                            e=F.col("by.offset"),
                            b=F.col("value"),
                        ),
                    ).otherwise(
                        text(
                            "below value {a} at {e}, which was in the log before {b} was sent",
                            a=F.col("by.value"),
                            e=F.col("by.offset"),
                            b=F.col("value"),
                        )
                    ),
                ),
                offset=F.col("offset"),
                value=F.col("value"),
                ops=[F.col("by.op"), F.col("op")],
                from_ns=F.col("by.effective_ns"),
                # What was sent before an election may have been taken by the leader that came of it.
                to_ns=F.col("effective_ns"),
                lost_epoch=lost_epoch,
                missed_epoch=missed_epoch,
            )
        ],
    )
    per_partition = placed.groupBy("p").agg(F.count(F.lit(1)).alias("ordered"))
    return Family(found, figures(per_partition, {(REAL_TIME, "records_ordered"): F.col("ordered")}))


def _place(facts: Facts) -> Column:
    """Where a row's value stands. Of one that its client may have sent twice, the lower place: it is there as soon as
    either is known, and it, too, was taken after the send had begun.
    """
    if not facts.resends:
        return F.col("known_offset")
    lower = F.least("known_offset", "min_read_offset")
    return F.when(sent_by_itself("send.") | numbered_anew("send."), lower).otherwise(F.col("known_offset"))


def _earlier(name: str) -> Column:
    """What stands above the row's record, where it was there before that was sent."""
    return F.when(F.col(f"{name}.effective_ns") < F.col("invoke_ns"), F.col(name))


def _told(facts: Facts) -> DataFrame:
    """(p, offset, epoch, told): ends, and when each had first been told in its leader epoch.

    told: as `stands`, without a value.
    """
    return (
        facts.history.requests.where((F.col("outcome") == "ok") & told_end().isNotNull())
        .select(
            "p",
            told_end().alias("offset"),
            answered_in().alias("epoch"),
            F.struct(F.col("complete_ns").alias("effective_ns"), "op").alias("first"),
        )
        .groupBy("p", "offset", "epoch")
        .agg(F.min("first").alias("first"))
        .select(
            "p",
            "offset",
            "epoch",
            F.struct(
                "first.effective_ns", "first.op", "offset", F.lit(None).cast("bigint").alias("value"), "epoch"
            ).alias("told"),
        )
    )


def _shown(facts: Facts) -> DataFrame:
    """(p, epoch_interval, offset, shown): when a record was first known to be in the log for good, in each epoch
    interval that had it.

    shown: as `stands`. acks=1 shows none.
    """
    acks = facts.acked.where(F.col("send.acks") == -1).select(
        "p",
        F.col("ack_offset").alias("offset"),
        "value",
        F.col("send.op").alias("op"),
        F.col("send.complete_ns").alias("effective_ns"),
        "epoch",
    )
    reads = facts.history.polls.select(
        "p", "offset", "value", "op", F.col("complete_ns").alias("effective_ns"), seen_in().alias("epoch")
    )
    return (
        acks.unionByName(reads)
        .transform(one_piece)
        .where(F.col("value").isNotNull() & F.col("epoch").isNotNull())
        .withColumn("epoch_interval", epoch_interval(facts.unclean, F.col("epoch")))
        .groupBy("p", "epoch_interval", "offset", "value")
        .agg(F.min(F.struct("effective_ns", "op", "offset", "value", "epoch")).alias("shown"))
        .drop("value")
    )


def nonmonotonic_sends(facts: Facts) -> Family:
    """One process's acknowledged sends to one partition, forgiven ones left out: each against the highest offset among
    those that stand before it.

    A send stands before one that was begun after its answer; before one begun while it was under way only where the
    producer promises that (`in_order`): without idempotence, requests on two connections overtake each other.
    """
    sends = facts.acked.select(
        "p",
        "value",
        F.col("ack_offset").alias("offset"),
        "send.op",
        "send.process",
        "send.invoke_ns",
        "send.complete_ns",
        "send.in_order",
        "epoch",
    )
    stands = F.struct("offset", "op", "complete_ns", "epoch")
    from_ns = F.when(F.col("in_order"), F.col("invoke_ns")).otherwise(F.col("complete_ns"))
    steps = sends.withColumn("at_ns", from_ns).withColumn("stands", stands)
    begun = sends.withColumn("at_ns", F.col("invoke_ns")).withColumn(
        "stands", F.lit(None).cast(steps.schema["stands"].dataType)
    )
    # Of one instant what begins comes first: it was not begun after the other. Where order is promised, that of the
    # invocations holds within one instant, too.
    of_instant = (
        F.when(F.col("in_order"), F.col("op")).when(F.col("stands").isNull(), F.lit(-1)).otherwise(F.lit(_LAST_OP))
    )
    order = Window.orderBy("at_ns", of_instant, F.col("stands").isNotNull())
    rows = begun.unionByName(steps).transform(one_piece)
    stepped = rows.transform(
        with_highest, facts.unclean, "previous", F.col("stands"), ["p", "process"], order, "epoch", F.col("offset")
    )
    back = stepped.where(F.col("stands").isNull() & (F.col("previous.offset") >= F.col("offset")))
    lost_epoch, missed_epoch = span(F.col("previous.epoch"), F.col("epoch"))
    found = apply_rules(
        back,
        [
            Rule(
                NONMONOTONIC_SEND,
                F.lit(True),
                text(
                    "process {w} was acknowledged at {p} offset {a} and then at {b}",
                    w=F.col("process"),
                    p=F.col("p"),
                    a=F.col("previous.offset"),
                    b=F.col("offset"),
                ),
                offset=F.col("offset"),
                value=F.col("value"),
                ops=[F.col("previous.op"), F.col("op")],
                from_ns=F.col("previous.complete_ns"),
                to_ns=F.col("complete_ns"),
                lost_epoch=lost_epoch,
                missed_epoch=missed_epoch,
            )
        ],
    )
    per_partition = sends.groupBy("p").agg(F.count(F.lit(1)).alias("acknowledged"))
    return Family(found, figures(per_partition, {(NONMONOTONIC_SEND, "acknowledged"): F.col("acknowledged")}))


def staleness(facts: Facts) -> Family:
    """How far behind a poll's view of the end was: worst, median, 99th percentile, number of stale polls."""
    # Only records that were read in the end: a lost one would make every later poll stale.
    acked = facts.by_value.where(F.col("acked") & (F.col("n_reads") > 0)).select(
        "p",
        F.col("ack_offset").alias("offset"),
        F.col("send.complete_ns").alias("acked_ns"),
        F.lit(None).cast("bigint").alias("invoke_ns"),
    )
    if facts.settled is not None:
        acked = acked.unionByName(facts.settled, allowMissingColumns=True)
    end = F.when(F.col("isolation") == 1, F.col("lso")).otherwise(F.col("hw"))
    at_end = facts.history.requests.where(
        (F.col("f") == "poll")
        & (F.col("outcome") == "ok")
        & (F.col("reader") == "wire")
        & (F.col("next_position") >= end)
    ).select("p", F.col("next_position").alias("offset"), F.lit(None).cast("bigint").alias("acked_ns"), "invoke_ns")
    above = Window.partitionBy("p").orderBy(F.col("offset").desc()).rangeBetween(Window.unboundedPreceding, 0)
    measured: DataFrame = (
        acked.unionByName(at_end)
        .transform(one_piece)
        .withColumn("missed_ns", F.min("acked_ns").over(above))
        .where(F.col("invoke_ns").isNotNull())
        .withColumn(
            "stale_ms",
            F.when(F.col("missed_ns") < F.col("invoke_ns"), (F.col("invoke_ns") - F.col("missed_ns")) / 1e6),
        )
    )
    per_partition = measured.groupBy("p").agg(
        F.count(F.lit(1)).alias("polls"),
        F.count("stale_ms").alias("stale"),
        F.max("stale_ms").alias("worst"),
        F.percentile_approx("stale_ms", 0.5, 1000).alias("median"),
        F.percentile_approx("stale_ms", 0.99, 1000).alias("p99"),
    )
    return Family(
        None,
        figures(
            per_partition,
            {
                (STALENESS, "polls_at_end"): F.col("polls"),
                (STALENESS, "stale_polls"): F.col("stale"),
                (STALENESS, "worst_ms"): F.col("worst"),
                (STALENESS, "median_ms"): F.col("median"),
                (STALENESS, "p99_ms"): F.col("p99"),
            },
        ),
    )
