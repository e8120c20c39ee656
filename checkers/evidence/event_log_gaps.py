"""Which event logs lack something that shows: lines, a beginning, a life that ZooKeeper saw, an acknowledgement that a
client got.

Says what is missing, and of which brokers nothing is. What is cut off at the end of a log, and was seen by nobody, does
not show.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.history import schema
from checkers.history.load import History


def incarnations(events: DataFrame) -> DataFrame:
    """(node, b, i, lines, numbers, first, last, opening, closing, registered): one row per incarnation."""
    return events.groupBy("node", "b", "i").agg(
        F.count(F.lit(1)).alias("lines"),
        F.count_distinct("s").alias("numbers"),
        F.min("s").alias("first"),
        F.max("s").alias("last"),
        F.min(F.struct("s", "e")).alias("opening"),
        F.max(F.struct("s", "e")).alias("closing"),
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


def readable() -> Column:
    """Of a line: it can be read, whatever it says."""
    return F.col(schema.CORRUPT).isNull() & F.col("e").isNotNull()


def unreadable(raw: DataFrame, lives: DataFrame) -> DataFrame:
    """(node, line, torn, incarnations, open): one row per line that cannot be read. torn: it may be what a kill left of
    the last line of an incarnation, which is a beginning of one. open: how many incarnations did not stop.

    raw: schema.EVENTS. lives: see `incarnations`.
    """
    stopped = F.col("closing.e") == "stop"
    ends = lives.groupBy("node").agg(
        F.count(F.lit(1)).alias("incarnations"),
        F.count_if(~stopped).alias("open"),
        F.collect_list(F.struct("i", F.when(~stopped, F.col("last") + 1).alias("next"))).alias("ends"),
    )
    line = F.col(schema.CORRUPT)
    named = F.regexp_extract(line, r'"i": ?"([^"]+)"', 1)
    number = F.regexp_extract(line, r'"s": ?(\d+),', 1).try_cast("bigint")
    own = F.filter("ends", lambda end: end["i"] == named)
    follows = F.exists(own, lambda end: end["next"].isNotNull() & F.coalesce(end["next"] == number, F.lit(True)))
    # One that is named by no other line was killed in its first one.
    fits = F.when(F.size(own) > 0, follows).otherwise(F.coalesce(number == 0, F.lit(True)))
    is_begun = line.startswith("{") & (_count(line, "{") > _count(line, "}"))
    return (
        raw.where(~readable())
        .join(F.broadcast(ends), on="node", how="left")
        .select(
            "node",
            line.alias("line"),
            F.coalesce(is_begun & ((named == "") | fits), F.lit(False)).alias("torn"),
            F.coalesce("incarnations", F.lit(0)).alias("incarnations"),
            F.coalesce("open", F.lit(0)).alias("open"),
        )
    )


def _count(text: Column, letter: str) -> Column:
    return F.length(text) - F.length(F.translate(text, letter, ""))


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
