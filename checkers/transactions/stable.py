"""Last stable offsets: what lies below them is decided, and nothing stays undecided.

Input grain: one row per wire response in a known leader epoch. The last stable offset (LSO) never falls within a leader
epoch, nor does the high watermark, and LSO <= HW. So a response to a request that was sent after another response had
shown that everything below s is decided (an LSO of s, or records of read_committed up to s) has an LSO of s or more in
that epoch, and a HW of s or more. The offsets of one and the same response bound nothing: a broker may read them one
after the other, before it reads records (kafka.cluster.Partition.fetchRecords). Nor does an LSO lie above a record of
a transaction that is committed in the end, while nobody has asked for its commit: who begins to read there, as by
ListOffsets under read_committed, is never shown that record. It has to be known to be in the log before the request is
sent; what read_committed passes over too early is for the rules of polls.

A hanging transaction is one that nothing ends: all producers were gone, every transactional id had been taken once more
and its transaction aborted, and yet a partition's LSO stayed below its HW for as long as the run waited. Where an id
that was to write to the partition could not be taken, its transaction may just be waiting for that: unknown. So it is
with the offsets of a group: requests for them were refused as undecided (KIP-447) to the end, for PATIENCE_NS at least.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.allowances.allowances import OPEN, UNDECIDED
from checkers.black_box.facts import Facts
from checkers.evidence.unclean_elections import epoch_interval
from checkers.history.responses import (
    by_wire,
    is_poll,
    requests_latest,
    response_epoch,
    response_watermark,
    shown_stable_end,
    stable_end,
)
from checkers.history.transactions import COMMITTED, transactions_table
from checkers.spark.tables import one_piece
from checkers.transactions.names import FINAL, HANGING, STABLE
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
PATIENCE_NS = 10_000_000_000
"""How long the markers of a transaction that is over may take to reach a group's coordinator in a healed cluster."""


def stable_checks(facts: Facts) -> Family:
    responses = _responses(facts)
    per_partition = responses.groupBy("p").agg(
        F.count("stable").alias("stable"), F.count_if(F.col("stable") < F.col("hw")).alias("behind")
    )
    ended = _marks(facts, "transactions-ended").groupBy("p").agg(F.count(F.lit(1)).alias("ended"))
    return Family(
        union([_fallen(responses), _above_open(facts, responses), _hanging(facts), _undecided(facts)]),
        union(
            [
                figures(
                    per_partition, {(STABLE, "answers_with_lso"): F.col("stable"), (STABLE, "behind"): F.col("behind")}
                ),
                figures(ended, {(HANGING, "ended"): F.col("ended")}),
            ]
        ),
    )


def _responses(facts: Facts) -> DataFrame:
    """shown: everything below is shown to be decided. stable, hw: of the response."""
    wire = by_wire()
    all_of_it = requests_latest() & (F.col("isolation") == 0)
    return (
        facts.history.requests.where(wire & (F.col("outcome") == "ok") & (is_poll() | requests_latest()))
        .select(
            "p",
            "op",
            response_epoch().alias("epoch"),
            "invoke_ns",
            "complete_ns",
            shown_stable_end().alias("shown"),
            stable_end().alias("stable"),
            F.when(all_of_it, F.col("end_offset")).otherwise(response_watermark()).alias("hw"),
        )
        .where(F.col("epoch") >= 0)
    )


def _fallen(responses: DataFrame) -> DataFrame:
    shown = responses.where(F.col("shown").isNotNull()).select(
        "p",
        "epoch",
        F.col("complete_ns").alias("at_ns"),
        F.lit(1).alias("turn"),
        F.struct(F.col("shown").alias("end"), "op", "complete_ns").alias("decided"),
    )
    bounds = responses.where(F.col("stable").isNotNull() | F.col("hw").isNotNull()).select(
        "p",
        "epoch",
        F.col("invoke_ns").alias("at_ns"),
        F.lit(0).alias("turn"),
        F.struct(F.least("stable", "hw").alias("bound"), "stable", "hw", "op", "complete_ns").alias("later"),
    )
    # At equal times the request counts as the earlier one: it was not certainly sent after the response.
    before = Window.partitionBy("p", "epoch").orderBy("at_ns", "turn").rowsBetween(Window.unboundedPreceding, 0)
    broken = (
        shown.unionByName(bounds, allowMissingColumns=True)
        .transform(one_piece)
        .withColumn("highest", F.max("decided").over(before))
        .where(F.col("later").isNotNull() & (F.col("later.bound") < F.col("highest.end")))
        .groupBy("p", "epoch", "highest")
        .agg(F.min("later").alias("later"))
    )
    return apply_rules(
        broken,
        [
            Rule(
                STABLE,
                F.lit(True),
                text(
                    "{p} showed everything below {s} as decided in leader epoch {e}; a later request was given a last "
                    "stable offset of {l}, high watermark {h}",
                    p=F.col("p"),
                    s=F.col("highest.end"),
                    e=F.col("epoch"),
                    l=F.col("later.stable"),
                    h=F.col("later.hw"),
                ),
                offset=F.col("highest.end") - 1,
                ops=[F.col("highest.op"), F.col("later.op")],
                from_ns=F.col("highest.complete_ns"),
                to_ns=F.col("later.complete_ns"),
            )
        ],
    )


