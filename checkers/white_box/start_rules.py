"""Where replicas' logs begin, against what can have moved that: retention, and deletions on request.

Input grain: batches and checkpoints of replicas as they were copied, and one row per deletion and acknowledged send. A
replica begins at its first batch, or where its checkpoint of log starts says, if that is higher; one without a batch
says nothing. Uncompacted logs only.

- *above*: nothing else moves the start of a log in a run of the lab. So the newest record below it that acks=all was
  acknowledged for can have been deleted when the files were copied (checkers/allowances/expiry.py).
- *below*: no replica begins below the low watermark of an acknowledged deletion that is settled for its broker
  (checkers/evidence/interrupted.py), and had surely been written down when the first files were copied: in memory a log
  start never falls, and what is written down comes back with a restart. A replica begins anew as its leader does where
  it has to follow one that lost what was committed: deletions from before files of any broker were changed are not
  judged, nor are any of a partition of which a replica lost power, or of a run with an unclean election, nor a replica
  that was once told to go.

Source: UnifiedLog.maybeIncrementLogStartOffset, LogManager.checkpointLogStartOffsets; KIP-107.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.allowances.expiry import with_expired
from checkers.evidence.interrupted import joined, settled
from checkers.evidence.timeline import Evidence, told_to_go
from checkers.history.faults import Interruption
from checkers.spark.tables import kept
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union
from checkers.white_box.size_rules import LOG_START, size_rules


def start_rules(evidence: Evidence, interruptions: Sequence[Interruption]) -> Family:
    starts = kept(_starts(evidence))
    judged = _settled_deletions(evidence, starts, joined(interruptions))
    known = starts.groupBy("p").agg(F.count(F.lit(1)).alias("starts"), F.count_if(F.col("start") > 0).alias("moved"))
    of_deletions = judged.groupBy("p").agg(F.count(F.lit(1)).alias("judged"))
    sizes = size_rules(evidence, starts)
    moved = {(LOG_START, "starts"): F.col("starts"), (LOG_START, "moved"): F.nullif("moved", F.lit(0))}
    return Family(
        union([_above(evidence, starts), _below(judged), *(found for found, _ in sizes)]),
        union(
            [
                figures(known, moved),
                figures(of_deletions, {(LOG_START, "deletions_judged"): F.col("judged")}),
                *(measured for _, measured in sizes),
            ]
        ),
    )


def _starts(evidence: Evidence) -> DataFrame:
    """(node, p, start, first_ns, last_ns): of each replica whose files no fault touched; its node's files were copied
    from first_ns on, -1 where no line says when, and until last_ns.
    """
    sound = F.col("p").isin(*evidence.info.partitions) & evidence.sound()
    first = evidence.batches.where(sound & F.col("base").isNotNull())
    marks = evidence.checkpoints.where(
        sound & evidence.touched.spared_shared() & (F.col("kind") == "log-start") & F.col("offset").isNotNull()
    )
    copies = evidence.history.marks.where(F.col("f") == "evidence")
    times = copies.groupBy("node").agg(F.min("time_ns").alias("first_ns"), F.max("time_ns").alias("last_ns"))
    return (
        first.groupBy("node", "p")
        .agg(F.min("base").alias("base"))
        .join(marks.groupBy("node", "p").agg(F.max("offset").alias("mark")), on=["node", "p"], how="left")
        .join(F.broadcast(times), on="node", how="left")
        .select(
            "node",
            "p",
            F.greatest("base", F.coalesce("mark", F.lit(0))).alias("start"),
            F.coalesce("first_ns", F.lit(-1)).alias("first_ns"),
            F.coalesce("last_ns", F.lit(2**62)).alias("last_ns"),
        )
    )


def _above(evidence: Evidence, starts: DataFrame) -> DataFrame:
    acked = evidence.history.sends.where(
        (F.col("outcome") == "ok") & (F.col("acks") == -1) & F.col("offset").isNotNull()
    ).select("p", "offset", "invoke_ns", "op")
    newest = (
        acked.join(F.broadcast(starts.where(F.col("start") > 0)), on="p", how="inner")
        .where(F.col("offset") < F.col("start"))
        .groupBy("node", "p", "start", F.col("last_ns").alias("gone_ns"))
        .agg(F.max(F.struct("offset", (-F.col("invoke_ns")).alias("earlier"), "op")).alias("newest"))
        .select(
            "node", "p", "start", "gone_ns", "newest.offset", (-F.col("newest.earlier")).alias("sent_ns"), "newest.op"
        )
    )
    judged = with_expired(evidence.expiry, newest, evidence.history, reused=bool(evidence.unclean))
    return apply_rules(
        judged,
        [
            Rule(
                LOG_START,
                ~F.col("expired"),
                text(
                    "the log of {p} on {n} begins at {s}; nothing can have deleted what was acknowledged at offset {o}",
                    p=F.col("p"),
                    n=F.col("node"),
                    s=F.col("start"),
                    o=F.col("offset"),
                ),
                name="above",
                offset=F.col("offset"),
                ops=[F.col("op")],
                from_ns=F.col("sent_ns"),
                to_ns=F.col("gone_ns"),
            )
        ],
    )


def _settled_deletions(evidence: Evidence, starts: DataFrame, spans: Sequence[Interruption]) -> DataFrame:
    """(p, replica, start, upto, op, complete_ns, first_ns): one row per replica and deletion that it must know of."""
    written_ns = evidence.info.start_written_ns
    gone = evidence.events.where(told_to_go())
    left = gone.select("p", F.col("node").alias("replica"), F.lit(True).alias("left")).distinct()
    forgotten = [
        (F.col("invoke_ns") <= span.until_ns) & (F.col("last_ns") >= span.from_ns) for span in spans if span.forgets
    ]
    cut = ~evidence.touched.kept_power()
    weak = starts.where(cut).select("p").union(evidence.timeline.where(cut).select("p")).distinct()
    return (
        evidence.history.deletions.where((F.col("outcome") == "ok") & F.lit(not evidence.unclean))
        .join(F.broadcast(weak), on="p", how="left_anti")
        .join(F.broadcast(starts.withColumnRenamed("node", "replica")), on="p", how="inner")
        .join(F.broadcast(left), on=["p", "replica"], how="left")
        .where(F.col("left").isNull() & ~reduce(Column.__or__, forgotten, F.lit(False)))
        .where(settled(spans, F.col("replica"), written_ns) & (F.col("complete_ns") + written_ns <= F.col("first_ns")))
        .select(
            "p",
            "replica",
            "start",
            F.greatest("before", "low_watermark").alias("upto"),
            "op",
            "complete_ns",
            "first_ns",
        )
    )


def _below(judged: DataFrame) -> DataFrame:
    """One row per replica, by the furthest deletion."""
    broken = (
        judged.where(F.col("start") < F.col("upto"))
        .groupBy("p", "replica", "start", "first_ns")
        .agg(F.max(F.struct("upto", "complete_ns", "op")).alias("deletion"))
    )
    return apply_rules(
        broken,
        [
            Rule(
                LOG_START,
                F.lit(True),
                text(
                    "the log of {p} on {n} begins at {s}; what lies below {u} was deleted, and that acknowledged, and "
                    "nothing interrupted {n} before it can have written that down",
                    p=F.col("p"),
                    n=F.col("replica"),
                    s=F.col("start"),
                    u=F.col("deletion.upto"),
                ),
                name="below",
                offset=F.col("start"),
                ops=[F.col("deletion.op")],
                from_ns=F.col("deletion.complete_ns"),
                to_ns=F.col("first_ns"),
            )
        ],
    )
