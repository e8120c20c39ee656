"""What was sent, a row an operation, and where it stands: by its acknowledgement, or by what was read of it.

Input grain: one row per send, and one per value of those that nothing acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.history.load import History
from checkers.settled import passes
from checkers.settled.blocks import block_of, crowded
from checkers.spark.places import Place
from checkers.spark.tables import stored

MOST_LOOSE = 4_000_000
"""Values that were acknowledged nowhere; where there are more of them, nothing is settled."""


@dataclass(frozen=True, slots=True)
class Batches:
    """placed(p, op, base, last, process, invoke_ns, complete_ns, acked, sentinel): sends that stand at [base, last]; of
    those that nothing acknowledged complete_ns is null. unacknowledged: rows of `sends` without an offset.
    loose(p, op, nth, value, invoke_ns, low, fate): values of these, with the lowest offset at which they were read;
    `fate` of their send, see `_fates`. few: see `crowded`.
    """

    placed: DataFrame
    unacknowledged: DataFrame
    loose: DataFrame
    few: DataFrame


_LOOSE = ("p", "op", "nth", "of", "value", "outcome", "invoke_ns", "low", "fate")
PLACED, SILENT, LOUD = "placed", "silent", "loud"
"""Fates of a send that nothing acknowledged: all of it was read, where one batch stands; nothing was read; else."""


def batches_of(history: History, sent: passes.OfSends, found: DataFrame, folder: Place) -> Batches:
    """Of a history with few values that nothing acknowledged. found: where polls showed them. folder: scratch space."""
    few = stored(crowded(sent.few), folder / "few")
    values = stored(_loose_values(sent.unacknowledged, found, few), folder / "loose-values")
    loose = stored(values.join(_fates(values), on=["p", "op"], how="inner").select(*_LOOSE), folder / "loose")
    acked = history.ops.where(
        (F.col("f") == "send") & (F.col("outcome") == "ok") & F.col("base_offset").isNotNull() & (F.col("n_values") > 0)
    ).select(
        "p",
        "op",
        F.col("base_offset").alias("base"),
        (F.col("base_offset") + F.col("n_values") - 1).alias("last"),
        "process",
        "invoke_ns",
        "complete_ns",
        F.lit(True).alias("acked"),
        "sentinel",
    )
    read = (
        loose.where(F.col("fate") == PLACED)
        .groupBy("p", "op")
        .agg(
            F.min("low").alias("base"),
            F.max("low").alias("last"),
            F.lit(None).cast("bigint").alias("process"),
            F.min("invoke_ns").alias("invoke_ns"),
            F.lit(None).cast("bigint").alias("complete_ns"),
            F.lit(False).alias("acked"),
            F.lit(False).alias("sentinel"),
        )
    )
    return Batches(acked.unionByName(read), sent.unacknowledged, loose, few)


def _loose_values(unacknowledged: DataFrame, found: DataFrame, few: DataFrame) -> DataFrame:
    """Rows of `loose` without fates; `is_crowded`, and read at `shift_low` to `shift_high` above where its send begins.

    found(p, value, offset): where polls showed such values.
    """
    read = found.groupBy("p", "value").agg(F.min("offset").alias("low"), F.max("offset").alias("high"))
    return (
        unacknowledged.select("p", "op", "nth", "of", "value", "outcome", "invoke_ns")
        .join(read, on=["p", "value"], how="left")
        .join(
            F.broadcast(few.select("few", F.lit(True).alias("is_crowded"))),
            on=block_of(F.col("value")) == F.col("few"),
            how="left",
        )
        .withColumn("shift_low", F.col("low") - F.col("nth"))
        .withColumn("shift_high", F.col("high") - F.col("nth"))
    )


def _fates(values: DataFrame) -> DataFrame:
    """(p, op, fate). One with a value that may have been sent twice is loud, and one that is said to have come out.

    Numbers alone: for the smallest or largest of texts Spark would sort.
    """
    told = values.groupBy("p", "op").agg(
        F.count_if(F.col("outcome") == "ok").alias("oks"),
        F.count_if(F.col("outcome") == "info").alias("infos"),
        F.count("is_crowded").alias("crowded"),
        F.count(F.lit(1)).alias("values"),
        F.max("of").alias("sent"),
        F.count("low").alias("read"),
        F.min("shift_low").alias("base"),
        F.max("shift_high").alias("top"),
    )
    plain = (F.col("crowded") == 0) & (F.col("oks") == 0)
    unknown = F.col("infos") == F.col("values")
    whole = (F.col("values") == F.col("sent")) & (F.col("read") == F.col("sent")) & (F.col("base") == F.col("top"))
    fate = F.when(plain & (F.col("read") == 0), F.lit(SILENT)).when(plain & unknown & whole, F.lit(PLACED))
    return told.select("p", "op", fate.otherwise(F.lit(LOUD)).alias("fate"))
