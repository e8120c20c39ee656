"""Rule 14 over a restart: a broker finds again what it knew to be committed, and what it had written.

Input grain: one row per (broker, incarnation, partition), in the order of their lives. A row found proves that a broker
opened a log that ends below a high watermark that its incarnation before had taken for this replica, or below the end
that this one had written. A kill may come between a legal cut and its line, so that an end counts only where nothing
can have cut the log since: nothing below a watermark is cut; a leader cuts nothing; and of what a follower appended in
its last role its leader cannot say that it diverges. To a role of before, the logs may diverge until something new was
appended. Brokers that cut their logs to the watermark do so with the role itself (`truncation` of their first line):
of those no end counts, nor of nodes that lost power: what is not synced goes with it, and what was committed stays.
Whether a fault took the files, or the power, `checkers.evidence.touched_files` says.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text
from checkers.white_box.leadership_rules import TRUNCATION

_JUDGED = ("b", "i", "p", "taught", "heard", "anew_at")


def restart_rules(evidence: Evidence) -> Family:
    order = Window.partitionBy("b", "p").orderBy("began_ns")
    judged = (
        _lives(evidence)
        .withColumn("before", F.lag(F.struct("known", "written")).over(order))
        .withColumn("taught", F.max("taught").over(order.rowsBetween(Window.unboundedPreceding, -1)))
        .withColumn("heard", F.max("heard").over(order.rowsBetween(Window.unboundedPreceding, -1)))
        .where(F.col("opened").isNotNull() & F.col("before").isNotNull())
        .join(F.broadcast(_made_anew(evidence)), on="p", how="left_anti")
        .select(*_JUDGED, "before.known", "before.written", "opened.leo", "opened.t_ns", "opened.s")
    )
    counts = judged.groupBy("p").agg(
        F.count_if(_counts("known")).alias("reopened"),
        F.count_if(_counts("written.end")).alias("ends_reopened"),
    )
    return Family(
        apply_rules(judged, [_below_a_watermark(), _below_its_end()]),
        figures(
            counts,
            {
                (TRUNCATION, "logs_reopened"): F.col("reopened"),
                (TRUNCATION, "ends_reopened"): F.col("ends_reopened"),
            },
        ),
    )


def _counts(end: str) -> Column:
    """Whether a log must reach that end. To begin anew is no single step: a kill in between leaves a prefix. Then it
    begins above that end again.
    """
    return F.col(end).isNotNull() & F.coalesce(F.col("anew_at") < F.col(end), F.lit(True))


def _below_a_watermark() -> Rule:
    return Rule(
        TRUNCATION,
        _counts("known") & (F.col("leo") < F.col("known")),
        F.concat(_opened(), text("; the incarnation before it had taken high watermark {h}", h=F.col("known"))),
        offset=F.col("leo"),
        lost_epoch=F.col("taught"),
        # To start cuts nothing: what an unclean election cost it, it cut in a life in which it had heard of it.
        missed_epoch=F.coalesce("heard", F.lit(-1)),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )


def _below_its_end() -> Rule:
    return Rule(
        TRUNCATION,
        _counts("written.end") & (F.col("leo") < F.col("written.end")),
        F.concat(
            _opened(),
            text(
                "; the incarnation before it had written everything below {w}, last in a role of epoch {le}, and "
                "nothing had cut that",
                w=F.col("written.end"),
                le=F.col("written.le"),
            ),
        ),
        offset=F.col("leo"),
        # No election can have taken it: in its last role nothing was cut, and it had no other.
        lost_epoch=F.coalesce("written.le", F.lit(-1)),
        missed_epoch=F.coalesce("written.le", F.lit(-1)),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )


def _opened() -> Column:
    return text(
        "broker {b}, {p}, event {i}/{s}: opened with log end {n} after a restart",
        b=F.col("b"),
        p=F.col("p"),
        i=F.col("i"),
        s=F.col("s"),
        n=F.col("leo"),
    )


def _lives(evidence: Evidence) -> DataFrame:
    """(b, i, p, began_ns, opened, anew_at, taught, heard, known, written): few rows. Replicas whose files a fault
    touched are left out.

    opened: struct of the first `recovered` line. anew_at: where a log began anew above its old end. known: the highest
    HW of any line since the log was last cut, opened or deleted in this incarnation; a cut lowers it, legal or not:
    other rules judge the cut. taught: the last leader epoch in which it took a higher one. heard: the last in which it
    took a role, or cut. written: struct(end, le), the end of the log when the incarnation ended, and the epoch of its
    last role; null where something may have cut it then.
    """
    deletes = (F.col("e") == "stop_replica") & F.coalesce("delete", F.lit(True))
    cut, opens = F.col("e") == "truncate", F.col("e") == "recovered"
    columns = ("node", "b", "i", "p", "s", "t_ns", "e", "le", "leo", "own_leo", "from_leo", "to")
    lines = evidence.timeline.select(
        *columns,
        F.when(cut, F.least("hw", "to")).otherwise(F.col("hw")).alias("hw"),
        (cut | opens).alias("resets"),
    ).unionByName(
        evidence.events.where(deletes).select(
            *[name for name in columns if name != "own_leo"],
            F.lit(None).cast("bigint").alias("own_leo"),
            F.lit(None).cast("bigint").alias("hw"),
            F.lit(True).alias("resets"),
        )
    )
    sound = lines.where(evidence.touched.spared())
    takes_role = F.col("e").isin("become_leader", "become_follower")
    certain = F.col("e").isin("recovered", "become_leader", "append")
    ends = certain | (F.col("e") == "become_follower") | cut | (F.col("e") == "stop_replica")
    lives = sound.groupBy("b", "i", "p").agg(
        F.min("t_ns").alias("began_ns"),
        F.first("node").alias("node"),
        F.min(F.when(opens, F.struct("s", "t_ns", "leo"))).alias("opened"),
        F.max(F.when(cut & (F.col("to") > F.col("from_leo")), F.col("to"))).alias("anew_at"),
        F.max(F.when(F.col("resets"), F.col("s"))).alias("reset_s"),
        F.max(F.when(F.col("e") == "hw", F.col("le"))).alias("taught"),
        F.max(F.when(takes_role | cut, F.col("le"))).alias("heard"),
        F.max(F.when(ends, F.struct("s", F.when(certain, F.col("own_leo")).alias("end")))).alias("last"),
        F.max_by(F.when(takes_role, F.col("le")), F.when(takes_role, F.col("s"))).alias("role_le"),
    )
    known = (
        sound.join(F.broadcast(lives.select("b", "i", "p", "reset_s")), on=["b", "i", "p"], how="inner")
        .where(F.col("reset_s").isNull() | (F.col("s") >= F.col("reset_s")))
        .groupBy("b", "i", "p")
        .agg(F.max("hw").alias("known"))
    )
    by_epoch = evidence.events.where((F.col("e") == "start") & (F.col("truncation") == "leader-epoch"))
    return (
        lives.join(known, on=["b", "i", "p"], how="left")
        .join(F.broadcast(by_epoch.select("i", F.lit(True).alias("by_epoch")).distinct()), on="i", how="left")
        .withColumn(
            "written",
            F.when(
                F.col("by_epoch") & F.col("last.end").isNotNull() & evidence.touched.kept_power(),
                F.struct(F.col("last.end").alias("end"), F.col("role_le").alias("le")),
            ),
        )
    )


def _made_anew(evidence: Evidence) -> DataFrame:
    """Partitions of topics that were deleted and made again: the evidence does not say which life a log was of."""
    return evidence.znodes.states.where(F.col("generation") > 1).select("p").distinct()
