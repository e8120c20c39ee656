"""Fenced producer: who takes a transactional id fences whoever had it, for good (KIP-98).

Input grain: one row per request of a transaction, and one per InitProducerId that came out ok. A row of the first kind
proves that a request was acknowledged although it was begun after another producer had the id: that producer's
InitProducerId was sent after the own one had been answered, and was answered before the request was sent. Asking to
abort is left out: who has been fenced is aborted, and a coordinator may say so. A row of the second kind proves that
two InitProducerId gave one producer id and epoch, or a later one a lower epoch: neither fences the other.

A deposed coordinator acknowledges nothing that it has to store, and no leader takes a batch of an epoch below that of
the marker which the take-over had it write, or of a partition that the transaction does not have (KIP-890).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts
from checkers.history.load import History
from checkers.history.responses import by_wire
from checkers.spark.tables import one_piece
from checkers.transactions.names import FENCED
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

_IDENTITY = ("id", "producer_id", "epoch")


def fence_checks(facts: Facts) -> Family:
    history = facts.history
    producers, homes = _producers(history), _homes(history, "txn")
    asked = _requests(history).join(_replaced(producers), on=[*_IDENTITY], how="inner")
    late = asked.where(F.col("replaced.at_ns") < F.col("invoke_ns")).join(homes, on="txn", how="left")
    per_partition = (
        late.withColumn("p", F.explode("homes"))
        .groupBy("p")
        .agg(F.count(F.lit(1)).alias("tried"), F.count_distinct("txn").alias("zombies"))
    )
    return Family(
        union([_acknowledged(late), _given_again(producers, history)]),
        figures(
            per_partition,
            {(FENCED, "requests_too_late"): F.col("tried"), (FENCED, "zombie_transactions"): F.col("zombies")},
        ),
    )


def _named(f: str) -> Column:
    return F.col(f"asked.{f}").alias({"transactional_id": "id", "producer_epoch": "epoch"}.get(f, f))


def _producers(history: History) -> DataFrame:
    """(id, producer_id, epoch, op, invoke_ns, complete_ns): whom InitProducerId made."""
    return history.coordination.where(
        (F.col("f") == "init_producer") & (F.col("outcome") == "ok") & F.col("asked.transactional_id").isNotNull()
    ).select(
        _named("transactional_id"),
        F.col("answered.producer_id").alias("producer_id"),
        F.col("answered.producer_epoch").alias("epoch"),
        "op",
        "invoke_ns",
        "complete_ns",
    )


def _requests(history: History) -> DataFrame:
    """(id, producer_id, epoch, txn, f, harmless, op, outcome, invoke_ns, complete_ns) of transactions."""
    who = ("transactional_id", "producer_id", "producer_epoch", "txn")
    when = ("op", "outcome", "invoke_ns", "complete_ns")
    aborts = (F.col("f") == "end_txn") & ~F.col("asked.commit")
    of_coordinators = history.coordination.where(F.col("asked.txn").isNotNull() & by_wire()).select(
        *[_named(one) for one in who], "f", F.coalesce(aborts, F.lit(False)).alias("harmless"), *when
    )
    sends = (
        history.sends.where(F.col("txn").isNotNull())
        .dropDuplicates(["op"])
        .select(
            F.col("transactional_id").alias("id"),
            "producer_id",
            F.col("producer_epoch").alias("epoch"),
            "txn",
            F.lit("send").alias("f"),
            F.lit(False).alias("harmless"),
            *when,
        )
    )
    return of_coordinators.unionByName(sends).transform(one_piece)


def _homes(history: History, key: str) -> DataFrame:
    """(key, homes): the partitions that a transaction (`txn`) or an id (`transactional_id`) sent to, or was to."""
    added = history.coordination.where(F.col("f") == "add_partitions").select(
        F.col(f"asked.{key}").alias(key), F.explode("asked.partitions").alias("p")
    )
    sent = history.sends.where(F.col(key).isNotNull()).select(key, "p")
    return (
        added.unionByName(sent).transform(one_piece).groupBy(key).agg(F.sort_array(F.collect_set("p")).alias("homes"))
    )


def _replaced(producers: DataFrame) -> DataFrame:
    """(id, producer_id, epoch, got, replaced): when the first producer that came after it had the id."""
    own = producers.groupBy(*_IDENTITY).agg(F.min("op").alias("got"), F.max("complete_ns").alias("got_ns"))
    later = producers.select(
        "id", F.col("invoke_ns").alias("later_ns"), F.struct(F.col("complete_ns").alias("at_ns"), "op").alias("taken")
    )
    return (
        own.join(later, on="id", how="inner")
        .where(F.col("later_ns") > F.col("got_ns"))
        .groupBy(*_IDENTITY)
        .agg(F.min("got").alias("got"), F.min("taken").alias("replaced"))
    )


def _who() -> Column:
    return text("producer {i} epoch {e}", i=F.col("producer_id"), e=F.col("epoch"))


def _acknowledged(late: DataFrame) -> DataFrame:
    return apply_rules(
        late.withColumn("p", F.get("homes", F.lit(0))),
        [
            Rule(
                FENCED,
                (F.col("outcome") == "ok") & ~F.col("harmless"),
                F.concat(
                    text("{f} of transaction {t} by ", f=F.col("f"), t=F.col("txn")),
                    _who(),
                    text(" was acknowledged, though another producer had taken {id} before", id=F.col("id")),
                ),
                name="late",
                ops=[F.col("got"), F.col("replaced.op"), F.col("op")],
                from_ns=F.col("replaced.at_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )


def _given_again(producers: DataFrame, history: History) -> DataFrame:
    homes = _homes(history, "transactional_id").select(
        F.col("transactional_id").alias("id"), F.get("homes", F.lit(0)).alias("p")
    )
    other = producers.select(
        "producer_id",
        F.col("epoch").alias("other_epoch"),
        F.col("id").alias("other_id"),
        F.struct("op", "invoke_ns", "complete_ns").alias("other"),
    )
    after = F.col("other.invoke_ns") > F.col("complete_ns")
    again = (
        producers.join(other, on="producer_id", how="inner")
        .where(
            ((F.col("other.op") > F.col("op")) & (F.col("other_epoch") == F.col("epoch")))
            | (after & (F.col("other_epoch") < F.col("epoch")))
        )
        .groupBy(*_IDENTITY, "op", "invoke_ns", (F.col("other_id") == F.col("id")).alias("one_id"))
        .agg(F.min(F.struct("other", "other_id", "other_epoch")).alias("again"))
        .join(homes, on="id", how="left")
    )
    return apply_rules(
        again,
        [
            Rule(
                FENCED,
                F.lit(True),
                F.concat(
                    text("InitProducerId of {id} gave ", id=F.col("id")),
                    _who(),
                    text(
                        ", and another one, of {o}, epoch {f} of the same",
                        o=F.col("again.other_id"),
                        f=F.col("again.other_epoch"),
                    ),
                ),
                name=F.when(F.col("one_id"), F.lit("given")).otherwise(F.lit("")),
                ops=[F.col("op"), F.col("again.other.op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("again.other.complete_ns"),
            )
        ],
    )
