"""last-value, old-value: what a reading of a whole partition returns of each key.

Input grain: one row per (reading, key). A *reading* is one consumer's of a drain that came to its end: from the log's
start to behind an acknowledged sentinel, without a jump, from one leader in one epoch. *Newest* is the record of the
key with the highest offset that had certainly been in the log (acknowledged, or read) before the reading began.
Compaction removes a record only where a newer one of its key is in the log; and a tombstone, after
`delete.retention.ms`, once nothing older is left (Kafka's LogCleaner). So a reading returns of each key nothing (newest
is a tombstone), or newest, or something newer. Of records that an unclean election may have taken none counts as newest
beside one that it has not.

Old value: all that was returned of the key is older than newest; of a tombstone that is unknown where the reading took
longer than a cleaner leaves tombstones: both may have gone once it had read the older record. Last value: nothing was
returned of it, though newest is no tombstone. A tombstone above newest that was sent by then, and that nobody knew to
be in the log before the reading began, may have been written, and cleaned away of that replica, though another one
shows it later: where there is one of that key, nothing is known of the last value, and newest may be gone as a
tombstone is.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.black_box.drain import read_by, sentinel_end
from checkers.black_box.facts import Facts
from checkers.evidence.unclean_elections import to_come
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

LAST, OLD = "last-value", "old-value"
_READING = ("p", "consumer")
_ANYWHERE = 2**62


def key_checks(facts: Facts, tombstones_ns: int) -> Family:
    """tombstones_ns: how long a cleaner leaves a tombstone, at least, once it has removed what that deleted."""
    history = facts.history
    readings = _readings(facts)
    keyed = history.sends.where(F.col("key").isNotNull()).select("p", "value", "key", "tombstone")
    placed = facts.by_value.join(keyed, on=["p", "value"], how="inner").select(
        "p",
        "value",
        "key",
        "tombstone",
        F.col("known_offset").alias("offset"),
        "effective_ns",
        "epoch",
        F.col("send.op").alias("op"),
        F.col("send.outcome").alias("outcome"),
        F.col("send.invoke_ns").alias("sent_ns"),
    )
    there = (
        placed.where(F.col("offset").isNotNull())
        .join(F.broadcast(readings), on="p", how="inner")
        .where((F.col("effective_ns") < F.col("began_ns")) & (F.col("offset") < F.col("end")))
    )
    returned = history.polls.join(F.broadcast(readings.select(*_READING)), on=list(_READING), how="left_semi").select(
        *_READING, "value", "offset", F.col("op").alias("poll_op")
    )
    survives = -to_come(facts.unclean, F.col("epoch"))
    record = F.struct(survives.alias("survives"), "offset", "value", "tombstone", "op", "effective_ns", "epoch")
    newest = there.groupBy(*_READING, "key", "leader", "reading_op", "began_ns", "ended_ns").agg(
        F.max(record).alias("newest")
    )
    kept = (
        returned.join(keyed, on=["p", "value"], how="inner")
        .groupBy(*_READING, "key")
        .agg(F.max(F.struct("offset", "value", "poll_op")).alias("kept"))
    )
    # Those that were certainly there before are among the newest; one without an offset may stand anywhere.
    doubtful = (
        placed.where(F.col("tombstone") & (F.col("outcome") != "fail"))
        .join(F.broadcast(readings), on="p", how="inner")
        .where(
            ~F.coalesce(F.col("effective_ns") < F.col("began_ns"), F.lit(False))
            & (F.col("sent_ns") < F.col("ended_ns"))
        )
        .groupBy(*_READING, "key")
        .agg(F.max(F.coalesce("offset", F.lit(_ANYWHERE))).alias("doubted_to"))
    )
    by_key = [*_READING, "key"]
    judged = newest.join(kept, on=by_key, how="left").join(doubtful, on=by_key, how="left")
    cleaned = (
        there.join(returned.select(*_READING, "value"), on=[*_READING, "value"], how="left_anti")
        .groupBy("p")
        .agg(F.count(F.lit(1)).alias("cleaned"))
    )
    deleted = F.col("kept").isNull() & F.col("newest.tombstone")
    per_partition = judged.groupBy("p").agg(
        F.count(F.lit(1)).alias("keys"), F.count_if(deleted).alias("tombstones_gone")
    )
    named = [
        figures(per_partition, {(name, "keys_judged"): F.col("keys") for name in (LAST, OLD)}),
        figures(per_partition, {(LAST, "tombstones_gone"): F.col("tombstones_gone")}),
        figures(cleaned, {(name, "cleaned"): F.col("cleaned") for name in (LAST, OLD)}),
        read_by(readings, LAST),
    ]
    return Family(_findings(judged, tombstones_ns), union(named))


def _readings(facts: Facts) -> DataFrame:
    """(p, consumer, reader, phase, leader, reading_op, end, began_ns, ended_ns): consumers of drains that read a
    partition whole.
    """
    history = facts.history
    marks = (
        history.marks.where(F.col("f") == "drain-complete")
        .select("p", "reader", "leader", "phase", "start", "end")
        .distinct()
    )
    sentinels = facts.acked.where(F.col("send.sentinel")).groupBy("p").agg(sentinel_end())
    spans = (
        history.requests.where((F.col("f") == "poll") & (F.col("outcome") == "ok"))
        .groupBy("p", "consumer", "reader", "phase", F.col("node").alias("leader"))
        .agg(
            F.min("position").alias("first"),
            F.max("next_position").alias("reached"),
            F.min("invoke_ns").alias("began_ns"),
            F.max("complete_ns").alias("ended_ns"),
            F.max("op").alias("reading_op"),
            F.sum(F.greatest(F.col("next_position") - F.col("position"), F.lit(0))).alias("passed"),
            F.count_distinct("leader_epoch").alias("leaderships"),
        )
        .where((F.col("passed") >= F.col("reached") - F.col("first")) & (F.col("leaderships") == 1))
    )
    return (
        spans.join(F.broadcast(marks), on=["p", "reader", "leader", "phase"], how="inner")
        .join(F.broadcast(sentinels), on="p", how="inner")
        .where(
            (F.col("first") <= F.col("start"))
            & (F.col("reached") >= F.col("end"))
            & (F.col("end") >= F.col("sentinel_end"))
        )
        .select("p", "consumer", "reader", "phase", "leader", "reading_op", "end", "began_ns", "ended_ns")
    )


def _findings(judged: DataFrame, tombstones_ns: int) -> DataFrame:
    lost = F.col("kept").isNull() & ~F.col("newest.tombstone")
    maybe_deleted = F.coalesce(F.col("doubted_to") > F.col("newest.offset"), F.lit(False))
    doubt = F.when(maybe_deleted, F.lit("; an unacknowledged tombstone may have been written")).otherwise(F.lit(""))
    may_go = F.col("newest.tombstone") | maybe_deleted
    slow = may_go & (F.col("ended_ns") - F.col("began_ns") > tombstones_ns)
    what = text(
        "key {k} of {p}: value {v} at offset {o}",
        k=F.col("key"),
        p=F.col("p"),
        v=F.col("newest.value"),
        o=F.col("newest.offset"),
    )
    return apply_rules(
        judged,
        [
            Rule(
                LAST,
                lost,
                F.concat(
                    what,
                    text(" was the last one, and a reading of {l} returned nothing of the key", l=F.col("leader")),
                    doubt,
                ),
                kind=F.when(maybe_deleted, F.lit("unknown")).otherwise(F.lit("invalid")),
                offset=F.col("newest.offset"),
                value=F.col("newest.value"),
                ops=[F.col("newest.op"), F.col("reading_op")],
                from_ns=F.col("newest.effective_ns"),
                to_ns=F.col("ended_ns"),
                lost_epoch=F.col("newest.epoch"),
            ),
            Rule(
                OLD,
                F.col("kept.offset") < F.col("newest.offset"),
                F.concat(
                    what,
                    F.when(F.col("newest.tombstone"), F.lit(", a tombstone,")).otherwise(F.lit("")),
                    text(
                        " had been in the log, and a reading of {l} returned the older value {w} at {q} as its last",
                        l=F.col("leader"),
                        w=F.col("kept.value"),
                        q=F.col("kept.offset"),
                    ),
                    F.when(slow, F.lit("; it took longer than delete.retention.ms")).otherwise(F.lit("")),
                ),
                kind=F.when(slow, F.lit("unknown")).otherwise(F.lit("invalid")),
                offset=F.col("kept.offset"),
                value=F.col("kept.value"),
                ops=[F.col("newest.op"), F.col("kept.poll_op")],
                from_ns=F.col("newest.effective_ns"),
                to_ns=F.col("ended_ns"),
                lost_epoch=F.col("newest.epoch"),
            ),
        ],
    )
