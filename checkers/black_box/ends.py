"""Ends that were shown, and that a leader of the same or a later epoch denied: refused read, nonmonotonic end.

Input grain: one row per wire poll or list_offsets. A row of a refused read proves: a response in leader epoch e or
below had shown that the log reaches offset o, and a poll at o, begun after that response, was refused as
OFFSET_OUT_OF_RANGE in e. A row of a nonmonotonic end proves: such a response had shown an end, and the response to a
ListOffsets(latest) that was sent after it had a lower end in e.

Both rest on one thing: the leader of e has all that was shown in epochs up to e, whenever it was shown, for a deposed
leader commits nothing without the replicas that were in sync with it. So the log of e's leader reaches o, whatever its
watermark is; a leader refuses offsets beyond its log's end, not beyond a watermark that lags (KAFKA-725). And it
returns an end only once its watermark has reached the start of its epoch (KIP-207). Under read_committed the end is the
last stable offset: it is held against what was shown to be decided, last stable offsets and what read_committed passed
over. For that never falls either: a transaction counts as ended once its marker is below the watermark. An
acknowledgement with acks=all shows the end behind its records, in an epoch that is known (`ends_told`). An end that was
shown in an epoch above e proves nothing about e: a deposed leader may be behind, and return its lower end.

A broker compares the epoch of the request (current_leader_epoch) with its own before anything else, so an error other
than a wrong epoch is one of that epoch; where neither request nor response names an epoch nothing is judged. Source:
Partition.fetchRecords, fetchOffsetForTimestamp, LocalLog.read. A wire request goes to the leader of the epoch that it
names, by Metadata: a follower of that epoch (KIP-392) may lack records that were shown, and then rightly refuses the
offset. What a follower shows is committed nevertheless, in that epoch or below: it takes its watermark from the leader.

A log may begin above o where retention can have fired, or a request, and deleted the record at o and the one below it
by when the refusal came (checkers/allowances/expiry.py). That it did not is known by a later response of the same
leader with a log start at or below o: in one epoch a log's start never falls. Leaders before and after an unclean
election are not compared (checkers/evidence/unclean_elections.py).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.allowances.expiry import with_expired
from checkers.black_box.ends_told import acknowledged_ends, answers, thinned
from checkers.black_box.facts import Facts
from checkers.evidence.unclean_elections import epoch_interval
from checkers.history.responses import (
    answered_in,
    by_follower,
    by_wire,
    is_poll,
    requests_latest,
    response_log_start,
    shown_end,
    shown_stable_end,
)
from checkers.spark.tables import in_one_piece, one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

REFUSED = "refused-read"
NONMONOTONIC_END = "nonmonotonic-end"
ALL, STABLE = "all", "stable"
"""Ends of everything that is committed to the log, and of what is decided."""


def end_checks(facts: Facts) -> Family:
    requests = _requests(facts)
    denied = _denied(facts, requests)
    if facts.expiry is not None:
        denied = _with_deleted(facts, _with_start(denied, requests))
    refused = F.col("checker") == REFUSED
    kind = F.when(~refused | F.col("started") | ~F.col("deleted"), F.lit("invalid")).otherwise(F.lit("allowed"))
    found = apply_rules(
        denied,
        [
            Rule(
                F.col("checker"),
                F.lit(True),
                F.concat(
                    text(
                        "{p} showed an end of {e} in leader epoch {s}; ",
                        p=F.col("p"),
                        e=F.col("by.shown_end"),
                        s=F.col("by.shown_in"),
                    ),
                    F.when(refused, text("a poll at {o}", o=F.col("offset"))).otherwise(F.lit("a request for the end")),
                    F.lit(" after that was "),
                    F.when(refused, F.lit("refused as out of range")).otherwise(
                        text("answered with {o}", o=F.col("offset"))
                    ),
                    text(" in epoch {e}", e=F.col("epoch")),
                ),
                kind=kind if facts.expiry is not None else "invalid",
                offset=F.col("offset"),
                ops=[F.col("by.op"), F.col("op")],
                from_ns=F.col("by.complete_ns"),
                to_ns=F.col("complete_ns"),
                lost_epoch=F.col("by.shown_in"),
                missed_epoch=F.col("epoch"),
            )
        ],
    )
    return Family(found, _figures(requests))


def _requests(facts: Facts) -> DataFrame:
    """Wire requests with a response in a known leader epoch, and polls of followers (not `of_leader`), which only show:
    `epoch`; `shown_end`, and `stable_end` of what is decided; `log_start`, where the response has its leader's;
    `checker`, and the `offset` that is judged: of the refused read, or the end that was returned, which is held against
    ends of `level`.
    """
    ok, of_leader = F.col("outcome") == "ok", by_wire()
    near = facts.history.requests.where(ok & by_follower() & answered_in().isNotNull())
    asked = answers(facts.history).unionByName(near.withColumn("epoch", answered_in()))
    return asked.select(
        "p",
        "op",
        "f",
        "node",
        "epoch",
        "invoke_ns",
        "complete_ns",
        of_leader.alias("of_leader"),
        F.when(ok, shown_end()).alias("shown_end"),
        F.when(ok, shown_stable_end()).alias("stable_end"),
        F.when(requests_latest() & (F.col("isolation") == 1), F.lit(STABLE)).otherwise(F.lit(ALL)).alias("level"),
        F.when(of_leader & ok & (response_log_start() >= 0), response_log_start()).alias("log_start"),
        F.when(~ok, F.lit(REFUSED)).when(requests_latest(), F.lit(NONMONOTONIC_END)).alias("checker"),
        F.when(~ok, F.col("position")).when(requests_latest(), F.col("end_offset")).alias("offset"),
    )


def _denied(facts: Facts, requests: DataFrame) -> DataFrame:
    """One row per request that denied what had been shown. by: the response that had shown it; of several one with no
    unclean election in between, if there is any, and of these the one that showed most.
    """
    # For a read it is enough that an end at its offset was shown. A returned end must be no lower than the shown one.
    least = F.col("offset") + F.when(F.col("checker") == REFUSED, 0).otherwise(1)
    judged = requests.where(F.col("checker").isNotNull()).select(
        "p",
        "level",
        F.col("invoke_ns").alias("at_ns"),
        F.lit(0).alias("turn"),
        F.struct("op", "checker", "offset", "epoch", "invoke_ns", "complete_ns", least.alias("least")).alias(
            "requested"
        ),
    )
    ends = F.explode(
        F.array(
            F.struct(F.lit(ALL).alias("level"), F.col("shown_end").alias("end")),
            F.struct(F.lit(STABLE).alias("level"), F.col("stable_end").alias("end")),
        )
    )
    told = requests.select("*", ends.alias("one")).select("p", "op", "epoch", "complete_ns", "one.level", "one.end")
    acked = acknowledged_ends(facts.history)
    if not in_one_piece(acked.sparkSession):
        acked = thinned(acked, judged)
    acked = acked.withColumn("level", F.lit(ALL))
    shown = (
        told.unionByName(acked)
        .where(F.col("end").isNotNull())
        .select(
            "p",
            "level",
            F.col("epoch").alias("shown_in"),
            F.col("complete_ns").alias("at_ns"),
            F.lit(1).alias("turn"),
            F.struct(F.col("end").alias("shown_end"), "op", "complete_ns").alias("shown"),
        )
    )
    # Each is compared with every epoch up to its own: there are few.
    epochs = shown.select("p", "shown_in").distinct()
    requested = judged.join(F.broadcast(epochs), on="p", how="inner").where(
        F.col("shown_in") <= F.col("requested.epoch")
    )
    # At equal times the request counts as the earlier one: it was not certainly sent after the response.
    before = (
        Window.partitionBy("p", "level", "shown_in").orderBy("at_ns", "turn").rowsBetween(Window.unboundedPreceding, 0)
    )
    beyond = (
        requested.unionByName(shown, allowMissingColumns=True)
        .transform(one_piece)
        .withColumn("highest", F.max("shown").over(before))
        .where(F.col("requested").isNotNull() & (F.col("highest.shown_end") >= F.col("requested.least")))
    )
    together = epoch_interval(facts.unclean, F.col("shown_in")) == epoch_interval(
        facts.unclean, F.col("requested.epoch")
    )
    by = F.min(
        F.struct(
            (~F.coalesce(together, F.lit(False))).alias("parted"),
            (-F.col("highest.shown_end")).alias("order"),
            "shown_in",
            F.col("highest.shown_end").alias("shown_end"),
            F.col("highest.op").alias("op"),
            F.col("highest.complete_ns").alias("complete_ns"),
        )
    )
    return beyond.groupBy("p", "requested").agg(by.alias("by")).select("p", "requested.*", "by")


def _with_start(denied: DataFrame, requests: DataFrame) -> DataFrame:
    """With `started`: whether a later response of the same leader had a log start at that offset or below."""
    reported = requests.where(F.col("log_start").isNotNull()).select(
        "p", "epoch", F.col("invoke_ns").alias("later_ns"), "log_start"
    )
    proven = (
        denied.where(F.col("checker") == REFUSED)
        .join(reported, on=["p", "epoch"], how="inner")
        .where((F.col("later_ns") > F.col("complete_ns")) & (F.col("log_start") <= F.col("offset")))
        .select("p", "op", F.lit(True).alias("started"))
        .distinct()
    )
    return denied.join(proven, on=["p", "op"], how="left").withColumn("started", F.coalesce("started", F.lit(False)))


def _with_deleted(facts: Facts, denied: DataFrame) -> DataFrame:
    """With `deleted`: whether the record at that offset and the one below it can have been deleted by when the response
    came. Both are gone wherever a log starts above the offset; a log start at the offset itself refuses nothing there.
    When one was sent is known only where it was read, or acknowledged with acks=all; else it may have been sent at any
    time.
    """
    reported = F.coalesce("min_read_offset", F.when(F.col("send.acks") == -1, F.col("ack_offset")))
    sent = (
        facts.by_value.select("p", reported.alias("offset"), F.col("send.invoke_ns").alias("invoke_ns"))
        .where(F.col("offset").isNotNull())
        .groupBy("p", "offset")
        .agg(F.min(F.coalesce("invoke_ns", F.lit(0))).alias("sent_ns"))
    )
    both = F.array_distinct(F.array(F.greatest(F.col("offset") - 1, F.lit(0)), "offset"))
    rows = (
        denied.where(F.col("checker") == REFUSED)
        .select("p", "op", F.explode(both).alias("offset"), F.col("complete_ns").alias("gone_ns"))
        .join(sent, on=["p", "offset"], how="left")
    )
    judged = with_expired(facts.expiry, rows, facts.history, reused=bool(facts.unclean))
    deleted = judged.groupBy("p", "op").agg(F.min("expired").alias("deleted"))
    return denied.join(deleted, on=["p", "op"], how="left")


def _figures(requests: DataFrame) -> DataFrame:
    """Requests that were judged: sent in a leader epoch when an end had been shown in it, or in a lower one.

    An end of 0 is nothing: no end is below it, and no read at it is out of range.
    """
    up_to = Window.partitionBy("p").orderBy("epoch").rangeBetween(Window.unboundedPreceding, 0)
    shown_ns = F.when(F.col("shown_end") > 0, F.col("complete_ns"))
    per_partition = (
        requests.withColumn("after", _true(F.min(shown_ns).over(up_to) < F.col("invoke_ns")))
        .groupBy("p")
        .agg(
            F.count_if(is_poll() & F.col("of_leader") & F.col("after")).alias("polls"),
            F.count_if(F.col("checker") == REFUSED).alias("refused"),
            F.count_if((F.col("checker") == NONMONOTONIC_END) & F.col("after")).alias("ends"),
        )
    )
    return figures(
        per_partition,
        {
            (REFUSED, "polls_judged"): F.col("polls"),
            (REFUSED, "refused"): F.col("refused"),
            (NONMONOTONIC_END, "ends_judged"): F.col("ends"),
        },
    )


def _true(column: Column) -> Column:
    """Null is false."""
    return F.coalesce(column, F.lit(False))
