"""Rules 2 (log half), 7, 10 and 11: the replicas' own files, batch by batch.

Input grain: one row per batch of one replica, and checkpoint lines. Uncompacted logs only. A torn tail, which
recovery would cut, is counted and not judged; any other batch that cannot be read, or whose CRC does not match, is
corruption.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.findings import Family, figures, finding, text, union
from checkers.white_box.inputs import Evidence

LOG_MATCHING = "log-matching"
CONTIGUOUS = "log-contiguous"
EPOCH_CACHE = "epoch-cache"


def log_rules(evidence: Evidence) -> Family:
    batches = evidence.batches.where(F.col("p").isin(*evidence.info.partitions))
    whole = batches.where(F.col("problem").isNull())
    torn = F.coalesce(F.col("problem").startswith("torn tail"), F.lit(False))
    per_partition = batches.groupBy("p").agg(
        F.count_if(F.col("problem").isNull()).alias("batches"),
        F.count_distinct("node").alias("replicas"),
        F.count_if(torn).alias("torn"),
    )
    wanted = evidence.info.replication_factor or 1
    marks = (
        evidence.checkpoints.where(F.col("kind") == "high-watermark")
        .groupBy("p")
        .agg(F.count_distinct("node").alias("marks"))
        .where(F.col("p").isin(*evidence.info.partitions))
    )
    epochs = evidence.checkpoints.where(F.col("kind") == "epoch").groupBy("p").agg(F.count(F.lit(1)).alias("entries"))
    return Family(
        union(
            [
                _unreadable(batches.where(~torn)),
                _contiguous(whole),
                _same_batches(whole),
                _same_prefix(evidence, whole),
                _epoch_cache(evidence, whole),
            ]
        ),
        union(
            [
                figures(
                    per_partition,
                    {
                        (LOG_MATCHING, "batches"): F.col("batches"),
                        (LOG_MATCHING, "fully_replicated"): (F.col("replicas") >= wanted).cast("int"),
                        (CONTIGUOUS, "batches"): F.col("batches"),
                        (CONTIGUOUS, "torn_tails"): F.col("torn"),
                    },
                ),
                figures(marks, {(LOG_MATCHING, "watermarks_known"): (F.col("marks") >= wanted).cast("int")}),
                figures(epochs, {(EPOCH_CACHE, "entries"): F.col("entries")}),
            ]
        ),
    )


def _unreadable(batches: DataFrame) -> DataFrame:
    bad = batches.where(F.col("problem").isNotNull() | ~F.col("crc_ok"))
    return finding(
        bad,
        CONTIGUOUS,
        text(
            "{n}, {p}, {f} at byte {b}: {w}",
            n=F.col("node"),
            p=F.col("p"),
            f=F.col("file"),
            b=F.col("file_position"),
            w=F.coalesce("problem", F.lit("the CRC does not match")),
        ),
        offset=F.col("base"),
    )


def _contiguous(batches: DataFrame) -> DataFrame:
    order = Window.partitionBy("node", "p").orderBy("file", "file_position")
    stepped = batches.withColumn("before", F.lag(F.struct("last", "epoch")).over(order))
    broken = stepped.where(
        (F.col("base") != F.col("before.last") + 1)
        | (F.col("epoch") < F.col("before.epoch"))
        | (F.col("last") < F.col("base"))
        | (F.col("records") != F.col("last") - F.col("base") + 1)
    )
    return finding(
        broken,
        CONTIGUOUS,
        text(
            "{n}, {p}: batch {b} to {l} of epoch {e} with {r} records follows offset {pl} of epoch {pe}",
            n=F.col("node"),
            p=F.col("p"),
            b=F.col("base"),
            l=F.col("last"),
            e=F.col("epoch"),
            r=F.col("records"),
            pl=F.col("before.last"),
            pe=F.col("before.epoch"),
        ),
        offset=F.col("base"),
    )


def _same_batches(batches: DataFrame) -> DataFrame:
    """Same (offset, epoch) ⇒ the same bytes, on whichever replicas have it."""
    odd = (
        batches.groupBy("p", "base", "epoch")
        .agg(F.min("digest").alias("low"), F.max("digest").alias("high"), F.collect_set("node").alias("nodes"))
        .where(F.col("low") != F.col("high"))
    )
    return finding(
        odd,
        LOG_MATCHING,
        text(
            "{p} offset {o}, epoch {e}: the batch differs between {n}",
            p=F.col("p"),
            o=F.col("base"),
            e=F.col("epoch"),
            n=F.array_sort("nodes"),
        ),
        offset=F.col("base"),
    )


def _same_prefix(evidence: Evidence, batches: DataFrame) -> DataFrame:
    """Below the lowest checkpointed HW of its replicas, every replica has every batch, byte for byte."""
    held = (
        evidence.checkpoints.where(F.col("kind") == "high-watermark")
        .groupBy("p")
        .agg(F.min("offset").alias("min_hw"), F.count_distinct("node").alias("replicas"))
    )
    # What a replica has not from its own start on (a log start that moved) is not missing.
    starts = (
        batches.groupBy("p", "node").agg(F.min("base").alias("start")).groupBy("p").agg(F.max("start").alias("start"))
    )
    below = (
        batches.join(F.broadcast(held), on="p", how="inner")
        .join(F.broadcast(starts), on="p", how="inner")
        .where((F.col("last") < F.col("min_hw")) & (F.col("base") >= F.col("start")))
    )
    odd = (
        below.groupBy("p", "base", "last", "epoch", "digest", "replicas")
        .agg(F.count_distinct("node").alias("on"), F.collect_set("node").alias("nodes"))
        .where(F.col("on") < F.col("replicas"))
    )
    return finding(
        odd,
        LOG_MATCHING,
        text(
            "{p}: batch {b} to {l} of epoch {e} lies below every replica's high watermark, of {r} replicas only {n} "
            "have it",
            p=F.col("p"),
            b=F.col("base"),
            l=F.col("last"),
            e=F.col("epoch"),
            n=F.array_sort("nodes"),
            r=F.col("replicas"),
        ),
        offset=F.col("base"),
    )


def _epoch_cache(evidence: Evidence, batches: DataFrame) -> DataFrame:
    order = Window.partitionBy("node", "p").orderBy("position")
    ends = batches.groupBy("node", "p").agg((F.max("last") + 1).alias("leo"))
    rows = (
        evidence.checkpoints.where((F.col("kind") == "epoch") & F.col("problem").isNull())
        .withColumn("before", F.lag(F.struct("epoch", "offset")).over(order))
        .join(F.broadcast(ends), on=["node", "p"], how="left")
    )
    broken = rows.where(
        (F.col("epoch") <= F.col("before.epoch"))
        | (F.col("offset") <= F.col("before.offset"))
        | (F.col("offset") > F.coalesce("leo", F.lit(0)))
    )
    in_order = finding(
        broken,
        EPOCH_CACHE,
        text(
            "{n}, {p}: epoch {e} starts at {o}, after epoch {be} at {bo}; the log ends at {l}",
            n=F.col("node"),
            p=F.col("p"),
            e=F.col("epoch"),
            o=F.col("offset"),
            be=F.col("before.epoch"),
            bo=F.col("before.offset"),
            l=F.col("leo"),
        ),
        offset=F.col("offset"),
    )
    unreadable = finding(
        evidence.checkpoints.where(F.col("problem").isNotNull()),
        EPOCH_CACHE,
        text("{n}: {x}", n=F.col("node"), x=F.col("problem")),
    )
    # The epoch that the cache gives a batch is the one in the batch.
    spans = rows.withColumn("until", F.lead("offset").over(order)).select(
        "node", "p", F.col("epoch").alias("cached"), "offset", "until"
    )
    wrong = (
        batches.select("node", "p", "base", "epoch")
        .join(F.broadcast(spans), on=["node", "p"], how="inner")
        .where((F.col("base") >= F.col("offset")) & (F.col("until").isNull() | (F.col("base") < F.col("until"))))
        .where(F.col("cached") != F.col("epoch"))
    )
    mismatch = finding(
        wrong,
        EPOCH_CACHE,
        text(
            "{n}, {p}: the batch at {b} is of epoch {e}, the epoch file says {c}",
            n=F.col("node"),
            p=F.col("p"),
            b=F.col("base"),
            e=F.col("epoch"),
            c=F.col("cached"),
        ),
        offset=F.col("base"),
    )
    return union([in_order, unreadable, mismatch])
