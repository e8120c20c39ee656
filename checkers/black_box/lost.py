"""Lost write, lost tail, unseen: acknowledged records that no poll returned.

Input grain: Facts.by_value and the ranges that polls covered. Lost write: some poll passed over the record's offset.
Lost tail: it lies at or above everything covered although a drain proved the end. Unseen: nothing passed over it,
which proves nothing. Allowed, and counted: acks=1 records sent before a change of leader, and what lies below a log
start that was told when the run's retention can have deleted it, unless a poll passed over it. Sends with acks=0 are
acknowledged by nobody: those that nobody read are a figure. A real client may know that a record is in the log and not
where (its batch's own response was lost, and that of a later one implies it): such a record is a lost write where
nobody read it although a drain that ended after its acknowledgement read the partition whole.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts, decided, deleter, expired, response_log_start, undeleted
from checkers.history.load import History
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

LOST = "lost-write"
TAIL = "lost-tail"
UNSEEN = "unseen"


def covered_ranges(requests: DataFrame, *keys: str) -> DataFrame:
    """covered(*keys, start_offset, end_offset): disjoint half-open ranges that successful polls passed over.

    keys: what to keep apart, by default the partition.
    """
    apart = keys or ("p",)
    polls = requests.where(
        (F.col("f") == "poll") & (F.col("outcome") == "ok") & (F.col("next_position") > F.col("position"))
    ).select(*apart, "position", "next_position")
    order = Window.partitionBy(*apart).orderBy("position", "next_position")
    reached = F.max("next_position").over(order.rowsBetween(Window.unboundedPreceding, -1))
    return (
        polls.withColumn("opens", F.when(reached.isNull() | (F.col("position") > reached), 1).otherwise(0))
        .withColumn("island", F.sum("opens").over(order.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*apart, "island")
        .agg(F.min("position").alias("start_offset"), F.max("next_position").alias("end_offset"))
        .select(*apart, "start_offset", "end_offset")
    )


def lost_checks(facts: Facts) -> Family:
    """Every acknowledged record that nobody read, judged by what the polls covered."""
    history = facts.history
    everybody = F.lit("everybody")
    # A poll under read_committed rightly passes over what a transaction that may be aborted had sent.
    covered = (
        covered_ranges(history.requests)
        .withColumn("by", everybody)
        .unionByName(
            covered_ranges(history.requests.where(F.col("isolation") == 0)).withColumn("by", F.lit("uncommitted"))
        )
    )
    reach = (
        history.requests.where(F.col("outcome") == "ok")
        .groupBy("p")
        .agg(F.max("next_position").alias("reach"), F.max(response_log_start()).alias("log_start"))
    )
    drains = (
        history.marks.where(F.col("f") == "drain-complete")
        .groupBy("p")
        .agg(F.max("end").alias("drain_end"), F.max("time_ns").alias("drained_ns"))
    )
    unread = facts.by_value.where(F.col("acked") & (F.col("n_reads") == 0)).withColumn("offset", F.col("ack_offset"))
    shown_to = F.when(decided(), everybody).otherwise(F.lit("uncommitted"))
    unread = unread.withColumn("shown_to", shown_to)
    inside = (
        unread.alias("u")
        .join(
            covered.alias("c"),
            on=(F.col("u.p") == F.col("c.p"))
            & (F.col("u.shown_to") == F.col("c.by"))
            & (F.col("u.offset") >= F.col("c.start_offset"))
            & (F.col("u.offset") < F.col("c.end_offset")),
            how="left",
        )
        .select("u.*", F.col("c.start_offset").isNotNull().alias("covered"))
        .join(reach, on="p", how="left")
        .join(drains, on="p", how="left")
    )
    below_start = F.coalesce(F.col("offset") < F.col("log_start"), F.lit(False))
    past_drain = F.coalesce(
        (F.col("offset") >= F.coalesce("reach", F.lit(0))) & (F.col("send.complete_ns") < F.col("drained_ns")),
        F.lit(False),
    )
    verdict = F.when(F.col("covered") | below_start, F.lit(LOST)).when(past_drain, F.lit(TAIL)).otherwise(F.lit(UNSEEN))
    inside = expired(facts, inside.withColumn("sent_ns", F.col("send.invoke_ns")))
    judged = inside.withColumn("checker", verdict).withColumn("deleted", F.col("expired") & ~F.col("covered"))
    seen_lost_ns = F.col("send.complete_ns")
    if facts.unclean:
        judged = judged.join(_passed_over(history, unread), on=["p", "value"], how="left")
        seen_lost_ns = F.coalesce("passed_ns", "drained_ns", "send.complete_ns")
    where = text(" at {p} offset {o}", p=F.col("p"), o=F.col("offset"))
    what = text("value {v} acknowledged (acks={a})", v=F.col("value"), a=F.col("send.acks"))
    detail = (
        F.when(
            (F.col("checker") == LOST) & F.col("covered"), F.lit(" was read by no poll, although polls passed over it")
        )
        .when(
            F.col("deleted"),
            F.lit(f" lies below the log start, and was read by no poll: {deleter(facts)} can have deleted it"),
        )
        .when(F.col("checker") == LOST, F.lit(f" lies below the log start, {undeleted(facts)}"))
        .when(F.col("checker") == TAIL, F.lit(" lies at or above everything read, after a drain that reached the end"))
        .otherwise(F.lit(" was covered by no poll"))
    )
    found = apply_rules(
        judged,
        [
            Rule(
                F.col("checker"),
                F.lit(True),
                F.concat(what, where, detail),
                kind=F.when(F.col("forgiven") | F.col("deleted"), F.lit("allowed"))
                .when(F.col("checker") == UNSEEN, F.lit("unknown"))
                .otherwise(F.lit("invalid")),
                offset=F.col("offset"),
                value=F.col("value"),
                ops=[F.col("send.op")],
                from_ns=F.col("send.invoke_ns"),
                to_ns=seen_lost_ns,
                lost_epoch=F.col("epoch"),
            )
        ],
    )
    return Family(union([found, _without_offset(facts, drains)]), _figures(facts, drains))


def _without_offset(facts: Facts, drains: DataFrame) -> DataFrame:
    """Findings of what was acknowledged without an offset, and read by nobody."""
    gone = (
        facts.by_value.where(_confirmed_somewhere() & (F.col("n_reads") == 0))
        .join(drains, on="p", how="inner")
        .where(F.col("send.complete_ns") < F.col("drained_ns"))
    )
    if facts.expiry is not None:
        starts = facts.history.requests.where(F.col("outcome") == "ok").groupBy("p")
        gone = gone.join(starts.agg(F.max(response_log_start()).alias("log_start")), on="p", how="left")
    else:
        gone = gone.withColumn("log_start", F.lit(0))
    return apply_rules(
        gone,
        [
            Rule(
                LOST,
                F.lit(True),
                text(
                    "value {v} of {p} was acknowledged without an offset, and read by no poll, though a drain read all",
                    v=F.col("value"),
                    p=F.col("p"),
                ),
                # Where it was is what nobody knows: retention, where it has deleted anything, may have deleted it.
                kind=F.when(F.coalesce("log_start", F.lit(0)) > 0, F.lit("unknown")).otherwise(F.lit("invalid")),
                value=F.col("value"),
                ops=[F.col("send.op")],
                from_ns=F.col("send.invoke_ns"),
                to_ns=F.col("drained_ns"),
            )
        ],
    )


def _confirmed_somewhere() -> Column:
    """Of a row of by_value: acknowledged by a broker, without an offset."""
    return (F.col("send.outcome") == "ok") & F.col("send.offset").isNull() & (F.col("send.acks") != 0)


def _passed_over(history: History, unread: DataFrame) -> DataFrame:
    """(p, value, passed_ns): when the first poll that began after its acknowledgement had passed over it."""
    polls = history.requests.where((F.col("f") == "poll") & (F.col("outcome") == "ok")).select(
        "p", "position", "next_position", "invoke_ns", "complete_ns"
    )
    return (
        unread.select("p", "value", "offset", F.col("send.complete_ns").alias("acked_ns"))
        .join(polls, on="p", how="inner")
        .where(
            (F.col("offset") >= F.col("position"))
            & (F.col("offset") < F.col("next_position"))
            & (F.col("invoke_ns") > F.col("acked_ns"))
        )
        .groupBy("p", "value")
        .agg(F.min("complete_ns").alias("passed_ns"))
    )


def _figures(facts: Facts, drains: DataFrame) -> DataFrame:
    acked = F.col("acked")
    info = F.coalesce(F.col("send.outcome") == "info", F.lit(False))
    # acks=0: the bytes left, and that is all that is known.
    no_offset = (F.col("send.outcome") == "ok") & F.col("send.offset").isNull()
    unacknowledged = F.coalesce(no_offset & (F.col("send.acks") == 0), F.lit(False))
    per_partition = (
        facts.by_value.groupBy("p")
        .agg(
            F.count_if(acked).alias("acknowledged"),
            F.count_if(acked & (F.col("n_reads") > 0)).alias("read"),
            F.count_if(info).alias("unknown_sends"),
            F.count_if(info & (F.col("n_reads") > 0)).alias("recovered_unknown"),
            F.sum("n_reads").alias("records_read"),
            F.count_if(unacknowledged).alias("unacknowledged_sends"),
            F.count_if(unacknowledged & (F.col("n_reads") == 0)).alias("unacknowledged_unread"),
            F.count_if(_confirmed_somewhere()).alias("without_offset"),
        )
        .join(drains.select("p", F.lit(1).alias("drains")), on="p", how="left")
    )
    return figures(
        per_partition,
        {
            (LOST, "acknowledged"): F.col("acknowledged"),
            (LOST, "read"): F.col("read"),
            (LOST, "unknown_sends"): F.col("unknown_sends"),
            (LOST, "recovered_unknown"): F.col("recovered_unknown"),
            (LOST, "records_read"): F.col("records_read"),
            (LOST, "unacknowledged_sends"): F.nullif("unacknowledged_sends", F.lit(0)),
            (LOST, "unacknowledged_unread"): F.nullif("unacknowledged_unread", F.lit(0)),
            (LOST, "acknowledged_without_offset"): F.nullif("without_offset", F.lit(0)),
            (TAIL, "acknowledged"): F.col("acknowledged"),
            (TAIL, "drains"): F.coalesce("drains", F.lit(0)),
            (UNSEEN, "acknowledged"): F.col("acknowledged"),
        },
    )
