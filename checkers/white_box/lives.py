"""What a replica knew and had when its broker's life began, by the lives before: few rows, from the event logs.

Input grain: one row per line about a partition. Output: one row per (broker, incarnation, partition) with what its own
lines say, and, under `before`, what those of earlier incarnations do. Judges nothing. Replicas whose files a fault
touched are left out.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence, told_to_go
from checkers.spark.tables import kept, one_piece

NO_ERROR = "0"
"""Kafka's error code, as `parts` of a `fetch_answered` line has it."""

_LIFE = ("b", "i", "p")


def replica_lives(evidence: Evidence) -> DataFrame:
    """(b, i, p, by_epoch, opened, anew_at, before), of replicas whose files no fault touched.

    by_epoch: logs are cut by leader epochs, not to the watermark. opened: struct of the first `recovered` line.
    anew_at: where the log began anew above its old end. before: struct of what earlier lives say; null in the first.

    - known: the highest HW of any line since the log was last cut, deleted, or opened shorter than that; a cut lowers
      it, legal or not: other rules judge the cut. Where logs are cut to the watermark, of the last life alone.
    - taught: the last leader epoch in which it took a higher one. heard: the last in which it took a role, or cut.
    - written: struct(end, le), the end of the log as the last life ended, and the epoch of its last role; null where
      something may have cut it then. What a leader has answered since, whether it agrees, settles that. On a node that
      lost power: what was synced of it.
    - tail: struct(le, end) of the last batch that it appended, and that nothing has cut since; le null: not known.
    """
    lives = _with_written(evidence, kept(_lives(evidence)))
    order = Window.partitionBy("b", "p").orderBy("began_ns")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    # Opened lower than it had been known to be committed: what was known of it counts no more.
    shrunk = F.coalesce(F.col("opened.leo") < F.max("known").over(earlier), F.lit(False))
    turns = Window.partitionBy("b", "p", "turn").orderBy("began_ns").rowsBetween(Window.unboundedPreceding, 0)
    return (
        lives.withColumn("shrunk", shrunk)
        .withColumn("turn", F.count_if(F.col("changed") | F.col("shrunk") | F.col("by_epoch").isNull()).over(order))
        .withColumn("known_by_then", F.max("known").over(turns))
        .withColumn(
            "before",
            F.when(
                F.row_number().over(order) > 1,
                F.struct(
                    F.lag("known_by_then").over(order).alias("known"),
                    F.lag("written").over(order).alias("written"),
                    F.max("taught").over(earlier).alias("taught"),
                    F.max("heard").over(earlier).alias("heard"),
                    F.last("tail", ignorenulls=True).over(earlier).alias("tail"),
                ),
            ),
        )
        .select(*_LIFE, "by_epoch", "opened", "anew_at", "before")
    )


def _lines(evidence: Evidence) -> DataFrame:
    """Lines about a replica, those included that have its log deleted, or flushed."""
    deletes = told_to_go()
    cut, opens = F.col("e") == "truncate", F.col("e") == "recovered"
    columns = ("node", "b", "i", "p", "s", "t_ns", "e", "le", "leo", "last", "own_leo", "from_leo", "to", "upto")
    lines = (
        evidence.timeline.select(
            *columns,
            F.when(cut, F.least("hw", "to")).otherwise(F.col("hw")).alias("hw"),
            (cut | opens).alias("resets"),
        )
        .unionByName(
            evidence.events.where(deletes | (F.col("e") == "flush")).select(
                *[name for name in columns if name != "own_leo"],
                F.lit(None).cast("bigint").alias("own_leo"),
                F.lit(None).cast("bigint").alias("hw"),
                (F.col("e") != "flush").alias("resets"),
            )
        )
        .transform(one_piece)
    )
    return lines.where(evidence.touched.spared())


