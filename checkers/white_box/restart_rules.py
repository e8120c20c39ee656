"""Rule 14 over a restart: a broker finds again what it knew to be committed.

Input grain: one row per (broker, incarnation, partition), in the order of their lives. A row found proves that a broker
opened a log that ends below a high watermark that its incarnation before had taken for this replica. Only watermarks
are compared, never log ends: a kill may come between a legal cut and its line, and nothing below a watermark is cut.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text
from checkers.white_box.leadership_rules import TRUNCATION


def restart_rules(evidence: Evidence) -> Family:
    order = Window.partitionBy("b", "p").orderBy("began_ns")
    judged = (
        _lives(evidence)
        .withColumn("known", F.lag("known").over(order))
        .withColumn("taught", F.max("taught").over(order.rowsBetween(Window.unboundedPreceding, -1)))
        .withColumn("heard", F.max("heard").over(order.rowsBetween(Window.unboundedPreceding, -1)))
        .where(F.col("opened").isNotNull() & F.col("known").isNotNull())
        .join(F.broadcast(_made_anew(evidence)), on="p", how="left_anti")
        .select("b", "i", "p", "known", "taught", "heard", "opened.leo", "opened.t_ns", "opened.s", "anew_at")
        # To begin anew is no single step: a kill in between leaves a prefix. Then it begins above what it knew again.
        .where(F.coalesce(F.col("anew_at") < F.col("known"), F.lit(True)))
    )
    found = apply_rules(
        judged,
        [
            Rule(
                TRUNCATION,
                F.col("leo") < F.col("known"),
                text(
                    "broker {b}, {p}, event {i}/{s}: opened with log end {n} after a restart; the incarnation before "
                    "it had taken high watermark {h}",
                    b=F.col("b"),
                    p=F.col("p"),
                    i=F.col("i"),
                    s=F.col("s"),
                    n=F.col("leo"),
                    h=F.col("known"),
                ),
                offset=F.col("leo"),
                lost_epoch=F.col("taught"),
                # To start cuts nothing: what an unclean election cost it, it cut in a life in which it had heard of it.
                missed_epoch=F.coalesce("heard", F.lit(-1)),
                from_ns=F.col("t_ns"),
                to_ns=F.col("t_ns"),
            )
        ],
    )
    per_partition = judged.groupBy("p").agg(F.count(F.lit(1)).alias("reopened"))
    return Family(found, figures(per_partition, {(TRUNCATION, "logs_reopened"): F.col("reopened")}))


def _lives(evidence: Evidence) -> DataFrame:
    """(b, i, p, began_ns, opened, anew_at, taught, known): few rows. Replicas whose files a fault touched are
    left out.

    opened: struct of the first `recovered` line. anew_at: where a log began anew above its old end. known: the highest
    HW of any line since the log was last cut, opened or deleted in this incarnation; a cut lowers it, legal or not:
    other rules judge the cut. taught: the last leader epoch in which it took a higher one. heard: the last in which it
    took a role, or cut.
    """
    deletes = (F.col("e") == "stop_replica") & F.coalesce("delete", F.lit(True))
    cut, opens = F.col("e") == "truncate", F.col("e") == "recovered"
    columns = ("node", "b", "i", "p", "s", "t_ns", "e", "le", "leo", "from_leo", "to")
    lines = evidence.timeline.select(
        *columns,
        F.when(cut, F.least("hw", "to")).otherwise(F.col("hw")).alias("hw"),
        (cut | opens).alias("resets"),
    ).unionByName(
        evidence.events.where(deletes).select(
            *columns, F.lit(None).cast("bigint").alias("hw"), F.lit(True).alias("resets")
        )
    )
    sound = lines.where(evidence.touched.spared())
    lives = sound.groupBy("b", "i", "p").agg(
        F.min("t_ns").alias("began_ns"),
        F.min(F.when(opens, F.struct("s", "t_ns", "leo"))).alias("opened"),
        F.max(F.when(cut & (F.col("to") > F.col("from_leo")), F.col("to"))).alias("anew_at"),
        F.max(F.when(F.col("resets"), F.col("s"))).alias("reset_s"),
        F.max(F.when(F.col("e") == "hw", F.col("le"))).alias("taught"),
        F.max(F.when(F.col("e").isin("become_leader", "become_follower", "truncate"), F.col("le"))).alias("heard"),
    )
    known = (
        sound.join(F.broadcast(lives.select("b", "i", "p", "reset_s")), on=["b", "i", "p"], how="inner")
        .where(F.col("reset_s").isNull() | (F.col("s") >= F.col("reset_s")))
        .groupBy("b", "i", "p")
        .agg(F.max("hw").alias("known"))
    )
    return lives.join(known, on=["b", "i", "p"], how="left")


def _made_anew(evidence: Evidence) -> DataFrame:
    """Partitions of topics that were deleted and made again: the evidence does not say which life a log was of."""
    return evidence.znodes.states.where(F.col("generation") > 1).select("p").distinct()
