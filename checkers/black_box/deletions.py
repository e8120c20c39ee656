"""Deleted records: what clients had deleted by DeleteRecords, and what the cluster showed of it afterwards.

Input grain: one row per delete_records, and one per read with a response. The leader acknowledges with the low
watermark: the lowest log start of all live replicas, once it is at the offset that was named, or above (KIP-107). In
its memory a replica's log start never falls, and a replica writes it down in time (`Facts.start_written_ns`: highwater
within a second, Apache Kafka within log.flush.start.offset.checkpoint.interval.ms). So these hold, whoever leads later,
and in whichever leader epoch:

- *shown*: a read that was begun after an acknowledged deletion shows nothing below its low watermark: no record, no log
  start, no earliest offset, and no poll from there is answered but by a refusal.
- *forgot*: no broker shows an offset below a log start that it gave in a response before the request was sent.
- *back*: in one leader epoch nothing is shown below a log start that a response gave before the request was sent: no
  log start, no record, and no poll from there is answered. What a lookup by time finds there is a wrong lookup.
- *low*, *beyond*, *unsent*: what the acknowledgements themselves say (`deletion_answers`).

A deletion is *settled* for a broker that was surely a live replica when it was acknowledged, and was not killed before
it had surely written its log start down. So none of these was in force from two seconds before the request on, until it
was written down: an interruption of that broker, unless ZooKeeper's log shows that its registration went on
(checkers/evidence/absences.py); and, of what began before the request, one of the leader that was asked, or a cut of
links, after which it may not have heard who lives. An interruption lasts, for this, as long as others follow it within
two seconds each: who elects, and says who lives, may have been among them. That the leader is killed once it has
answered excuses no other broker: that is what the answer promised. Where a broker for which it is not settled leads
before it has fetched, what was deleted is there again: that is allowed, and counted. The real client does not say whom
it asked: for its reads a deletion is settled where it is for every broker. A broker is held to nothing that it knew
before files of it were changed. Losses below an offset that a deletion named that did not certainly fail are allowed
(checkers/allowances/expiry.py). Where an unclean election came, a read is held against the last of what it denies: a
higher deletion, or log start, may be one that the election took back.

Source: Partition.lowWatermarkIfLeader, DelayedDeleteRecords, ReplicaFetcherThread.processPartitionData; KIP-107.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.deletion_answers import DELETED, answer_findings
from checkers.black_box.facts import Facts
from checkers.evidence.interrupted import ANYBODY, changes, joined, settled, takes_away
from checkers.history.faults import Interruption
from checkers.history.responses import answered_in, by_wire, is_poll, looks_up, response_log_start
from checkers.spark.latest import last_of
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union


def deletion_checks(facts: Facts) -> Family:
    spans = joined(facts.interruptions)
    reads = _reads(facts)
    deletions = _deletions(facts, reads, spans)
    acked = deletions.where(F.col("outcome") == "ok")
    after = _after(acked, reads, spans)
    own = facts.history.deletions.where(F.col("outcome") == "ok")
    return Family(
        union(
            [
                _shown(_by_last_deletion(after, acked) if facts.unclean else after),
                _forgot(reads, spans, facts),
                _back(reads),
                answer_findings(facts.history, own),
            ]
        ),
        union([_of_deletions(deletions), _of_reads(after)]),
    )


def _deletions(facts: Facts, reads: DataFrame, spans: Sequence[Interruption]) -> DataFrame:
    """One row per deletion and `by`, who reads of its partition, with `settled`: whether it is for that broker.

    upto: what was deleted lies below; floor: what such a broker may show at least, null where it is not settled;
    files: how often files of that broker had been changed by then.
    """
    readers = reads.groupBy("p").agg(F.array_union(F.array(F.lit(ANYBODY)), F.collect_set("node")).alias("nodes"))
    by = F.col("by")
    return (
        facts.history.deletions.join(F.broadcast(readers), on="p", how="left")
        .withColumn("by", F.explode(F.coalesce("nodes", F.array(F.lit(ANYBODY)))))
        .withColumn("settled", settled(spans, by, facts.start_written_ns))
        .withColumn("upto", F.greatest("before", "low_watermark"))
        .withColumn("files", changes(spans, by, F.col("invoke_ns")))
        .drop("nodes")
    )


def _reads(facts: Facts) -> DataFrame:
    """Reads with a response. low: the least offset that it shows to be there, null where it shows none; served: the
    same without what a lookup by time found; log_start: as it gives it; epoch: of the leader, where known; node: who
    was asked. The real client's position is its own: of it only records count.
    """
    wire = by_wire()
    start = F.when(wire & (response_log_start() >= 0), response_log_start())
    served = F.least(F.when(is_poll(), F.col("first_offset")), F.when(wire & is_poll(), F.col("position")), start)
    return facts.history.requests.where(F.col("outcome") == "ok").select(
        "p",
        "op",
        "invoke_ns",
        "complete_ns",
        F.coalesce(F.when(wire, F.col("node")), F.lit(ANYBODY)).alias("node"),
        F.when(wire, answered_in()).alias("epoch"),
        start.alias("log_start"),
        served.alias("served"),
        F.least(served, F.when(looks_up() & (F.col("end_offset") >= 0), F.col("end_offset"))).alias("low"),
    )


def _after(acked: DataFrame, reads: DataFrame, spans: Sequence[Interruption]) -> DataFrame:
    """Reads that show an offset, with the furthest deletion that had been acknowledged when each was begun: `settled`
    of those that are for who was asked, `any` of all. At equal times the read counts as the earlier one.
    """
    done = acked.select(
        "p",
        F.col("by").alias("node"),
        "files",
        F.col("complete_ns").alias("at_ns"),
        F.lit(1).alias("turn"),
        F.struct("upto", "op", "complete_ns").alias("deletion"),
        F.col("settled").alias("is_settled"),
    )
    begun = reads.where(F.col("low").isNotNull()).select(
        "p",
        "node",
        changes(spans, F.col("node"), F.col("complete_ns")).alias("files"),
        F.col("invoke_ns").alias("at_ns"),
        F.lit(0).alias("turn"),
        F.struct("invoke_ns", "low", "op", "complete_ns", "epoch", "node").alias("read"),
    )
    ordered = Window.orderBy("at_ns", "turn").rowsBetween(Window.unboundedPreceding, 0)
    return (
        done.unionByName(begun, allowMissingColumns=True)
        .transform(one_piece)
        .withColumn(
            "settled",
            F.max(F.when(F.col("is_settled"), F.col("deletion"))).over(ordered.partitionBy("p", "node", "files")),
        )
        .withColumn("any", F.max("deletion").over(ordered.partitionBy("p", "node")))
        .where(F.col("read").isNotNull() & F.col("any").isNotNull())
        .select("p", "node", "files", "read", "settled", "any")
    )


def _by_last_deletion(after: DataFrame, acked: DataFrame) -> DataFrame:
    """after, with `settled` the last that a read denies, where it denies one."""
    broken = F.coalesce(F.col("read.low") < F.col("settled.upto"), F.lit(False))
    done = acked.where("settled").select("p", F.col("by").alias("node"), "files", "upto", "op", "complete_ns")
    denied = (F.col("told.upto") > F.col("row.read.low")) & (F.col("told.complete_ns") < F.col("row.read.invoke_ns"))
    fact = F.struct("complete_ns", "upto", "op")
    last = last_of(["p", "node", "files"], done, after.where(broken).drop("settled"), fact, denied, "last")
    settled = F.struct("last.upto", "last.op", "last.complete_ns")
    return after.where(~broken).unionByName(last.withColumn("settled", settled).drop("last"))


def _shown(after: DataFrame) -> DataFrame:
    """One row per deletion below whose low watermark something was shown afterwards, by the first read that did."""
    broken = F.coalesce(F.col("read.low") < F.col("settled.upto"), F.lit(False))
    found = (
        after.where(F.col("read.low") < F.col("any.upto"))
        .withColumn("deletion", F.when(broken, F.col("settled")).otherwise(F.col("any")))
        .groupBy("p", broken.alias("broken"), "deletion")
        .agg(F.min("read").alias("read"))
    )
    known = (F.col("read.node") != ANYBODY) & F.col("read.epoch").isNotNull()
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
                        b=F.col("deletion.upto"),
                        p=F.col("p"),
                        o=F.col("read.low"),
                    ),
                    F.when(
                        known, text(" ({n}, in leader epoch {e})", n=F.col("read.node"), e=F.col("read.epoch"))
                    ).otherwise(F.lit("")),
                    F.when(F.col("broken"), F.lit("")).otherwise(
                        F.lit(
                            "; around the deletion that broker, or the one that was asked, had stopped or was cut off, "
                            "or files were changed since"
                        )
                    ),
                ),
                kind=F.when(F.col("broken"), F.lit("invalid")).otherwise(F.lit("allowed")),
                name="shown",
                offset=F.col("read.low"),
                ops=[F.col("deletion.op"), F.col("read.op")],
                from_ns=F.col("deletion.complete_ns"),
                to_ns=F.col("read.complete_ns"),
                missed_epoch=F.col("read.epoch"),
            )
        ],
    )


def _forgot(reads: DataFrame, spans: Sequence[Interruption], facts: Facts) -> DataFrame:
    """One row per log start of a broker that it denied later, in whichever leader epoch, though it was not interrupted
    before it had surely written that start down.
    """
    named = reads.where(F.col("node") != ANYBODY)
    interrupted = [
        takes_away(span, F.col("node"))
        & (F.col("invoke_ns") <= span.until_ns)
        & (F.col("complete_ns") + facts.start_written_ns >= span.from_ns)
        for span in spans
    ]
    told = named.where(F.col("log_start").isNotNull() & ~reduce(Column.__or__, interrupted, F.lit(False)))
    high = told.select(
        "p",
        "node",
        changes(spans, F.col("node"), F.col("invoke_ns")).alias("files"),
        F.col("complete_ns").alias("at_ns"),
        F.struct("log_start", "op", "complete_ns", "epoch").alias("told"),
    )
    asked = named.where(F.col("low").isNotNull()).select(
        "p",
        "node",
        changes(spans, F.col("node"), F.col("complete_ns")).alias("files"),
        F.col("invoke_ns").alias("at_ns"),
        F.struct("invoke_ns", "low", "op", "complete_ns", "epoch").alias("later"),
    )
    # In one epoch that is `back`.
    same_epoch = F.coalesce(F.col("later.epoch") == F.col("highest.epoch"), F.lit(False))
    denied = _fallen(high, asked, "p", "node", "files")
    fallen = (
        (_by_last_start(denied, high) if facts.unclean else denied)
        .where(~same_epoch)
        .groupBy("p", "node", "highest")
        .agg(F.min("later").alias("later"))
    )
    return apply_rules(
        fallen,
        [
            Rule(
                DELETED,
                F.lit(True),
                text(
                    "the log of {p} on {n} began at {h}; a later request of {n} was shown {l}, and nothing had "
                    "interrupted {n} before it can have written that down",
                    p=F.col("p"),
                    n=F.col("node"),
                    h=F.col("highest.log_start"),
                    l=F.col("later.low"),
                ),
                name="forgot",
                offset=F.col("later.low"),
                ops=[F.col("highest.op"), F.col("later.op")],
                from_ns=F.col("highest.complete_ns"),
                to_ns=F.col("later.complete_ns"),
                lost_epoch=F.least("highest.epoch", "later.epoch"),
                missed_epoch=F.greatest("highest.epoch", "later.epoch"),
            )
        ],
    )


def _by_last_start(fallen: DataFrame, high: DataFrame) -> DataFrame:
    """fallen, with `highest` the last log start of another epoch that it denies. Rows without one are dropped."""
    other = ~F.coalesce(F.col("told.epoch") == F.col("row.later.epoch"), F.lit(False))
    above = (F.col("told.log_start") > F.col("row.later.low")) & (
        F.col("told.complete_ns") < F.col("row.later.invoke_ns")
    )
    fact = F.struct("told.complete_ns", "told.log_start", "told.op", "told.epoch")
    keys = ["p", "node", "files"]
    return last_of(keys, high, fallen.select(*keys, "later"), fact, other & above, "highest")


def _fallen(high: DataFrame, asked: DataFrame, *within: str) -> DataFrame:
    """Rows of asked whose `later.low` lies below the highest log start that was told before, with that as `highest`.

    high(within, at_ns, told), asked(within, at_ns, later). At equal times the request counts as the earlier one: it was
    not certainly sent after the response.
    """
    earlier = Window.partitionBy(*within).orderBy("at_ns", "turn").rowsBetween(Window.unboundedPreceding, 0)
    return (
        high.withColumn("turn", F.lit(1))
        .unionByName(asked.withColumn("turn", F.lit(0)), allowMissingColumns=True)
        .transform(one_piece)
        .withColumn("highest", F.max("told").over(earlier))
        .where(F.col("later.low") < F.col("highest.log_start"))
    )


def _back(reads: DataFrame) -> DataFrame:
    """One row per log start that a later response of the same leader denied."""
    told = reads.where(F.col("epoch").isNotNull())
    high = told.where(F.col("log_start").isNotNull()).select(
        "p",
        "epoch",
        F.col("complete_ns").alias("at_ns"),
        F.struct("log_start", "op", "complete_ns").alias("told"),
    )
    asked = told.where(F.col("served").isNotNull()).select(
        "p",
        "epoch",
        F.col("invoke_ns").alias("at_ns"),
        F.struct("invoke_ns", F.col("served").alias("low"), "op", "complete_ns").alias("later"),
    )
    fallen = _fallen(high, asked, "p", "epoch").groupBy("p", "epoch", "highest").agg(F.min("later").alias("later"))
    return apply_rules(
        fallen,
        [
            Rule(
                DELETED,
                F.lit(True),
                text(
                    "the log of {p} began at {h} in leader epoch {e}; a later request was shown {l} in the same epoch",
                    p=F.col("p"),
                    h=F.col("highest.log_start"),
                    e=F.col("epoch"),
                    l=F.col("later.low"),
                ),
                name="back",
                offset=F.col("later.low"),
                ops=[F.col("highest.op"), F.col("later.op")],
                from_ns=F.col("highest.complete_ns"),
                to_ns=F.col("later.complete_ns"),
            )
        ],
    )


def _of_deletions(deletions: DataFrame) -> DataFrame:
    """settled: for some broker at least."""
    ok, deletes = F.col("outcome") == "ok", F.col("before") > 0
    each = deletions.groupBy("p", "op", "before", "outcome", "error").agg(F.max("settled").alias("settled"))
    per_partition = each.groupBy("p").agg(
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
    per_partition = after.groupBy("p").agg(F.count_if(F.col("any.upto") > 0).alias("reads"))
    return figures(per_partition, {(DELETED, "reads_after_deletion"): F.col("reads")})