def _lives(evidence: Evidence) -> DataFrame:
    """(b, i, p, node, began_ns, by_epoch, opened, changed, anew_at, taught, heard, known, synced, last, role_le, tail).

    changed: the log was cut, deleted, or opened once more. synced: what was flushed of it since. last: struct(s, end)
    of the last line that says of the end what it is, or that it may change. tail: null where the life appended nothing,
    and changed nothing.
    """
    lines = _lines(evidence)
    takes_role = F.col("e").isin("become_leader", "become_follower")
    cut, opens, appends = F.col("e") == "truncate", F.col("e") == "recovered", F.col("e") == "append"
    certain = opens | (F.col("e") == "become_leader") | appends
    ends = certain | (F.col("e") == "become_follower") | cut | (F.col("e") == "stop_replica")
    lives = lines.groupBy(*_LIFE).agg(
        F.min("t_ns").alias("began_ns"),
        F.first("node").alias("node"),
        F.min(F.when(opens, F.struct("s", "t_ns", "leo"))).alias("opened"),
        F.max(F.when(cut & (F.col("to") > F.col("from_leo")), F.col("to"))).alias("anew_at"),
        F.max(F.when(F.col("resets"), F.col("s"))).alias("reset_s"),
        F.max(F.when(F.col("e") == "hw", F.col("le"))).alias("taught"),
        F.max(F.when(takes_role | cut, F.col("le"))).alias("heard"),
        F.max(F.when(ends, F.struct("s", F.when(certain, F.col("own_leo")).alias("end")))).alias("last"),
        F.max_by(F.when(takes_role, F.col("le")), F.when(takes_role, F.col("s"))).alias("role_le"),
        F.max(F.when(appends, F.struct("s", "le", (F.col("last") + 1).alias("end")))).alias("appended"),
    )
    known = (
        lines.join(F.broadcast(lives.select(*_LIFE, "reset_s")), on=list(_LIFE), how="inner")
        .where(F.col("reset_s").isNull() | (F.col("s") >= F.col("reset_s")))
        .groupBy(*_LIFE)
        .agg(F.max("hw").alias("known"), F.max(F.when(F.col("e") == "flush", F.col("upto"))).alias("synced"))
    )
    # An end that nothing of the log changes is as it was: one that opened it once, and no more, goes on from there.
    changed = F.coalesce(F.col("reset_s") > F.coalesce("opened.s", F.lit(-1)), F.lit(False))
    appended = F.col("appended.s") > F.coalesce("reset_s", F.lit(-1))
    tail = F.when(appended, F.struct("appended.le", "appended.end")).when(changed, _struct_of_nothing())
    return (
        lives.join(known, on=list(_LIFE), how="left")
        .join(F.broadcast(by_epoch(evidence)), on="i", how="left")
        .withColumn("changed", changed)
        .withColumn("tail", tail)
    )


def _struct_of_nothing() -> Column:
    return F.struct(F.lit(None).cast("int").alias("le"), F.lit(None).cast("bigint").alias("end"))


def _with_written(evidence: Evidence, lives: DataFrame) -> DataFrame:
    """With `written`. Nodes that lost power may have lost of it what they had not synced."""
    end = F.coalesce("last.end", "agreed")
    on_disk = F.when(F.col("synced").isNotNull(), F.least(end, F.col("synced")))
    stays = F.when(evidence.touched.kept_power(), end).otherwise(on_disk)
    return lives.join(F.broadcast(_agreed(evidence, lives)), on=["i", "p"], how="left").withColumn(
        "written",
        F.when(
            F.col("by_epoch") & end.isNotNull() & stays.isNotNull(),
            F.struct(stays.alias("end"), F.col("role_le").alias("le")),
        ),
    )


def _agreed(evidence: Evidence, lives: DataFrame) -> DataFrame:
    """(i, p, agreed): ends that were in doubt, and to which a leader has agreed, in answer to a fetch that was sent
    since; null where its last answer was another one. What a fetch does not name stands where it stood (KIP-227).
    """
    in_doubt = F.col("by_epoch") & F.col("last.s").isNotNull() & F.col("last.end").isNull()
    doubts = lives.where(in_doubt).select("i", "p", F.col("last.s").alias("since"))
    incarnations = doubts.groupBy("i").agg(F.min("since").alias("from_s"))
    sent = F.col("e") == "fetch_sent"
    settled = F.max(F.when(F.col("answer.agrees"), F.col("sent.offset")))
    diverges = F.coalesce(F.get("part", F.lit(4)).try_cast("int"), F.lit(-1)) >= 0
    offset = F.get("part", F.lit(1)).try_cast("bigint")
    return (
        evidence.events.where(F.col("e").isin("fetch_sent", "fetch_answered"))
        .select("i", "s", "e", "rid", "leader", "parts")
        .join(F.broadcast(incarnations), on="i", how="inner")
        .where(F.col("s") > F.col("from_s"))
        .select("i", "s", "e", "rid", "leader", F.explode("parts").alias("part"))
        .select("*", F.get("part", F.lit(0)).alias("p"))
        .join(F.broadcast(doubts), on=["i", "p"], how="inner")
        .where(F.col("s") > F.col("since"))
        .groupBy("i", "p", "rid", "leader")
        .agg(
            F.max(F.when(sent, F.struct("s", offset.alias("offset")))).alias("sent"),
            F.max(
                F.when(~sent, F.struct("s", ((F.get("part", F.lit(1)) == NO_ERROR) & ~diverges).alias("agrees")))
            ).alias("answer"),
        )
        .where(F.col("answer").isNotNull())
        .groupBy("i", "p")
        .agg(F.when(F.max_by("answer.agrees", "answer.s"), settled).alias("agreed"))
    )


def by_epoch(evidence: Evidence) -> DataFrame:
    """(i, by_epoch): incarnations that cut their logs by leader epochs."""
    starts = evidence.events.where((F.col("e") == "start") & (F.col("truncation") == "leader-epoch"))
    return starts.select("i", F.lit(True).alias("by_epoch")).distinct()


def made_anew(evidence: Evidence) -> DataFrame:
    """(p): of topics that were deleted and made again: the evidence does not say which life a log was of."""
    return evidence.znodes.states.where(F.col("generation") > 1).select("p").distinct()
