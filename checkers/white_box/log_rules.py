"""Rules 2 (log half), 10 and 11: the replicas' own files, batch by batch.

Input grain: one row per batch of one replica, and checkpoint lines. Uncompacted logs only. A torn tail, which
recovery would cut, is counted and not judged; any other batch that cannot be read, or whose CRC does not match, is
corruption.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union
from checkers.white_box.matching_rules import LOG_MATCHING

CONTIGUOUS = "log-contiguous"
EPOCH_CACHE = "epoch-cache"


def log_rules(evidence: Evidence) -> Family:
    mine = evidence.lasting()
    batches = evidence.batches.where(mine)
    checkpoints = evidence.checkpoints.where(F.col("p").isNull() | mine)
    wanted = evidence.info.replication_factor or 1
    per_partition = batches.groupBy("p").agg(
        F.count_if(F.col("problem").isNull()).alias("batches"),
        (F.count_distinct("node") >= wanted).cast("int").alias("full"),
        F.count_if(_torn()).alias("torn"),
    )
    # What a fault did to a replica's files is no anomaly. Whether anything is lost by it shows when that replica leads.
    sound = evidence.sound()
    in_its_folder = F.col("kind") == "epoch"
    judged = batches.where(sound)
    judged_files = checkpoints.where(sound & (in_its_folder | evidence.touched.spared_shared()))
    entries = checkpoints.where(mine & in_its_folder).groupBy("p").agg(F.count(F.lit(1)).alias("entries"))
    return Family(
        union(
            [
                _along_a_log(judged),
                *_epoch_files(judged_files, judged, may_be_emptied=evidence.expiry is not None),
            ]
        ),
        union(
            [
                figures(
                    per_partition,
                    {
                        (LOG_MATCHING, "batches"): F.col("batches"),
                        (LOG_MATCHING, "fully_replicated"): F.col("full"),
                        (CONTIGUOUS, "batches"): F.col("batches"),
                        (CONTIGUOUS, "torn_tails"): F.col("torn"),
                    },
                ),
                figures(entries, {(EPOCH_CACHE, "entries"): F.col("entries")}),
            ]
        ),
    )


def _torn() -> Column:
    """Of a batch: a torn tail, which recovery would cut."""
    return F.coalesce(F.col("problem").startswith("torn tail"), F.lit(False))


def _along_a_log(batches: DataFrame) -> DataFrame:
    """Readable, sound, contiguous, epochs never back."""
    order = Window.partitionBy("node", "p").orderBy("file", "file_position")
    stepped = batches.withColumn("before", F.lag(F.struct("last", "epoch")).over(order))
    unreadable = Rule(
        CONTIGUOUS,
        (F.col("problem").isNotNull() & ~_torn()) | ~F.col("crc_ok"),
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
    broken = Rule(
        CONTIGUOUS,
        (F.col("base") != F.col("before.last") + 1)
        | (F.col("epoch") < F.col("before.epoch"))
        | (F.col("last") < F.col("base"))
        | (F.col("records") != F.col("last") - F.col("base") + 1),
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
    return apply_rules(stepped, [unreadable, broken])


def _epoch_files(checkpoints: DataFrame, batches: DataFrame, *, may_be_emptied: bool) -> list[DataFrame]:
    """may_be_emptied: retention can have deleted all batches of a log, whose end no file's content says then."""
    end = F.col("leo") if may_be_emptied else F.coalesce("leo", F.lit(0))
    order = Window.partitionBy("node", "p").orderBy("position")
    ends = batches.groupBy("node", "p").agg((F.max("last") + 1).alias("leo"), F.min("base").alias("start"))
    rows = (
        checkpoints.where((F.col("kind") == "epoch") | F.col("problem").isNotNull())
        .withColumn("before", F.lag(F.struct("epoch", "offset")).over(order))
        .withColumn("until", F.lead("offset").over(order))
        .join(F.broadcast(ends), on=["node", "p"], how="left")
    )
    unreadable = Rule(EPOCH_CACHE, F.col("problem").isNotNull(), text("{n}: {x}", n=F.col("node"), x=F.col("problem")))
    disorder = Rule(
        EPOCH_CACHE,
        (F.col("epoch") <= F.col("before.epoch"))
        | (F.col("offset") <= F.col("before.offset"))
        | (F.col("offset") > end),
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
    # The epoch that the file gives a batch is the one in the batch.
    placed = batches.select("node", "p", "base", F.col("epoch").alias("stamped")).join(
        F.broadcast(rows.select("node", "p", "epoch", "offset", "until")), on=["node", "p"], how="inner"
    )
    mismatch = Rule(
        EPOCH_CACHE,
        (F.col("base") >= F.col("offset"))
        & (F.col("until").isNull() | (F.col("base") < F.col("until")))
        & (F.col("stamped") != F.col("epoch")),
        text(
            "{n}, {p}: the batch at {b} is of epoch {e}, the epoch file says {c}",
            n=F.col("node"),
            p=F.col("p"),
            b=F.col("base"),
            e=F.col("stamped"),
            c=F.col("epoch"),
        ),
        offset=F.col("base"),
    )
    entries = checkpoints.where((F.col("kind") == "epoch") & F.col("offset").isNotNull())
    firsts = entries.groupBy("node", "p").agg(F.min("offset").alias("first"))
    # Where the start of a log was moved, batches below it may be there still.
    uncovered = F.col("first").isNull() | (F.lit(not may_be_emptied) & (F.col("start") < F.col("first")))
    untold = Rule(
        EPOCH_CACHE,
        # Of a topic that is made anew no file is taken in: it may be older than the life (checkers/evidence/lives.py).
        F.col("start").isNotNull() & uncovered & ~F.contains("p", F.lit("~")),
        text(
            "{n}, {p}: the log begins at {s}; the first epoch of its epoch file at {f}",
            n=F.col("node"),
            p=F.col("p"),
            s=F.col("start"),
            f=F.coalesce(F.col("first").cast("string"), F.lit("no offset")),
        ),
        kind=F.when(F.col("first").isNull(), F.lit("unknown")).otherwise(F.lit("invalid")),
        offset=F.col("start"),
    )
    return [
        apply_rules(rows, [unreadable, disorder]),
        apply_rules(placed, [mismatch]),
        apply_rules(ends.join(F.broadcast(firsts), on=["node", "p"], how="left"), [untold]),
    ]
