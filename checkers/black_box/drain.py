"""The final drain: what it proved, and whether the real client read the same.

A `drain-complete` line is believed only where the polls of one consumer of that reader, from that leader in one leader
epoch (which a real client does not tell), in that phase really pass over [start, end), and counts only where that is
everything: from the least acknowledged offset that retention cannot have deleted to past the sentinel. Grains: one row
per believed line; one row per (partition, round, leader, offset) that a drain read.

The first round reads the cluster as the faults and their end left it. Every later one comes after a broker was stopped
and started for it, which may repair what was wrong: a leader whose readers made no progress until then is read well in
all later rounds. So the first round is required by itself.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.allowances.allowances import ALLOWED_GONE, GONE
from checkers.black_box.facts import Facts, expired, seen_in
from checkers.black_box.lost import covered_ranges
from checkers.evidence.unclean_elections import attributable
from checkers.history.responses import is_poll, response_log_start
from checkers.verdicts.catalogue import DRAINED, HEALED
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

DRAIN = "final-drain"
REPEAT = "confluent-repeat"
CURRENT = "drain-current"
"""Phase of the first round: whoever leads is read, before the rotation stops anybody."""


def believed_drains(facts: Facts) -> DataFrame:
    """(p, leader, reader, isolation, phase, start, end, believed): every drain-complete line."""
    marked = facts.history.marks.where(F.col("f") == "drain-complete").select(
        "p", "leader", "reader", "isolation", "phase", "start", "end", "time_ns"
    )
    polls = facts.history.requests.where(F.col("phase").startswith("drain")).withColumn("leader", F.col("node"))
    # What several consumers read, or one of several leaderships, was never seen to be there at once.
    ranges = covered_ranges(polls, "p", "leader", "reader", "isolation", "phase", "consumer", "leader_epoch")
    return (
        marked.join(ranges, on=["p", "leader", "reader", "isolation", "phase"], how="left")
        .groupBy(*marked.columns)
        .agg(
            F.coalesce(
                F.bool_or((F.col("start_offset") <= F.col("start")) & (F.col("end_offset") >= F.col("end"))),
                F.lit(False),
            ).alias("believed")
        )
    )


def sentinel_end() -> Column:
    """The offset behind a partition's first acknowledged sentinel; an aggregate of acknowledged rows of by_value.

    The first: a run whose drain did not get to its end writes another one, and drains again.
    """
    return F.min(F.when(F.col("send.sentinel"), F.col("ack_offset") + 1)).alias("sentinel_end")


def read_by(readings: DataFrame, checker: str) -> DataFrame:
    """Figures of that checker from readings(p, reader, leader, phase) of a whole partition: which reader read it from
    which leader, and whether while the healed cluster led.
    """
    names = F.array_compact(
        F.array(
            F.concat(F.lit(DRAINED), "reader", F.lit(":"), "leader"),
            F.when(F.col("phase") == CURRENT, F.concat(F.lit(HEALED), "reader")),
        )
    )
    return (
        readings.select("p", F.explode(names).alias("name"))
        .distinct()
        .select(F.lit(checker).alias("checker"), "p", "name", F.lit(1.0).alias("value"))
    )


def drain_checks(facts: Facts) -> Family:
    drains = believed_drains(facts)
    acked = _with_expired(facts, facts.acked)
    ends = acked.groupBy("p").agg(
        F.min("ack_offset").alias("least"),
        F.min(F.when(~F.col("expired"), F.col("ack_offset"))).alias("kept"),
        sentinel_end(),
    )
    first = F.col("least")
    if facts.expiry is not None:
        ends = ends.join(_log_starts(facts), on="p", how="left")
        first = F.coalesce("kept", F.greatest("least", "log_start"))
    reaches = F.coalesce(F.col("end") >= F.col("sentinel_end"), F.lit(False))
    begins = F.coalesce(F.col("start") <= first, F.lit(False))
    judged = drains.join(ends, on="p", how="left").withColumn("good", F.col("believed") & reaches & begins)
    detail = (
        F.when(~F.col("believed"), F.lit("no consumer's polls pass over all of that in one leadership"))
        .when(~reaches, F.lit("no acknowledged sentinel lies below its end"))
        .otherwise(text("{o} was acknowledged below its start", o=first))
    )
    doubted = apply_rules(
        judged.where(~F.col("good")),
        [
            Rule(
                DRAIN,
                F.lit(True),
                F.concat(
                    text(
                        "the {r} drain of {p} from {l} reports that it read {s} to {e}; ",
                        r=F.col("reader"),
                        p=F.col("p"),
                        l=F.col("leader"),
                        s=F.col("start"),
                        e=F.col("end"),
                    ),
                    detail,
                ),
                kind="unknown",
            )
        ],
    )
    good = judged.where("good")
    # What is there is proven by reading all of it; what read_committed shows of it, the checkers of transactions judge.
    per_reader = read_by(good.where(F.col("isolation") == 0), DRAIN)
    gone = figures(
        _gone(facts),
        {(DRAIN, GONE): F.nullif("gone", F.lit(0)), (DRAIN, ALLOWED_GONE): F.nullif("allowed_gone", F.lit(0))},
    )
    sentinels = figures(ends, {(DRAIN, "sentinels"): F.when(F.col("sentinel_end").isNotNull(), F.lit(1))})
    repeat = _repeat(facts)
    return Family(
        union([doubted, _given_up(facts), *([] if repeat.findings is None else [repeat.findings])]),
        union([per_reader, sentinels, gone, repeat.figures]),
    )


def _given_up(facts: Facts) -> DataFrame:
    """Readings of the first round that did not come to an end, and why; unknown.

    A reader writes one line or the other, so a healthy run has none. Later rounds are not judged here: where one fails,
    another one follows, and what counts is whether each replica was read to its end in some round.
    """
    marked = facts.history.marks.where((F.col("f") == "drain-incomplete") & (F.col("phase") == CURRENT))
    return apply_rules(
        marked,
        [
            Rule(
                DRAIN,
                F.lit(True),
                text(
                    "the {r} drain of {p} from {l}, before any broker was stopped for it, did not reach its end: {e}",
                    r=F.col("reader"),
                    p=F.col("p"),
                    l=F.coalesce("leader", F.lit("nobody")),
                    e=F.coalesce("error", F.lit("no reason given")),
                ),
                kind="unknown",
            )
        ],
    )


def _gone(facts: Facts) -> DataFrame:
    """(p, gone, allowed_gone): records that were read, acknowledged or not, and that some finished drain did not return
    which asked for the end once they were known to be there; the second are those whose loss is attributable to an
    unclean election.

    No proof of its own: a poll that passes over such a record is a vanished read, and a drain that ends below it is
    doubted, or was read from a leader whose watermark lagged. But a run with such a record is not valid (`none` of the
    checker's entry in the catalogue).
    """
    read = facts.by_value.where((F.col("n_reads") > 0) & F.col("send").isNotNull())
    expected = read.join(F.broadcast(_ends_asked(facts)), on="p").where(
        (F.col("effective_ns") < F.col("asked_ns"))
        # The real client stops where the lab's own reader did.
        & ((F.col("reader") == "wire") | (F.col("known_offset") < F.col("end")))
        & ((F.col("isolation") == 0) | F.col("fate").isNull() | (F.col("n_committed_reads") > 0))
    )
    returned = facts.history.polls.where(F.col("phase").startswith("drain")).select(
        "p", "value", F.col("node").alias("leader"), "reader", "isolation", "phase"
    )
    missing = expected.join(returned, on=["p", "value", "leader", "reader", "isolation", "phase"], how="left_anti")
    if facts.expiry is not None:
        missing = _with_expired(facts, missing).where(~F.col("expired"))
    there = F.col("epoch")
    if facts.unclean:
        reads = facts.history.polls.select("p", "value", "complete_ns", seen_in().alias("seen"))
        seen = (
            missing.select("p", "value", "time_ns")
            .distinct()
            .join(reads, on=["p", "value"], how="inner")
            .where(F.col("complete_ns") < F.col("time_ns"))
            .groupBy("p", "value", "time_ns")
            .agg(F.max("seen").alias("seen"))
        )
        missing = missing.join(seen, on=["p", "value", "time_ns"], how="left")
        there = F.greatest("epoch", "seen")
    allowed = attributable(facts.unclean, lost_epoch=there, from_ns=F.col("send.invoke_ns"), to_ns=F.col("time_ns"))
    return missing.groupBy("p").agg(
        F.count_distinct(F.when(~allowed, F.col("value"))).alias("gone"),
        F.count_distinct(F.when(allowed, F.col("value"))).alias("allowed_gone"),
    )


def _ends_asked(facts: Facts) -> DataFrame:
    """(p, leader, reader, isolation, phase, end, time_ns, asked_ns): every drain-complete line, and when the last poll
    was begun that showed that reader to be at the end; when it was written, where no poll says so.
    """
    turn = ("p", "leader", "reader", "isolation", "phase")
    marked = facts.history.marks.where(F.col("f") == "drain-complete").select(*turn, "end", "time_ns")
    end = F.when(F.col("isolation") == 1, F.col("lso")).otherwise(F.col("hw"))
    at_end = (F.col("reader") != "wire") | ((end >= 0) & (F.col("next_position") >= end))
    polls = (
        facts.history.requests.where(is_poll() & (F.col("outcome") == "ok") & F.col("phase").startswith("drain"))
        .where(at_end)
        .withColumn("leader", F.col("node"))
        .select(*turn, "next_position", "invoke_ns")
    )
    return (
        marked.join(polls, on=list(turn), how="left")
        .groupBy(*marked.columns)
        .agg(F.max(F.when(F.col("next_position") >= F.col("end"), F.col("invoke_ns"))).alias("asked_ns"))
        .withColumn("asked_ns", F.coalesce("asked_ns", "time_ns"))
    )


def _with_expired(facts: Facts, known: DataFrame) -> DataFrame:
    """Rows of by_value whose offset is known, with `expired`."""
    return expired(
        facts, known.withColumn("offset", F.col("known_offset")).withColumn("sent_ns", F.col("send.invoke_ns"))
    )


def _log_starts(facts: Facts) -> DataFrame:
    """(p, log_start): the highest that any response had."""
    return (
        facts.history.requests.where(F.col("outcome") == "ok")
        .groupBy("p")
        .agg(F.max(response_log_start()).alias("log_start"))
    )


def _repeat(facts: Facts) -> Family:
    """Record by record and round by round: what the wire reader and the real client read from one leader."""
    turn = ("p", "phase", "leader", "isolation")
    read = facts.history.polls.where(F.col("phase").startswith("drain")).withColumn("leader", F.col("node"))
    wire, real = F.col("reader") == "wire", F.col("reader") == "confluent"
    sides = read.groupBy(*turn, "offset").agg(
        F.count_if(wire).alias("by_wire"),
        F.count_if(real).alias("by_real"),
        F.min(F.when(wire, F.col("value"))).alias("wire_value"),
        F.min(F.when(real, F.col("value"))).alias("real_value"),
        F.max(F.when(wire, F.col("op"))).alias("wire_op"),
        F.max(F.when(real, F.col("op"))).alias("real_op"),
        F.min("invoke_ns").alias("from_ns"),
        F.max("complete_ns").alias("to_ns"),
    )
    both = F.col("by_wire").cast("boolean") & F.col("by_real").cast("boolean")
    rounds = (
        facts.history.marks.where(F.col("f") == "drain-complete")
        .groupBy(*turn)
        .agg(
            F.count_if(real).alias("confluent_drains"),
            F.max(F.when(wire, F.col("end"))).alias("wire_end"),
            F.max(F.when(real, F.col("end"))).alias("real_end"),
            F.max("start").alias("later_start"),
        )
    )
    finished = rounds.groupBy("p").agg(F.sum("confluent_drains").alias("confluent_drains"))
    # Where one of the readers never finished there is nothing to compare with; nor is there where one read on, or where
    # the log began later by the time that the other one read it. Whether it may is for `vanished-read` to judge.
    begun = F.lit(True) if facts.expiry is None else F.col("offset") >= F.col("later_start")
    differing = sides.join(F.broadcast(rounds), on=list(turn), how="inner").where(
        (F.col("offset") < F.col("wire_end"))
        & (F.col("offset") < F.col("real_end"))
        & F.coalesce(begun, F.lit(True))
        & (~both | ~F.col("wire_value").eqNullSafe(F.col("real_value")))
    )
    found = apply_rules(
        differing,
        [
            Rule(
                REPEAT,
                F.lit(True),
                text(
                    "{p} offset {o}, from {l} in {f}: the wire reader read value {a} ({na} times), the real client {b} "
                    "({nb} times)",
                    p=F.col("p"),
                    l=F.col("leader"),
                    f=F.col("phase"),
                    o=F.col("offset"),
                    a=F.col("wire_value"),
                    na=F.col("by_wire"),
                    b=F.col("real_value"),
                    nb=F.col("by_real"),
                ),
                offset=F.col("offset"),
                value=F.col("wire_value"),
                ops=[F.col("wire_op"), F.col("real_op")],
                from_ns=F.col("from_ns"),
                to_ns=F.col("to_ns"),
            )
        ],
    )
    per_partition = sides.groupBy("p").agg(F.count_if(both).alias("compared"))
    return Family(
        found,
        union(
            [
                figures(per_partition, {(REPEAT, "records_compared"): F.col("compared")}),
                figures(finished, {(REPEAT, "confluent_drains"): F.col("confluent_drains")}),
            ]
        ),
    )
