"""How much a log must still hold whose head was deleted for its size.

Retention by size takes the oldest segment only while what remains is as large as the limit, so a log that lost its head
holds the limit or more from then on, but for what is cut off its end. Input grain: the batches of replicas as they were
copied. A bound from above is held against the limit: a file is taken to end as far behind its last batch's position as
that batch can be large. Judged where size alone can have moved a log's start (not age, not a request, no unclean
election), of the replicas that reach as far as any, of partitions whose replicas all told by event logs what they cut
and of which none lost power. What any replica cut counts as cut from each: a deposed leader's tail may have stood above
the start that a follower took over.

Source: UnifiedLog.deleteRetentionSizeBreachedSegments.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence
from checkers.verdicts.findings import Rule, apply_rules, figures, text

LOG_START = "log-start"


def size_rules(evidence: Evidence, starts: DataFrame) -> list[tuple[DataFrame, DataFrame]]:
    """[(findings, figures)]; [] where more than size can have moved a start.

    starts(node, p, start, last_ns, …): the replicas of start_rules.
    """
    expiry = evidence.expiry
    if expiry is None or expiry.size_bytes is None or expiry.age_ns is not None or expiry.requested:
        return []
    if evidence.unclean:
        return []
    limit, record = F.lit(expiry.size_bytes), F.lit(expiry.record_bytes)
    all_told = F.array_contains("told", F.col("node")) & (F.col("replicas") <= F.size("told"))
    judged = (
        _sizes(evidence, record)
        .join(F.broadcast(starts.where(F.col("start") > 0)), on=["node", "p"], how="inner")
        .join(F.broadcast(_cuts(evidence, record)), on="p", how="inner")
        .where(all_told)
        .withColumn("held", F.col("bytes") + F.col("cut"))
    )
    short = _with_newest_below(evidence, judged.where(F.col("held") < limit))
    counts = judged.groupBy("p").agg(F.count(F.lit(1)).alias("sized"))
    return [(apply_rules(short, [_rule(limit)]), figures(counts, {(LOG_START, "sizes_judged"): F.col("sized")}))]


def _sizes(evidence: Evidence, record: Column) -> DataFrame:
    """(node, p, bytes, replicas): of each replica that reaches the furthest end, at most so many bytes."""
    mine = F.col("p").isin(*evidence.info.partitions) & F.col("node").isin(*evidence.segment_nodes)
    files = (
        evidence.batches.where(mine & evidence.touched.spared() & F.col("base").isNotNull())
        .groupBy("node", "p", "file")
        .agg(
            F.max(F.struct("file_position", "records")).alias("tail"),
            F.max("last").alias("last"),
            F.count_if(F.col("problem").isNotNull()).alias("problems"),
        )
    )
    replicas = files.groupBy("node", "p").agg(
        F.sum(F.col("tail.file_position") + F.col("tail.records") * record).alias("bytes"),
        F.max("last").alias("last"),
        F.sum("problems").alias("problems"),
    )
    ends = replicas.groupBy("p").agg(F.max("last").alias("furthest"), F.count(F.lit(1)).alias("replicas"))
    whole = (F.col("last") == F.col("furthest")) & (F.col("problems") == 0)
    return replicas.join(F.broadcast(ends), on="p").where(whole).select("node", "p", "bytes", "replicas")


def _cuts(evidence: Evidence, record: Column) -> DataFrame:
    """(p, told, cut): the nodes whose event logs tell of it, and at most so many bytes were cut off its replicas."""
    is_cut = (F.col("e") == "truncate") & (F.col("to") < F.col("from_leo"))
    cut = F.sum(F.when(is_cut, F.col("from_leo") - F.col("to")).otherwise(0))
    return (
        evidence.timeline.groupBy("p")
        .agg(
            F.collect_set("node").alias("told"),
            (cut * record).alias("cut"),
            F.bool_and(evidence.touched.kept_power()).alias("powered"),
        )
        .where("powered")
        .drop("powered")
    )


def _with_newest_below(evidence: Evidence, short: DataFrame) -> DataFrame:
    """With `op`, of the newest record that is known to have been deleted; null where none is."""
    sends = evidence.history.sends.where(F.col("offset").isNotNull()).select("p", "offset", "op")
    deleted = (
        sends.join(F.broadcast(short.select("node", "p", "start")), on="p")
        .where(F.col("offset") < F.col("start"))
        .groupBy("node", "p")
        .agg(F.max_by("op", "offset").alias("op"))
    )
    return short.join(F.broadcast(deleted), on=["node", "p"], how="left")


def _rule(limit: Column) -> Rule:
    return Rule(
        LOG_START,
        F.lit(True),
        text(
            "the log of {p} on {n} begins at {s} and holds {h} bytes at most; retention by size leaves {l} or more",
            p=F.col("p"),
            n=F.col("node"),
            s=F.col("start"),
            h=F.col("held"),
            l=limit,
        ),
        name="short",
        offset=F.col("start"),
        ops=[F.col("op")],
        to_ns=F.col("last_ns"),
    )
