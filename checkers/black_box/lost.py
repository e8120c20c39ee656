"""Lost write, lost tail, unseen, torn batch: records that certainly were in the log, and that no poll returned.

Input grain: Facts.by_value and the ranges that polls covered. Lost write: some poll passed over the record's offset.
Lost tail: it lies at or above everything covered although a drain asked for the end after its acknowledgement. Unseen:
nothing passed over it, which proves nothing. Torn batch: another record of its send was read, so that it was committed
too, and where it must stand some poll passed over; it may be one whose answer was lost, or that acks=1 acknowledged.
Allowed, and counted: acks=1 records sent before a change of leader, and what lies below a log start that was told when
the run's retention can have deleted it, unless a poll passed over it. Sends with acks=0 are acknowledged by nobody:
those that nobody read are a figure. A real client may know that a record is in the log and not where (its batch's own
response was lost, and that of a later one implies it): such a record is a lost write where nobody read it although a
drain asked for the end after its acknowledgement, and read all. An answer without an offset to the lab's own client,
or one of a record that nobody was seen to read, leaves the run unknown.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.batches import TORN, batch_base, of_several, read_once
from checkers.black_box.facts import Facts, decided, deleter, expired, undeleted
from checkers.black_box.jumps import without_jumps
from checkers.history.load import History
from checkers.history.remade import life_of
from checkers.history.responses import by_wire, is_poll, response_log_start
from checkers.spark.tables import one_piece
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
    """Every record that certainly was in the log and that nobody read, judged by what the polls covered."""
    history = facts.history
    everybody = F.lit("everybody")
    # A poll under read_committed rightly passes over what a transaction that may be aborted had sent.
    asked = history.requests if facts.expiry is None else without_jumps(history)
    covered = (
        covered_ranges(asked)
        .withColumn("by", everybody)
        .unionByName(covered_ranges(asked.where(F.col("isolation") == 0)).withColumn("by", F.lit("uncommitted")))
        .transform(one_piece)
    )
    reach = (
        history.requests.where(F.col("outcome") == "ok")
        .groupBy("p")
        .agg(F.max("next_position").alias("reach"), F.max(response_log_start()).alias("log_start"))
    )
    drains = _drains(history)
    unread = _unread(facts)
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
        (F.col("offset") >= F.coalesce("reach", F.lit(0))) & (F.col("send.complete_ns") < F.col("end_asked_ns")),
        F.lit(False),
    )
    inside = expired(facts, inside.withColumn("sent_ns", F.col("send.invoke_ns")))
    torn, seen_lost_ns = F.col("together") & F.col("covered"), F.col("send.complete_ns")
    if facts.unclean:
        inside = inside.join(passed_over(history.requests, unread), on=["p", "value"], how="left")
        # Offsets may have been given again: a poll from before tells of another record.
        torn = torn & F.col("passed_ns").isNotNull()
        seen_lost_ns = F.coalesce("passed_ns", "drained_ns", "send.complete_ns")
    verdict = (
        F.when(torn, F.lit(TORN))
        .when(F.col("covered") | below_start, F.lit(LOST))
        .when(past_drain, F.lit(TAIL))
        .otherwise(F.lit(UNSEEN))
    )
    judged = (
        inside.where(torn | F.col("acked"))
        .withColumn("checker", verdict)
        .withColumn("deleted", F.col("expired") & ~F.col("covered"))
    )
    if facts.ended is not None:
        # What nobody got to read before its topic was deleted proves nothing, and nobody can look for it any more.
        ended = F.broadcast(facts.ended.withColumn("gone", F.lit(True)))
        judged = judged.withColumn("life", life_of()).join(ended, on="life", how="left")
        judged = judged.where((F.col("checker") != UNSEEN) | F.col("gone").isNull()).drop("life", "gone")
    found = apply_rules(
        judged,
        [
            Rule(
                F.col("checker"),
                F.lit(True),
                F.when(F.col("checker") == TORN, _how_torn()).otherwise(_how_lost(facts)),
                kind=F.when(F.col("checker") == TORN, F.lit("invalid"))
                .when(F.col("forgiven") | F.col("deleted"), F.lit("allowed"))
                .when(F.col("checker") == UNSEEN, F.lit("unknown"))
                .otherwise(F.lit("invalid")),
                offset=F.col("offset"),
                value=F.col("value"),
                ops=[F.col("send.op"), F.col("sibling.op")],
                from_ns=F.col("send.invoke_ns"),
                to_ns=seen_lost_ns,
                lost_epoch=F.when(F.col("checker") == TORN, F.col("sibling_epoch")).otherwise(F.col("epoch")),
            )
        ],
    )
    return Family(union([found, _without_offset(facts, drains)]), _figures(facts, drains))


def _drains(history: History) -> DataFrame:
    """(p, drained_ns, end_asked_ns): when the last drain was over, and when the last poll was begun that showed one to
    have come to the end of the log.

    That is one of the lab's own client, who reads on until nothing is left below the watermark; the real client stops
    where that one did. What a real client's late response acknowledges after that poll may stand above all drains.
    """
    turn = ("p", "phase", "leader", "isolation")
    finished = history.marks.where(F.col("f") == "drain-complete").select(*turn, "reader", "end", "time_ns")
    ends = (
        history.requests.where(is_poll() & by_wire() & (F.col("outcome") == "ok"))
        .where((F.col("hw") >= 0) & (F.col("next_position") >= F.col("hw")))
        .withColumn("leader", F.col("node"))
        .select(*turn, F.lit("wire").alias("reader"), "next_position", "invoke_ns")
    )
    return (
        finished.join(ends, on=[*turn, "reader"], how="left")
        .groupBy("p")
        .agg(
            F.max("time_ns").alias("drained_ns"),
            F.max(F.when(F.col("next_position") >= F.col("end"), F.col("invoke_ns"))).alias("end_asked_ns"),
        )
    )


def _unread(facts: Facts) -> DataFrame:
    """Rows of by_value that nobody read, and that were acknowledged, or of whose send another one was read: with the
    `offset` at which they must stand, and since when that is known (`there_ns`, by the operation `there_op`).

    together: whether that other one is what says so: nothing acknowledged it, or only what acks=1 may take back.
    sibling: the first of its send that was read.
    """
    siblings = (
        facts.by_value.where(of_several() & read_once())
        .groupBy("p", F.col("send.op").alias("sibling_of"))
        .agg(
            F.min(batch_base()).alias("base"),
            F.max(batch_base()).alias("top"),
            F.min(
                F.struct(
                    F.col("first_read_ns").alias("at_ns"),
                    F.col("first_read.read_op").alias("op"),
                    "value",
                    F.col("min_read_offset").alias("offset"),
                )
            ).alias("sibling"),
            F.max("read_epoch").alias("sibling_epoch"),
        )
        # Where they stand apart it is not known which of them says where the others belong.
        .where(F.col("base") == F.col("top"))
        .drop("top")
        .withColumnRenamed("p", "sibling_p")
    )
    taken = F.coalesce(F.col("send.outcome") != "fail", F.lit(False))
    belongs = F.col("base") + F.col("send.nth")
    unread = (
        facts.by_value.where((F.col("n_reads") == 0) & (F.col("acked") | (of_several() & taken)))
        .join(
            siblings,
            on=of_several() & (F.col("p") == F.col("sibling_p")) & (F.col("send.op") == F.col("sibling_of")),
            how="left",
        )
        .withColumn("offset", F.coalesce("ack_offset", belongs))
        .where(F.col("offset").isNotNull())
    )
    together = (~F.col("acked") | F.col("forgiven")) & (F.col("offset") == belongs)
    return (
        unread.withColumn("together", F.coalesce(together, F.lit(False)))
        .withColumn("there_ns", F.when(F.col("together"), F.col("sibling.at_ns")).otherwise(F.col("send.complete_ns")))
        .withColumn("there_op", F.when(F.col("together"), F.col("sibling.op")))
        .drop("sibling_p", "sibling_of", "base")
    )


def _how_torn() -> Column:
    return text(
        "value {v} was sent together with value {w}, which was read at {p} offset {a}: it must stand at {o}, and polls "
        "passed over that without returning it",
        v=F.col("value"),
        w=F.col("sibling.value"),
        p=F.col("p"),
        a=F.col("sibling.offset"),
        o=F.col("offset"),
    )


def _how_lost(facts: Facts) -> Column:
    lost = F.col("checker") == LOST
    committed = F.when(
        F.col("shown_committed") & (F.col("send.acks") != -1),
        F.lit(", and committed by the watermark that its leader told,"),
    ).otherwise(F.lit(""))
    detail = (
        F.when(lost & F.col("covered"), F.lit(" was read by no poll, although polls passed over it"))
        .when(
            F.col("deleted"),
            F.lit(f" lies below the log start, and was read by no poll: {deleter(facts)} can have deleted it"),
        )
        .when(lost, F.lit(f" lies below the log start, {undeleted(facts)}"))
        .when(F.col("checker") == TAIL, F.lit(" lies at or above everything read, after a drain that reached the end"))
        .otherwise(F.lit(" was covered by no poll"))
    )
    return F.concat(
        text("value {v} acknowledged (acks={a})", v=F.col("value"), a=F.col("send.acks")),
        text(" at {p} offset {o}", p=F.col("p"), o=F.col("offset")),
        committed,
        detail,
    )


def _without_offset(facts: Facts, drains: DataFrame) -> DataFrame:
    """Findings of what was acknowledged without an offset: lost where nobody read it though a drain read all; unknown
    where no drain has, or where it was the lab's own client that got no offset, which every answer to it has.
    """
    confirmed = facts.by_value.where(acknowledged_without_offset()).join(drains, on="p", how="left")
    if facts.expiry is not None:
        starts = facts.history.requests.where(F.col("outcome") == "ok").groupBy("p")
        confirmed = confirmed.join(starts.agg(F.max(response_log_start()).alias("log_start")), on="p", how="left")
    else:
        confirmed = confirmed.withColumn("log_start", F.lit(0))
    unread = F.col("n_reads") == 0
    gone = unread & F.coalesce(F.col("send.complete_ns") < F.col("end_asked_ns"), F.lit(False))
    wire = F.coalesce("send.reader", F.lit("wire")) == "wire"
    what = text("value {v} of {p} was acknowledged without an offset", v=F.col("value"), p=F.col("p"))
    return apply_rules(
        confirmed,
        [
            Rule(
                LOST,
                gone,
                F.concat(what, F.lit(", and read by no poll, though a drain read all")),
                # Where it was is what nobody knows: retention, where it has deleted anything, may have deleted it.
                kind=F.when(F.coalesce("log_start", F.lit(0)) > 0, F.lit("unknown")).otherwise(F.lit("invalid")),
                to_ns=F.col("drained_ns"),
                value=F.col("value"),
                ops=[F.col("send.op")],
                from_ns=F.col("send.invoke_ns"),
            ),
            Rule(
                UNSEEN,
                ~gone & (unread | wire),
                F.concat(
                    what,
                    F.when(unread, F.lit(", and read by no poll")).otherwise(F.lit(" by a broker that has to name it")),
                ),
                kind="unknown",
                to_ns=F.col("send.complete_ns"),
                value=F.col("value"),
                ops=[F.col("send.op")],
                from_ns=F.col("send.invoke_ns"),
            ),
        ],
    )


def acknowledged_without_offset() -> Column:
    """Of a row of by_value: acknowledged by a broker, without an offset."""
    return (F.col("send.outcome") == "ok") & F.col("send.offset").isNull() & (F.col("send.acks") != 0)


def passed_over(requests: DataFrame, missing: DataFrame) -> DataFrame:
    """(p, value, passed_ns): when the first poll had passed over it that began once it was known to be there, or that
    itself shows so. missing: (p, value, offset, there_ns, there_op), the last where an operation shows it.
    """
    polls = requests.where((F.col("f") == "poll") & (F.col("outcome") == "ok")).select(
        "p", "op", "position", "next_position", "invoke_ns", "complete_ns"
    )
    return (
        missing.select("p", "value", "offset", "there_ns", "there_op")
        .join(polls, on="p", how="inner")
        .where(
            (F.col("offset") >= F.col("position"))
            & (F.col("offset") < F.col("next_position"))
            & ((F.col("invoke_ns") > F.col("there_ns")) | F.coalesce(F.col("op") == F.col("there_op"), F.lit(False)))
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
            F.count_if(acknowledged_without_offset()).alias("without_offset"),
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