def _written(facts: Facts) -> DataFrame:
    """(p, txn, offset, value, sent_op, since_ns, written_in, commit_op, commit_invoked_ns): records of committed
    transactions that certainly were in the log, and since when.
    """
    acked_by_all = F.col("acked") & (F.col("send.acks") == -1)
    commits = transactions_table(facts.history).select("txn", "commit_op", "commit_invoked_ns")
    return (
        facts.by_value.where((F.col("fate") == COMMITTED) & (acked_by_all | (F.col("n_reads") > 0)))
        .select(
            "p",
            "txn",
            F.col("known_offset").alias("offset"),
            "value",
            F.col("send.op").alias("sent_op"),
            F.when(acked_by_all, F.col("send.complete_ns")).otherwise(F.col("first_read_ns")).alias("since_ns"),
            F.col("epoch").alias("written_in"),
        )
        .join(commits, on="txn", how="inner")
    )


def _above_open(facts: Facts, responses: DataFrame) -> DataFrame:
    """One row per partition and transaction above a record of which a last stable offset lay before its commit was
    asked for.

    Only responses are compared one by one below whose offset any record at all stands whose commit was asked for later:
    there are none as long as no offset is given twice.
    """
    told = responses.where(F.col("stable").isNotNull()).select(
        "p", F.col("op").alias("told_op"), F.col("epoch").alias("told_in"), "stable", "invoke_ns", "complete_ns"
    )
    written = _written(facts)
    points = told.select("p", F.col("stable").alias("at"), F.lit(0).alias("turn"), "told_op", "complete_ns")
    records = written.select("p", F.col("offset").alias("at"), F.lit(1).alias("turn"), "commit_invoked_ns")
    # A response stands before the record at its own offset.
    below = Window.partitionBy("p").orderBy("at", "turn").rowsBetween(Window.unboundedPreceding, 0)
    suspect = (
        points.unionByName(records, allowMissingColumns=True)
        .transform(one_piece)
        .withColumn("latest", F.max("commit_invoked_ns").over(below))
        .where(F.col("told_op").isNotNull() & (F.col("latest") > F.col("complete_ns")))
        .select("told_op")
    )
    open_then = (
        (F.col("offset") < F.col("stable"))
        & (F.col("since_ns") < F.col("invoke_ns"))
        & (F.col("commit_invoked_ns") > F.col("complete_ns"))
    )
    together = epoch_interval(facts.unclean, F.col("written_in")) == epoch_interval(facts.unclean, F.col("told_in"))
    # What no unclean election parts comes first: nothing excuses it.
    first = F.struct(
        (~F.coalesce(together, F.lit(False))).alias("parted"),
        *("complete_ns", "told_op", "stable", "told_in", "offset", "value", "sent_op", "since_ns", "written_in"),
    )
    found = (
        told.join(suspect, on="told_op", how="left_semi")
        .join(written, on="p", how="inner")
        .where(open_then)
        .groupBy("p", "txn", "commit_op")
        .agg(F.min(first).alias("first"))
    )
    return apply_rules(
        found,
        [
            Rule(
                STABLE,
                F.lit(True),
                text(
                    "{p} was told to be decided below {s} before anybody asked to commit transaction {t}, whose value "
                    "{v} stands at offset {o}",
                    p=F.col("p"),
                    s=F.col("first.stable"),
                    t=F.col("txn"),
                    v=F.col("first.value"),
                    o=F.col("first.offset"),
                ),
                name=OPEN,
                offset=F.col("first.offset"),
                value=F.col("first.value"),
                ops=[F.col("first.sent_op"), F.col("first.told_op"), F.col("commit_op")],
                from_ns=F.col("first.since_ns"),
                to_ns=F.col("first.complete_ns"),
                lost_epoch=F.col("first.written_in"),
                missed_epoch=F.col("first.told_in"),
            )
        ],
    )


