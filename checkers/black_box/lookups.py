"""Wrong lookup: ListOffsets with a time, held against the timestamps of the records that the clients sent.

Input grain: one row per lookup with a response, and one per record whose place and timestamp are known. A lookup asks
for the first record that is as new as a time, among those that are committed and not deleted; the response names its
offset and its timestamp, or none. A row proves one of these:

- *early*: the timestamp of the response is older than what was asked for.
- *other*: the record at that offset has another timestamp.
- *passed-over*: a record below that offset, or any where none was found, is as new. It certainly was committed when the
  lookup was sent: acknowledged with acks=all, or read; it had been written in a leader epoch up to that of the request,
  whose leader therefore has it, and until its watermark has reached the start of its epoch says that it has no answer
  (KIP-207); and nothing can have deleted it by when the response came.
- *below*: the offset lies below a log start that a response of that leader epoch gave before the lookup was sent.

That an offset lies beyond the watermark is for others to say: a lookup shows that the log reaches behind its offset
(checkers/history/responses.py). Records are stamped by their clients, whose clock no fault moves; where brokers stamp
them, or clean them away, none of this holds (checkers/coverage/compacted.py). Lookups under read_committed are not held
against what they may have passed over: where a transaction is open they rightly stop before it.

Source: ReplicaManager.fetchOffset, Partition.fetchOffsetForTimestamp, UnifiedLog.fetchOffsetByTimestamp.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.allowances.expiry import with_expired
from checkers.black_box.facts import Facts
from checkers.evidence.unclean_elections import epoch_interval
from checkers.history.responses import answered_in, by_wire, known_epoch, looks_up, response_log_start
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

LOOKUP = "wrong-lookup"


def lookup_checks(facts: Facts) -> Family:
    lookups = facts.history.requests.where(looks_up() & (F.col("outcome") == "ok")).select(
        "p",
        "op",
        "invoke_ns",
        "complete_ns",
        "isolation",
        known_epoch(F.col("leader_epoch")).alias("epoch"),
        F.col("timestamp").alias("wanted"),
        F.col("end_offset").alias("found"),
        "timestamp_answered",
    )
    records = _records(facts)
    stamps = records.groupBy("p", F.col("offset").alias("found")).agg(
        F.collect_set("stamp").alias("stamps"),
        F.min(F.struct("value", "send_op", "since_ns", "epoch")).alias("record"),
    )
    answered = lookups.join(stamps.withColumnRenamed("record", "there"), on=["p", "found"], how="left")
    return Family(
        union([_of_the_answer(answered), _passed_over(facts, lookups, records), _below(facts, lookups)]),
        figures(
            answered.groupBy("p").agg(
                F.count_if(F.col("stamps").isNotNull()).alias("judged"),
                F.count_if(F.col("found") < 0).alias("none"),
                F.count(F.lit(1)).alias("lookups"),
            ),
            {
                (LOOKUP, "lookups_judged"): F.col("judged"),
                (LOOKUP, "lookups"): F.col("lookups"),
                (LOOKUP, "lookups_without_record"): F.nullif("none", F.lit(0)),
            },
        ),
    )


def _records(facts: Facts) -> DataFrame:
    """(p, offset, value, stamp, send_op, sent_ns, since_ns, epoch) of records that certainly were committed, at the one
    place where they are known to be. since_ns: when that was known; epoch: in which they were written, null: not known.
    """
    stamps = (
        facts.history.sends.where(F.col("stamp").isNotNull()).groupBy("p", "value").agg(F.min("stamp").alias("stamp"))
    )
    acked_by_all = F.col("acked") & (F.col("send.acks") == -1)
    committed_ns = F.least(F.when(acked_by_all, F.col("send.complete_ns")), F.col("first_read_ns"))
    one_place = F.coalesce(F.col("min_read_offset") == F.col("max_read_offset"), F.lit(True)) & F.coalesce(
        F.col("min_read_offset") == F.col("ack_offset"), F.lit(True)
    )
    return (
        facts.by_value.where((acked_by_all | (F.col("n_reads") > 0)) & one_place)
        .join(stamps, on=["p", "value"], how="inner")
        .select(
            "p",
            F.col("known_offset").alias("offset"),
            "value",
            "stamp",
            F.col("send.op").alias("send_op"),
            F.col("send.invoke_ns").alias("sent_ns"),
            committed_ns.alias("since_ns"),
            "epoch",
        )
    )


def _of_the_answer(answered: DataFrame) -> DataFrame:
    """What an answer says of the record that it names."""
    found = F.col("found") >= 0
    asked = text(
        "a lookup in {p} for time {w} was answered with offset {o}, time {t}",
        p=F.col("p"),
        w=F.col("wanted"),
        o=F.col("found"),
        t=F.col("timestamp_answered"),
    )
    early = Rule(
        LOOKUP,
        found & (F.col("timestamp_answered") < F.col("wanted")),
        F.concat(asked, F.lit(", which is older")),
        name="early",
        offset=F.col("found"),
        ops=[F.col("op")],
        from_ns=F.col("invoke_ns"),
        to_ns=F.col("complete_ns"),
    )
    other = Rule(
        LOOKUP,
        found & F.col("stamps").isNotNull() & ~F.array_contains("stamps", F.col("timestamp_answered")),
        F.concat(
            asked,
            text(
                "; value {v} is there, of time {s}",
                v=F.col("there.value"),
                s=F.array_join(F.col("stamps").cast("array<string>"), " or "),
            ),
        ),
        name="other",
        offset=F.col("found"),
        value=F.col("there.value"),
        ops=[F.col("there.send_op"), F.col("op")],
        from_ns=F.least("there.since_ns", "invoke_ns"),
        to_ns=F.greatest("there.since_ns", "complete_ns"),
        lost_epoch=F.least("there.epoch", "epoch"),
        missed_epoch=F.greatest("there.epoch", "epoch"),
    )
    return apply_rules(answered, [early, other])


def _passed_over(facts: Facts, lookups: DataFrame, records: DataFrame) -> DataFrame:
    """One row per lookup that passed over a record as new, with the first such record.

    Only lookups below whose answer any record at all is as new are compared one by one: in a log whose times rise with
    its offsets there are few.
    """
    end = F.when(F.col("found") < 0, F.lit(2**62)).otherwise(F.col("found"))
    judged = lookups.where((F.col("isolation") == 0) & F.col("epoch").isNotNull()).withColumn("until", end)
    newest = (
        judged.select(
            "p",
            F.col("until").alias("at"),
            F.lit(0).alias("turn"),
            F.lit(None).cast("bigint").alias("stamp"),
            "op",
            "wanted",
        )
        .unionByName(
            records.select("p", F.col("offset").alias("at"), F.lit(1).alias("turn"), "stamp"), allowMissingColumns=True
        )
        .transform(one_piece)
        # A lookup stands before the record at its own offset.
        .withColumn(
            "newest",
            F.max("stamp").over(
                Window.partitionBy("p").orderBy("at", "turn").rowsBetween(Window.unboundedPreceding, 0)
            ),
        )
        .where(F.col("op").isNotNull() & (F.col("newest") >= F.col("wanted")))
        .select("op")
    )
    over = (
        judged.join(newest, on="op", how="left_semi")
        .alias("l")
        .join(
            records.alias("r"),
            on=(F.col("l.p") == F.col("r.p"))
            & (F.col("r.offset") < F.col("l.until"))
            & (F.col("r.stamp") >= F.col("l.wanted"))
            & (F.col("r.since_ns") < F.col("l.invoke_ns"))
            & (F.col("r.epoch") <= F.col("l.epoch")),
            how="inner",
        )
        .select(
            "l.p",
            "l.op",
            "l.found",
            "l.wanted",
            "l.invoke_ns",
            "l.complete_ns",
            F.col("l.epoch").alias("asked_in"),
            "r.offset",
            "r.value",
            "r.stamp",
            "r.send_op",
            "r.sent_ns",
            "r.since_ns",
            F.col("r.epoch").alias("written_in"),
            F.col("l.complete_ns").alias("gone_ns"),
        )
    )
    left = with_expired(facts.expiry, over, facts.history, reused=bool(facts.unclean)).where(~F.col("expired"))
    return apply_rules(
        _first(facts, left),
        [
            Rule(
                LOOKUP,
                F.lit(True),
                text(
                    "a lookup in {p} for time {w} was answered with offset {f}; value {v} at offset {o}, of time {s}, "
                    "had been committed before it was sent",
                    p=F.col("p"),
                    w=F.col("wanted"),
                    f=F.col("found"),
                    v=F.col("first.value"),
                    o=F.col("first.offset"),
                    s=F.col("first.stamp"),
                ),
                name="passed-over",
                offset=F.col("first.offset"),
                value=F.col("first.value"),
                ops=[F.col("first.send_op"), F.col("op")],
                from_ns=F.col("first.since_ns"),
                to_ns=F.col("complete_ns"),
                lost_epoch=F.col("first.written_in"),
                missed_epoch=F.col("asked_in"),
            )
        ],
    )


def _first(facts: Facts, left: DataFrame) -> DataFrame:
    """The first record of each lookup; before all others those that no unclean election parts from it, which nothing
    excuses.
    """
    written, asked = (epoch_interval(facts.unclean, F.col(name)) for name in ("written_in", "asked_in"))
    return (
        left.withColumn("parted", written != asked)
        .groupBy("p", "op", "found", "wanted", "invoke_ns", "complete_ns", "asked_in")
        .agg(F.min(F.struct("parted", "offset", "value", "stamp", "send_op", "since_ns", "written_in")).alias("first"))
    )


def _below(facts: Facts, lookups: DataFrame) -> DataFrame:
    """One row per answer below a log start that its leader had given before."""
    told = facts.history.requests.where((F.col("outcome") == "ok") & by_wire() & (response_log_start() > 0)).select(
        "p",
        answered_in().alias("epoch"),
        F.col("complete_ns").alias("at_ns"),
        F.lit(1).alias("turn"),
        F.struct(response_log_start().alias("log_start"), "op", "complete_ns").alias("told"),
    )
    asked = lookups.where(F.col("found") >= 0).select(
        "p",
        "epoch",
        F.col("invoke_ns").alias("at_ns"),
        F.lit(0).alias("turn"),
        F.struct("op", "found", "complete_ns").alias("lookup"),
    )
    # At equal times the lookup counts as the earlier one.
    earlier = Window.partitionBy("p", "epoch").orderBy("at_ns", "turn").rowsBetween(Window.unboundedPreceding, 0)
    below = (
        told.unionByName(asked, allowMissingColumns=True)
        .transform(one_piece)
        .where(F.col("epoch").isNotNull())
        .withColumn("highest", F.max("told").over(earlier))
        .where(F.col("lookup.found") < F.col("highest.log_start"))
    )
    return apply_rules(
        below,
        [
            Rule(
                LOOKUP,
                F.lit(True),
                text(
                    "a lookup in {p} was answered with offset {o}; the log began at {h} in that leader epoch, {e}",
                    p=F.col("p"),
                    o=F.col("lookup.found"),
                    h=F.col("highest.log_start"),
                    e=F.col("epoch"),
                ),
                name="below",
                offset=F.col("lookup.found"),
                ops=[F.col("highest.op"), F.col("lookup.op")],
                from_ns=F.col("highest.complete_ns"),
                to_ns=F.col("lookup.complete_ns"),
            )
        ],
    )
