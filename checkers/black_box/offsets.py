"""Inconsistent offset, and vanished read where the offset was given to another value, or to the same one once more, or
fell below the log's start.

Input grain: Facts.by_offset, then every sighting of the offsets in conflict. A row of inconsistent offset proves two
values at one offset; a row of vanished read proves that a value had been read there before the other one was seen
there; or, of a value that was sent again, that it was read there in records of two leader epochs. A leader stamps what
it appends, and nobody stamps it once more, so that the first had been lost when it came again to where it had been. Of
several such pairs a row holds one: a pair with no unclean election in between, if there is any, for nothing excuses it;
else the pair that was complete first.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.facts import (
    Facts,
    deleter,
    expired,
    may_come_back,
    seen_in,
    stamped,
    undeleted,
)
from checkers.evidence.unclean_elections import epoch_interval, span
from checkers.history.responses import answered_in, response_log_start
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

INCONSISTENT = "inconsistent-offset"
VANISHED = "vanished-read"


def offset_checks(facts: Facts) -> Family:
    rows = facts.by_offset
    sightings = _sightings(facts, rows.where(F.col("min_value") != F.col("max_value")).select("p", "offset"))
    per_partition = rows.groupBy("p").agg(
        F.count(F.lit(1)).alias("offsets_known"), F.count_if("is_read").alias("offsets_read")
    )
    return Family(
        union([_inconsistent(facts, sightings), _replaced(sightings), _appended_again(facts), _below_start(facts)]),
        figures(
            per_partition,
            {
                (INCONSISTENT, "offsets_known"): F.col("offsets_known"),
                (INCONSISTENT, "offsets_read"): F.col("offsets_read"),
                (VANISHED, "offsets_read"): F.col("offsets_read"),
            },
        ),
    )


def _sightings(facts: Facts, at: DataFrame) -> DataFrame:
    """(p, offset, value, op, invoke_ns, complete_ns, is_read, written, epoch, epoch_interval): reads and
    acknowledgements at these offsets.

    written: the leader epoch under which it was written. epoch: the highest that is known to have had it there for
    good; acks=1 shows none. epoch_interval: how many unclean elections had come by then. Null where not known. A record
    that acks=1 confirmed, and that was read there, counts by its reads: it may have been lost in between, and brought
    back.
    """
    polls = facts.history.polls.where(F.col("value").isNotNull()).select(
        "p",
        "offset",
        "value",
        "op",
        "invoke_ns",
        "complete_ns",
        F.lit(True).alias("is_read"),
        stamped().alias("written"),
        seen_in().alias("epoch"),
    )
    acks = (facts.acked.where(~may_come_back()) if facts.unclean else facts.acked).select(
        "p",
        F.col("ack_offset").alias("offset"),
        "value",
        "send.op",
        "send.invoke_ns",
        "send.complete_ns",
        F.lit(False).alias("is_read"),
        F.col("epoch").alias("written"),
        F.when(F.col("send.acks") == -1, F.col("epoch")).alias("epoch"),
    )
    return (
        polls.unionByName(acks)
        .transform(one_piece)
        .join(at, on=["p", "offset"], how="left_semi")
        .withColumn("epoch_interval", epoch_interval(facts.unclean, F.col("epoch")))
    )


def _parted() -> Column:
    """Whether an unclean election may part `in_interval` from `epoch_interval`."""
    return ~F.coalesce(F.col("in_interval") == F.col("epoch_interval"), F.lit(False))


def _inconsistent(facts: Facts, sightings: DataFrame) -> DataFrame:
    """One row per offset."""
    lost_epoch, missed_epoch = span(F.col("low_epoch"), F.col("high_epoch"))
    pairs = _pairs(sightings).withColumn("lost_epoch", lost_epoch).withColumn("missed_epoch", missed_epoch)
    if facts.unclean:
        # Leaders with no unclean election in between, and all the more one leader, have one value there.
        near = union([_pairs(sightings, "epoch_interval"), _pairs(sightings, "written")])
        columns = ("to_ns", "one", "other", "from_ns")
        parted_by_none = (
            near.groupBy("p", "offset")
            .agg(F.min(F.struct(*columns)).alias("near"))
            # There and gone in one epoch, whichever that was.
            .select("p", "offset", "near.*", F.lit(0).alias("lost_epoch"), F.lit(0).alias("missed_epoch"))
        )
        others = pairs.join(parted_by_none, on=["p", "offset"], how="left_anti").select(*parted_by_none.columns)
        pairs = union([parted_by_none, others])
    return apply_rules(
        pairs,
        [
            Rule(
                INCONSISTENT,
                F.lit(True),
                text(
                    "{p} offset {o} holds both value {a} and value {b}",
                    p=F.col("p"),
                    o=F.col("offset"),
                    a=F.col("one.value"),
                    b=F.col("other.value"),
                ),
                offset=F.col("offset"),
                value=F.col("one.value"),
                ops=[F.col("one.op"), F.col("other.op")],
                from_ns=F.col("from_ns"),
                to_ns=F.col("to_ns"),
                lost_epoch=F.col("lost_epoch"),
                missed_epoch=F.col("missed_epoch"),
            )
        ],
    )


def _pairs(sightings: DataFrame, *within: str) -> DataFrame:
    """(p, offset, one, other, from_ns, to_ns, low_epoch, high_epoch): where two values were seen at one offset, and in
    one `within`: the two that were seen first.

    to_ns: when the second had been seen. low_epoch and high_epoch: of all values seen there; null where one's is not
    known.
    """
    known = [F.col(name).isNotNull() for name in within]
    values = (
        sightings.where(known[0] if known else F.lit(True))
        .groupBy("p", "offset", *within, "value")
        .agg(
            F.min(F.struct("complete_ns", "op")).alias("first"),
            F.min("invoke_ns").alias("from_ns"),
            F.max("epoch").alias("epoch"),
        )
    )
    seen = F.struct(F.col("first.complete_ns").alias("at_ns"), F.col("first.op").alias("op"), F.col("value"))
    reported = F.bool_and(F.col("epoch").isNotNull())
    return (
        values.groupBy("p", "offset", *within)
        .agg(
            F.array_sort(F.collect_list(seen)).alias("seen"),
            F.min("from_ns").alias("from_ns"),
            F.when(reported, F.min("epoch")).alias("low_epoch"),
            F.when(reported, F.max("epoch")).alias("high_epoch"),
        )
        .where(F.size("seen") > 1)
        .select(
            "p",
            "offset",
            F.col("seen")[0].alias("one"),
            F.col("seen")[1].alias("other"),
            "from_ns",
            F.col("seen")[1]["at_ns"].alias("to_ns"),
            "low_epoch",
            "high_epoch",
        )
    )


def _replaced(sightings: DataFrame) -> DataFrame:
    """One row per value that was read at an offset where another value was seen by a later operation."""
    reads = (
        sightings.where("is_read")
        .withColumnRenamed("epoch_interval", "in_interval")
        .groupBy("p", "offset", "value", "in_interval")
        .agg(F.min(F.struct("complete_ns", "op")).alias("first"), F.max("epoch").alias("in_epoch"))
    )
    later = sightings.select(
        "p", "offset", F.col("value").alias("other"), "op", "invoke_ns", "complete_ns", "epoch", "epoch_interval"
    )
    pairs = (
        reads.join(later, on=["p", "offset"], how="inner")
        .where((F.col("value") != F.col("other")) & (F.col("first.complete_ns") < F.col("invoke_ns")))
        .withColumn("parted", _parted())
        .groupBy("p", "offset", "value")
        .agg(F.min(F.struct("parted", "complete_ns", "op", "other", "first", "in_epoch", "epoch")).alias("by"))
    )
    lost_epoch, missed_epoch = span(F.col("by.in_epoch"), F.col("by.epoch"))
    return apply_rules(
        pairs,
        [
            Rule(
                VANISHED,
                F.lit(True),
                text(
                    "value {v} was read at {p} offset {o}, which later held value {w}",
                    v=F.col("value"),
                    p=F.col("p"),
                    o=F.col("offset"),
                    w=F.col("by.other"),
                ),
                offset=F.col("offset"),
                value=F.col("value"),
                ops=[F.col("by.first.op"), F.col("by.op")],
                from_ns=F.col("by.first.complete_ns"),
                to_ns=F.col("by.complete_ns"),
                lost_epoch=lost_epoch,
                missed_epoch=missed_epoch,
            )
        ],
    )


def _appended_again(facts: Facts) -> DataFrame:
    """One row per value, offset and two leader epochs, one right above the other, under which records there had it."""
    again = facts.by_value.where((F.col("n_sends") > 1) & (F.col("n_reads") > 1)).select("p", "value")
    read = F.struct(F.col("complete_ns").alias("at_ns"), "op")
    epochs = Window.partitionBy("p", "offset", "value").orderBy("written")
    judged = (
        facts.history.polls.withColumn("written", stamped())
        .where(F.col("written").isNotNull())
        .join(again, on=["p", "value"], how="left_semi")
        .groupBy("p", "offset", "value", "written")
        .agg(F.min(read).alias("read"))
        .withColumn("below", F.lag(F.struct("written", "read")).over(epochs))
        .where(F.col("below").isNotNull())
    )
    return apply_rules(
        judged,
        [
            Rule(
                VANISHED,
                F.lit(True),
                text(
                    "value {v} was read at {p} offset {o} in a record of leader epoch {a}, and in one of epoch {b}: it "
                    "was lost, and came to the same place when it was sent again",
                    v=F.col("value"),
                    p=F.col("p"),
                    o=F.col("offset"),
                    a=F.col("below.written"),
                    b=F.col("written"),
                ),
                offset=F.col("offset"),
                value=F.col("value"),
                ops=[F.col("below.read.op"), F.col("read.op")],
                from_ns=F.least("below.read.at_ns", "read.at_ns"),
                to_ns=F.greatest("below.read.at_ns", "read.at_ns"),
                lost_epoch=F.col("below.written"),
                missed_epoch=F.col("written"),
            )
        ],
    )


def _below_start(facts: Facts) -> DataFrame:
    """One row per partition, and per epoch interval in it, whose log was said to start above an offset that was read;
    one more where that is allowed, because the run's retention can have deleted what was read.
    """
    reported = (
        facts.history.requests.where(F.col("outcome") == "ok")
        .withColumn("log_start", response_log_start())
        .where(F.col("log_start") > 0)
        .withColumn("epoch", answered_in())
        .withColumn("epoch_interval", epoch_interval(facts.unclean, F.col("epoch")))
        .groupBy("p", "log_start", "epoch_interval")
        .agg(F.min(F.struct("complete_ns", "op", "epoch")).alias("start"))
    )
    highest = reported.groupBy("p").agg(F.max("log_start").alias("highest"))
    below = facts.history.polls.join(F.broadcast(highest), on="p", how="inner").where(
        F.col("offset") < F.col("highest")
    )
    if facts.expiry is not None:
        sent = facts.by_value.select("p", "value", F.col("send.invoke_ns").alias("sent_ns"))
        below = below.join(sent, on=["p", "value"], how="left")
    reads = (
        expired(facts, below)
        .withColumn("in_epoch", seen_in())
        .withColumn("in_interval", epoch_interval(facts.unclean, F.col("in_epoch")))
        .groupBy("p", "in_interval", "expired")
        .agg(
            F.min(F.struct("offset", "complete_ns", "value", "op")).alias("read"),
            F.max("in_epoch").alias("in_epoch"),
        )
    )
    judged = (
        reads.join(reported, on="p", how="inner")
        .where(F.col("read.offset") < F.col("log_start"))
        .withColumn("parted", _parted())
        .groupBy("p", "in_interval", "expired", "in_epoch", "read")
        .agg(F.min(F.struct("parted", "start", "log_start")).alias("by"))
    )
    lost_epoch, missed_epoch = span(F.col("in_epoch"), F.col("by.start.epoch"))
    return apply_rules(
        judged,
        [
            Rule(
                VANISHED,
                F.lit(True),
                text(
                    "value {v} was read at {p} offset {o}; a response gave {s} as the log start, {w}",
                    v=F.col("read.value"),
                    p=F.col("p"),
                    o=F.col("read.offset"),
                    s=F.col("by.log_start"),
                    w=F.when(F.col("expired"), F.lit(f"and {deleter(facts)} can have deleted it")).otherwise(
                        F.lit(undeleted(facts))
                    ),
                ),
                kind=F.when(F.col("expired"), F.lit("allowed")).otherwise(F.lit("invalid")),
                offset=F.col("read.offset"),
                value=F.col("read.value"),
                ops=[F.col("read.op"), F.col("by.start.op")],
                from_ns=F.least("read.complete_ns", "by.start.complete_ns"),
                to_ns=F.greatest("read.complete_ns", "by.start.complete_ns"),
                lost_epoch=lost_epoch,
                missed_epoch=missed_epoch,
            )
        ],
    )