def _marks(facts: Facts, f: str) -> DataFrame:
    return facts.history.marks.where(F.col("f") == f)


def _hanging(facts: Facts) -> DataFrame:
    known = F.col("start").isNotNull() & F.col("end").isNotNull()
    taken = F.col("not_taken").isNull()
    where = text(
        "the transaction at {p} offset {s}: the log goes on to {e}", p=F.col("p"), s=F.col("start"), e=F.col("end")
    )
    return apply_rules(
        _marks(facts, "transactions-open").join(_not_taken(facts), on="p", how="left"),
        [
            Rule(
                HANGING,
                F.lit(True),
                F.when(known & taken, F.concat(F.lit("nothing ends "), where))
                .when(
                    known,
                    F.concat(
                        F.lit("nothing ended "), where, text("; {i} was not taken once more", i=F.col("not_taken"))
                    ),
                )
                .otherwise(text("whether transactions of {p} were ended is not known", p=F.col("p"))),
                kind=F.when(known & taken, F.lit("invalid")).otherwise(F.lit("unknown")),
                offset=F.col("start"),
                ops=[F.col("index")],
                from_ns=F.col("time_ns"),
                to_ns=F.col("time_ns"),
            )
        ],
    )


def _not_taken(facts: Facts) -> DataFrame:
    """(p, not_taken): a transactional id that was to write there, and that nobody took once the load was over."""
    asked = facts.history.coordination.where(F.col("asked.transactional_id").isNotNull()).withColumn(
        "id", F.col("asked.transactional_id")
    )
    taken = asked.where((F.col("f") == "init_producer") & (F.col("outcome") == "ok") & (F.col("phase") == FINAL))
    added = asked.where(F.col("f") == "add_partitions").select(F.explode("asked.partitions").alias("p"), "id")
    sent = facts.history.sends.where(F.col("transactional_id").isNotNull()).select(
        "p", F.col("transactional_id").alias("id")
    )
    return (
        added.unionByName(sent)
        .transform(one_piece)
        .join(taken.select("id").distinct(), on="id", how="left_anti")
        .groupBy("p")
        .agg(F.min("id").alias("not_taken"))
    )


def _undecided(facts: Facts) -> DataFrame:
    """Groups whose offsets nobody was told once every id had been taken, because a transaction may change them."""
    asked = facts.history.coordination.withColumn("group", F.col("asked.group"))
    final = asked.where((F.col("f") == "fetch_offsets") & (F.col("phase") == FINAL))
    taken = facts.history.coordination.where(
        (F.col("f") == "init_producer") & (F.col("outcome") == "ok") & (F.col("phase") == FINAL)
    ).select(F.col("asked.transactional_id").alias("id"))
    not_taken = (
        asked.where(F.col("f").isin("add_offsets", "txn_offsets"))
        .select("group", F.col("asked.transactional_id").alias("id"))
        .join(taken.distinct(), on="id", how="left_anti")
        .groupBy("group")
        .agg(F.min("id").alias("not_taken"))
    )
    refused = (
        final.where(F.col("error") == UNSTABLE)
        .join(final.where(F.col("outcome") == "ok").select("group"), on="group", how="left_anti")
        .groupBy("group")
        .agg(
            F.min("invoke_ns").alias("from_ns"),
            F.max("complete_ns").alias("to_ns"),
            F.max("op").alias("op"),
            F.min(F.get("asked.partitions", F.lit(0))).alias("p"),
        )
        .join(not_taken, on="group", how="left")
    )
    long = F.col("to_ns") - F.col("from_ns") >= PATIENCE_NS
    return apply_rules(
        refused,
        [
            Rule(
                HANGING,
                F.lit(True),
                text(
                    "offsets of group {g} were refused as undecided for {s} s, though no transaction was under way",
                    g=F.col("group"),
                    s=F.round((F.col("to_ns") - F.col("from_ns")) / 1e9, 1),
                ),
                kind=F.when(long & F.col("not_taken").isNull(), F.lit("invalid")).otherwise(F.lit("unknown")),
                name=UNDECIDED,
                ops=[F.col("op")],
                from_ns=F.col("from_ns"),
                to_ns=F.col("to_ns"),
            )
        ],
    )
