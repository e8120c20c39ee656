"""Rules 12 and 13: what producers wrote, by the batches of every replica's files.

Input grain: one row per batch of one replica that carries a producer id, in log order. Rule 12: the sequences of a
producer epoch go on from batch to batch, an epoch begins with 0, and epochs never fall. Rule 13: a producer has one
transaction open at a time; a marker ends just the one that was open, and nothing of a lower epoch comes after it. A
marker where none is open is legal: a coordinator writes it again until it is answered, and to partitions that got no
batch; such are counted. All markers that end one transaction, on every partition and replica, commit or abort it alike,
as its producer was answered. Which transaction a batch is of says the history.

Every partition is judged, those of the coordinators' topics too: only the sequences there mean nothing (offsets that a
transaction commits have 0 throughout, as Kafka's GroupMetadataManager writes them).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence
from checkers.history.load import History
from checkers.history.schema import OFFSETS_TOPIC
from checkers.history.transactions import ABORTED, COMMITTED, transactions_table
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

SEQUENCE = "producer-sequence"
OPEN = "open-transaction"

_WRAP = 2**31
"""Sequences go on with 0 after 2^31 - 1."""


def producer_rules(evidence: Evidence) -> Family:
    """Both rules, on replicas whose files no fault damaged."""
    readable = evidence.batches.where(F.col("problem").isNull())
    mine = readable.where(F.col("producer_id") >= 0)
    sound = evidence.sound()
    starts = (
        evidence.batches.where(F.col("problem").isNull()).groupBy("node", "p").agg(F.min("base").alias("log_start"))
    )
    judged = mine.where(sound)
    marked = _with_markers(judged, _transactions(evidence))
    counted = marked.groupBy("p").agg(
        F.count_if(F.col("control")).alias("markers"),
        F.count_if(F.col("control") & F.col("open").isNull()).alias("repeated"),
        F.count_if(~F.col("control") & F.coalesce("transactional", F.lit(False))).alias("transactional"),
    )
    sequenced = mine.groupBy("p").agg(F.count_if(~F.col("control") & (F.col("base_sequence") >= 0)).alias("batches"))
    return Family(
        union([_sequences(judged, starts), _markers(marked), _parted(marked, evidence.history)]),
        union(
            [
                figures(sequenced, {(SEQUENCE, "batches"): F.col("batches")}),
                figures(
                    counted,
                    {
                        (OPEN, "markers"): F.col("markers"),
                        (OPEN, "markers_of_nothing_open"): F.col("repeated"),
                        (OPEN, "transactional_batches"): F.col("transactional"),
                    },
                ),
            ]
        ),
    )


def _transactions(evidence: Evidence) -> DataFrame:
    """(p, first_value, txn): of which transaction the batch is that begins with that value."""
    sends = evidence.history.sends.where(F.col("txn").isNotNull())
    return sends.groupBy("p", F.col("value").alias("first_value")).agg(F.min("txn").alias("txn"))


def _who() -> Column:
    return text(
        "{n}, {p}: producer {i} epoch {e}",
        n=F.col("node"),
        p=F.col("p"),
        i=F.col("producer_id"),
        e=F.col("producer_epoch"),
    )


def _sequences(batches: DataFrame, starts: DataFrame) -> DataFrame:
    along = Window.partitionBy("node", "p", "producer_id").orderBy("file", "file_position")
    stepped = (
        batches.where(~F.col("control") & (F.col("base_sequence") >= 0) & ~F.col("p").startswith(f"{OFFSETS_TOPIC}-"))
        .withColumn("before", F.lag(F.struct("producer_epoch", "base_sequence", "records", "base")).over(along))
        .join(F.broadcast(starts), on=["node", "p"], how="left")
    )
    same = F.col("producer_epoch") == F.col("before.producer_epoch")
    expected = (F.col("before.base_sequence").cast("bigint") + F.col("before.records")) % F.lit(_WRAP)
    goes_on = Rule(
        SEQUENCE,
        same & (F.col("base_sequence") != expected),
        F.concat(
            _who(),
            text(
                " goes on at offset {o} with sequence {s} after {n} records from sequence {f} on at offset {b}",
                o=F.col("base"),
                s=F.col("base_sequence"),
                n=F.col("before.records"),
                f=F.col("before.base_sequence"),
                b=F.col("before.base"),
            ),
        ),
        offset=F.col("base"),
    )
    # Where the log has lost its head, what its first batch follows is not known.
    first = F.col("before").isNull() & (F.col("log_start") == 0)
    begins = Rule(
        SEQUENCE,
        (first | (F.col("producer_epoch") > F.col("before.producer_epoch"))) & (F.col("base_sequence") != 0),
        F.concat(_who(), text(" begins at offset {o} with sequence {s}", o=F.col("base"), s=F.col("base_sequence"))),
        offset=F.col("base"),
    )
    falls = Rule(
        SEQUENCE,
        F.col("producer_epoch") < F.col("before.producer_epoch"),
        F.concat(
            _who(),
            text(
                " writes at offset {o}, after epoch {f} at offset {b}",
                o=F.col("base"),
                f=F.col("before.producer_epoch"),
                b=F.col("before.base"),
            ),
        ),
        offset=F.col("base"),
    )
    return apply_rules(stepped, [goes_on, begins, falls])


def _with_markers(batches: DataFrame, transactions: DataFrame) -> DataFrame:
    """batches with what was in force before each: `open` (struct of the last transactional batch since the last
    marker), `marked` (the highest epoch of a marker), `fenced` (of a marker or batch), `left` (struct of the last
    batch of the same transaction, and how many markers stood before it), `markers_before`.
    """
    order = Window.partitionBy("node", "p", "producer_id").orderBy("file", "file_position")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    in_transaction = F.coalesce("transactional", F.lit(False)) & ~F.col("control")
    named = batches.withColumn("first_value", F.get("values", F.lit(0))).join(
        transactions, on=["p", "first_value"], how="left"
    )
    counted = (
        named.withColumn("in_transaction", in_transaction)
        .withColumn("markers_before", F.coalesce(F.count(F.when(F.col("control"), 1)).over(before), F.lit(0)))
        .withColumn("marked", F.max(F.when(F.col("control"), F.col("producer_epoch"))).over(before))
        .withColumn("highest", F.max("producer_epoch").over(before))
    )
    since = (
        Window.partitionBy("node", "p", "producer_id", "markers_before")
        .orderBy("file", "file_position")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    of_transaction = (
        Window.partitionBy("node", "p", "producer_id", "txn")
        .orderBy("file", "file_position")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    batch = F.when(F.col("in_transaction"), F.struct("txn", "base", "markers_before"))
    return counted.withColumn("open", F.last(batch, ignorenulls=True).over(since)).withColumn(
        "left", F.when(F.col("txn").isNotNull(), F.last(batch, ignorenulls=True).over(of_transaction))
    )


def _markers(marked: DataFrame) -> DataFrame:
    data, at = ~F.col("control"), F.col("base")
    late = Rule(
        OPEN,
        data & (F.col("producer_epoch") < F.col("marked")),
        F.concat(_who(), text(" writes at offset {o}, after a marker of epoch {m}", o=at, m=F.col("marked"))),
        offset=at,
    )
    old = Rule(
        OPEN,
        F.col("control") & (F.col("producer_epoch") < F.col("highest")),
        F.concat(_who(), text(" has a marker at offset {o}, after epoch {h}", o=at, h=F.col("highest"))),
        offset=at,
    )
    outside = Rule(
        OPEN,
        data & ~F.col("in_transaction") & F.col("open").isNotNull(),
        F.concat(_who(), text(" writes outside of its transaction at {o}, open since {b}", o=at, b=F.col("open.base"))),
        offset=at,
    )
    two = Rule(
        OPEN,
        F.col("in_transaction") & (F.col("txn") != F.col("open.txn")),
        F.concat(
            _who(),
            text(
                " begins transaction {t} at offset {o}, while transaction {u} at {b} has no marker",
                t=F.col("txn"),
                o=at,
                u=F.col("open.txn"),
                b=F.col("open.base"),
            ),
        ),
        name="two",
        offset=at,
    )
    torn = Rule(
        OPEN,
        F.col("in_transaction") & (F.col("left.markers_before") < F.col("markers_before")),
        F.concat(
            _who(),
            text(
                " goes on with transaction {t} at offset {o}, which a marker behind offset {b} had ended",
                t=F.col("txn"),
                o=at,
                b=F.col("left.base"),
            ),
        ),
        name="torn",
        offset=at,
    )
    return apply_rules(marked, [late, old, outside, two, torn])


def _parted(marked: DataFrame, history: History) -> DataFrame:
    """Transactions that were committed here and aborted there, or otherwise than their producer was answered."""
    at = F.struct("p", "base", "node")
    ended = (
        marked.where(F.col("control") & F.col("open.txn").isNotNull())
        .groupBy(F.col("open.txn").alias("txn"))
        .agg(
            F.min(F.when(F.col("marker") == "commit", at)).alias("committed"),
            F.min(F.when(F.col("marker") == "abort", at)).alias("aborted"),
        )
        .join(transactions_table(history).select("txn", "fate", "end_op"), on="txn", how="left")
    )
    both = F.col("committed").isNotNull() & F.col("aborted").isNotNull()
    wrong = F.when(F.col("fate") == COMMITTED, F.col("aborted")).when(F.col("fate") == ABORTED, F.col("committed"))

    def marker(kind: str, place: str) -> Column:
        p, base, node = (F.col(f"{place}.{name}") for name in ("p", "base", "node"))
        return F.concat(
            F.lit(f"a marker that {kind} it stands at "), text("{p} offset {o} of {n}", p=p, o=base, n=node)
        )

    return apply_rules(
        ended.withColumn("wrong", wrong)
        .withColumn("at", F.coalesce("wrong", "aborted"))
        .withColumn("p", F.col("at.p")),
        [
            Rule(
                OPEN,
                both,
                F.concat(
                    text("transaction {t} is torn: ", t=F.col("txn")),
                    marker("commits", "committed"),
                    F.lit(", "),
                    marker("aborts", "aborted"),
                ),
                name="parted",
                offset=F.col("at.base"),
                ops=[F.col("end_op")],
            ),
            Rule(
                OPEN,
                ~both & F.col("wrong").isNotNull(),
                F.concat(
                    text("transaction {t} certainly was {f}, and ", t=F.col("txn"), f=F.col("fate")),
                    F.when(F.col("fate") == COMMITTED, marker("aborts", "aborted")).otherwise(
                        marker("commits", "committed")
                    ),
                ),
                name="parted",
                offset=F.col("at.base"),
                ops=[F.col("end_op")],
            ),
        ],
    )
