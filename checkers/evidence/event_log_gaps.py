"""Which event logs lack something that shows: lines, a beginning, a life that ZooKeeper saw, an acknowledgement that a
client got.

Says what is missing, and of which brokers nothing is. What is cut off at the end of a log, and was seen by nobody, does
not show.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.history.load import History


def incarnations(events: DataFrame) -> DataFrame:
    """(node, b, i, lines, numbers, first, last, opening, registered): one row per incarnation."""
    return events.groupBy("node", "b", "i").agg(
        F.count(F.lit(1)).alias("lines"),
        F.count_distinct("s").alias("numbers"),
        F.min("s").alias("first"),
        F.max("s").alias("last"),
        F.min(F.struct("s", "e")).alias("opening"),
        F.count_if(F.col("e") == "registered").alias("registered"),
    )


def holed() -> Column:
    """Of an incarnation: it has gaps or repeats."""
    return (F.col("first") != 0) | (F.col("last") + 1 != F.col("lines")) | (F.col("numbers") != F.col("lines"))


def headless() -> Column:
    """Of an incarnation: its first line is not how one begins."""
    return (F.col("first") == 0) & (F.col("opening.e") != "start")


def whole() -> Column:
    """Of an incarnation: it lacks nothing that its lines alone show."""
    return ~holed() & ~headless()


def unlogged_lives(lives: DataFrame, events: DataFrame, registrations: DataFrame) -> DataFrame:
    """(b, czxids): lives of /brokers/ids/N that no incarnation of N has logged, but for those killed before they could.

    lives: see `incarnations`.
    """
    named = events.where(F.col("e") == "registered").select("b", F.col("be").alias("czxid"))
    unnamed = (
        registrations.join(named, on=["b", "czxid"], how="left_anti")
        .groupBy("b")
        .agg(F.count(F.lit(1)).alias("unnamed"), F.collect_set("czxid").alias("czxids"))
    )
    silent = lives.where(F.col("registered") == 0).groupBy("b").agg(F.count(F.lit(1)).alias("silent"))
    return (
        unnamed.join(silent, on="b", how="left")
        .where(F.col("unnamed") > F.coalesce("silent", F.lit(0)))
        .select("b", "czxids")
    )


def unlogged_acks(history: History, events: DataFrame, timeline: DataFrame) -> DataFrame:
    """Rows of `ops`: acknowledged sends whose `ack` line is not there, though it is written before the response leaves.
    Only sends acknowledged before the log of their node was copied, which it is to stand in: another leader answers for
    an offset that it gave again. timeline: the lines about partitions.
    """
    logged = timeline.where(F.col("e") == "ack").select("node", "p", F.col("base").alias("base_offset")).distinct()
    acked = history.ops.where((F.col("f") == "send") & (F.col("outcome") == "ok") & F.col("base_offset").isNotNull())
    judged = acked.join(F.broadcast(_copied(history, events)), on="node", how="inner").where(
        F.col("complete_ns") < F.col("copied_ns")
    )
    return judged.join(logged, on=["node", "p", "base_offset"], how="left_anti")


def _copied(history: History, events: DataFrame) -> DataFrame:
    """(node, copied_ns): a send that was acknowledged before then is older than the copy of that node's event log.

    The harness writes its `evidence` lines once everything is copied, and no send is under way meanwhile. Where there
    is none, the log's last line stands for it, and a log cut off at its end hides what was cut.
    """
    lines = events.groupBy("node").agg(F.max("t_ns").alias("last_ns"))
    named = history.marks.where(F.col("f") == "evidence").groupBy("node").agg(F.min("time_ns").alias("told_ns"))
    return lines.join(F.broadcast(named), on="node", how="left").select(
        "node", F.coalesce("told_ns", "last_ns").alias("copied_ns")
    )


def whole_logs(history: History, events: DataFrame, timeline: DataFrame, registrations: DataFrame) -> frozenset[int]:
    """Brokers whose event log is there and lacks nothing that shows."""
    lives = incarnations(events)
    odd = F.bool_or(~whole()).alias("odd")
    nodes = {row.b: (row.node, row.odd) for row in lives.groupBy("b", "node").agg(odd).collect()}
    silent = {row.b for row in unlogged_lives(lives, events, registrations).collect()}
    unlogged = {row.node for row in unlogged_acks(history, events, timeline).select("node").distinct().collect()}
    return frozenset(
        b for b, (node, is_odd) in nodes.items() if not is_odd and b not in silent and node not in unlogged
    )
