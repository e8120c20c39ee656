"""Rule 3: controller epochs, along ZooKeeper's transaction log and in what brokers say that they are, and obey.

Input grain: one row per version of `/controller_epoch` or of a partition's state, and one per line of a broker about
controllers: that it was elected, or carried out a request of another controller epoch than before. A row found proves
that an epoch did not rise, that two brokers had one, or that a broker obeyed an older controller than it had before.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence, transaction_ns
from checkers.spark.tables import kept
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

CONTROLLER_EPOCH = "controller-epoch"


def controller_rules(evidence: Evidence) -> Family:
    said = F.col("e").isin("controller", "obeyed")
    lines = kept(evidence.events.where(said).select("node", "b", "i", "s", "t_ns", "e", "ce", "what"))
    per_partition = evidence.znodes.states.groupBy("p").agg(F.count(F.lit(1)).alias("versions"))
    told = lines.agg(F.count_if(F.col("e") == "obeyed").alias("obeyed")).withColumn("p", F.lit(None).cast("string"))
    return Family(
        union([_in_epochs(evidence), _in_states(evidence), _two_of_one(lines), _older_obeyed(lines)]),
        union(
            [
                figures(per_partition, {(CONTROLLER_EPOCH, "versions"): F.col("versions")}),
                figures(told, {(CONTROLLER_EPOCH, "epochs_obeyed"): F.col("obeyed")}),
            ]
        ),
    )


def _in_epochs(evidence: Evidence) -> DataFrame:
    """Along /controller_epoch."""
    back = evidence.znodes.controller_epochs.where(F.col("epoch").isNull() | (F.col("epoch") <= F.col("previous")))
    return apply_rules(
        back.withColumn("p", F.lit(None).cast("string")),
        [
            Rule(
                CONTROLLER_EPOCH,
                F.lit(True),
                text(
                    "/controller_epoch went from {a} to {b} at zxid {z}",
                    a=F.col("previous"),
                    b=F.col("epoch"),
                    z=F.hex("zxid"),
                ),
                from_ns=transaction_ns(evidence),
                to_ns=transaction_ns(evidence),
            )
        ],
    )


def _in_states(evidence: Evidence) -> DataFrame:
    """Along the versions of a partition's state."""
    return apply_rules(
        evidence.znodes.states.where(F.col("controller_epoch") < F.col("previous.controller_epoch")),
        [
            Rule(
                CONTROLLER_EPOCH,
                F.lit(True),
                text(
                    "{p} version {v} (zxid {z}): leader {l}, epoch {e}, ISR {i}: written in controller epoch {a}, "
                    "after {b}",
                    p=F.col("p"),
                    v=F.col("version"),
                    z=F.hex("zxid"),
                    l=F.col("leader"),
                    e=F.col("leader_epoch"),
                    i=F.col("isr"),
                    a=F.col("controller_epoch"),
                    b=F.col("previous.controller_epoch"),
                ),
                from_ns=transaction_ns(evidence),
                to_ns=transaction_ns(evidence),
            )
        ],
    )


def _two_of_one(lines: DataFrame) -> DataFrame:
    """Two brokers elected under one epoch: complete once the second says so."""
    claims = (
        lines.where((F.col("e") == "controller") & (F.col("what") == "elected"))
        .groupBy("ce", "b")
        .agg(F.min("t_ns").alias("t_ns"))
        .groupBy("ce")
        .agg(F.sort_array(F.collect_list(F.struct("t_ns", "b"))).alias("claims"))
        .where(F.size("claims") > 1)
        .withColumn("p", F.lit(None).cast("string"))
    )
    return apply_rules(
        claims,
        [
            Rule(
                CONTROLLER_EPOCH,
                F.lit(True),
                text("brokers {b} both became controller in epoch {e}", b=F.sort_array("claims.b"), e=F.col("ce")),
                from_ns=F.get("claims", F.lit(0))["t_ns"],
                to_ns=F.get("claims", F.lit(1))["t_ns"],
            )
        ],
    )


def _older_obeyed(lines: DataFrame) -> DataFrame:
    """A request of an older controller than one that the broker had obeyed before, in this life or an earlier one.

    A restart forgets which controller was obeyed. But a request names the registration that it is for (KIP-380), and a
    controller whose session had ended by then cannot have read of a later one.
    """
    before = Window.partitionBy("b").orderBy("t_ns", "s").rowsBetween(Window.unboundedPreceding, -1)
    obeyed = (
        lines.where(F.col("e") == "obeyed")
        .withColumn("newest", F.max(F.struct("ce", "i", "s")).over(before))
        .withColumn("p", F.lit(None).cast("string"))
    )
    return apply_rules(
        obeyed,
        [
            Rule(
                CONTROLLER_EPOCH,
                F.col("ce") < F.col("newest.ce"),
                text(
                    "{n}, broker {b}, event {i}/{s}: carried out a request of controller epoch {e}; of {w} it had "
                    "carried one out before (event {wi}/{ws})",
                    n=F.col("node"),
                    b=F.col("b"),
                    i=F.col("i"),
                    s=F.col("s"),
                    e=F.col("ce"),
                    w=F.col("newest.ce"),
                    wi=F.col("newest.i"),
                    ws=F.col("newest.s"),
                ),
                from_ns=F.col("t_ns"),
                to_ns=F.col("t_ns"),
            )
        ],
    )
