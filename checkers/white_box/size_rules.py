"""How much a log must still hold whose head was deleted for its size.

Retention by size takes the oldest segment only while what remains is as large as the limit, so a log that lost its head
holds the limit or more from then on, but for what is cut off its end. Input grain: the batches of replicas as they were
copied. A bound from above is held against the limit: a file is taken to end as far behind its last batch's position as
that batch can be large. Judged where size alone can have moved a log's start (not age, not a request, no compaction, no
unclean election), of the replicas that reach as far as any, in runs that came to their end. What any replica cut counts
as cut from each, for a deposed leader's tail may have stood above the start that a follower took over: so all that hold
a partition must have told by whole event logs what they cut, none of them may have lost power, or files to a fault, or
have been told to go. A replica from which as much may have been cut as the limit is says nothing, and is not counted.

Source: UnifiedLog.deleteRetentionSizeBreachedSegments.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.evidence.event_log_gaps import incarnations, whole
from checkers.evidence.timeline import Evidence, told_to_go
from checkers.verdicts.findings import Rule, apply_rules, figures, text

LOG_START = "log-start"


def size_rules(evidence: Evidence, starts: DataFrame) -> list[tuple[DataFrame, DataFrame]]:
    """[(findings, figures)]; [] where more than size can have moved a start.

    starts(node, p, start, last_ns, …): the replicas of start_rules.
    """
    expiry = evidence.expiry
    if expiry is None or expiry.size_bytes is None or expiry.age_ns is not None or expiry.requested:
        return []
    if evidence.unclean or evidence.info.compacted or not evidence.info.finished:
        return []
    limit, record = F.lit(expiry.size_bytes), F.lit(expiry.record_bytes)
    judged = (
        _sizes(evidence, record)
        .join(F.broadcast(starts.where(F.col("start") > 0)), on=["node", "p"], how="inner")
        .join(F.broadcast(_cuts(evidence, record)), on="p", how="inner")
        .where((F.size(F.array_except("holders", "told")) == 0) & (F.col("cut") < limit))
        .withColumn("held", F.col("bytes") + F.col("cut"))
    )
    short = _with_newest_below(evidence, judged.where(F.col("held") < limit))
    counts = judged.groupBy("p").agg(F.count(F.lit(1)).alias("sized"))
    return [(apply_rules(short, [_rule(limit)]), figures(counts, {(LOG_START, "sizes_judged"): F.col("sized")}))]


def _sizes(evidence: Evidence, record: Column) -> DataFrame:
    """(node, p, bytes, holders): of each replica that reaches the furthest end, at most so many bytes; and all nodes
    that have files of the partition, which were copied whole and as they were left.
    """
    files = (
        evidence.batches.where(F.col("p").isin(*evidence.info.partitions))
        .groupBy("node", "p", "file")
        .agg(
            F.max(F.struct("file_position", "records")).alias("tail"),
            F.max("last").alias("last"),
            F.bool_and(evidence.sound() & F.col("problem").isNull()).alias("sound"),
        )
    )
    replicas = files.groupBy("node", "p").agg(
        F.sum(F.col("tail.file_position") + F.col("tail.records") * record).alias("bytes"),
        F.max("last").alias("last"),
        F.bool_and("sound").alias("sound"),
    )
    of_all = replicas.groupBy("p").agg(
        F.max("last").alias("furthest"), F.collect_set("node").alias("holders"), F.bool_and("sound").alias("all_sound")
    )
    return (
        replicas.join(F.broadcast(of_all), on="p")
        .where(F.col("all_sound") & (F.col("last") == F.col("furthest")))
        .select("node", "p", "bytes", "holders")
    )


def _cuts(evidence: Evidence, record: Column) -> DataFrame:
    """(p, told, cut): the nodes whose event logs are whole and tell of it, and at most so many bytes were cut off its
    replicas. A cut whose line a kill took shows in where the log was opened next.
    """
    all_told = (
        incarnations(evidence.events)
        .groupBy("node")
        .agg(F.bool_and(whole()).alias("whole"))
        .where("whole")
        .select("node")
    )
    moments = Window.partitionBy("node", "p").orderBy("t_ns", "s").rowsBetween(Window.unboundedPreceding, -1)
    lines = evidence.timeline.where(F.col("p").isin(*evidence.info.partitions))
    lines = lines.withColumn("end_before", F.last("own_leo", ignorenulls=True).over(moments))
    cut = F.when(F.col("e") == "truncate", F.col("from_leo") - F.col("to"))
    cut = cut.when(F.col("e") == "recovered", F.col("end_before") - F.col("own_leo"))
    left = evidence.events.where(told_to_go()).select("p").distinct()
    return (
        lines.join(F.broadcast(all_told.withColumn("is_whole", F.lit(True))), on="node", how="left")
        .groupBy("p")
        .agg(
            F.collect_set(F.when(F.col("is_whole"), F.col("node"))).alias("told"),
            (F.sum(F.greatest(F.coalesce(cut, F.lit(0)), F.lit(0))) * record).alias("cut"),
            F.bool_and(evidence.touched.kept_power()).alias("powered"),
        )
        .where("powered")
        .drop("powered")
        .join(F.broadcast(left), on="p", how="left_anti")
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
