"""Blocks that are not settled though all agree in them: what orders, times, polls or drains say is not said by records.

Output grain: (p, block), not distinct. Each function marks what one kind of rule may name, or needs to see: where a
rule compares a record with the earliest, or highest, of many, both are marked. Too many marks cost time alone.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.ends_told import told_end
from checkers.black_box.lost import covered_ranges
from checkers.history.load import History
from checkers.history.responses import is_poll
from checkers.settled.batches import LOUD, Batches
from checkers.settled.blocks import BLOCK, block_of, blocks_between


def _over(rows: DataFrame, first: Column, last: Column) -> DataFrame:
    return rows.select("p", blocks_between(first, last).alias("block"))


def out_of_time(history: History, batches: Batches) -> DataFrame:
    """Sends that were begun after something above them was there, or was told, or after they were read themselves: and
    what was there first.

    An answer that returned records shows that the last of them is there; one that tells an end, all below it.
    """
    placed = batches.placed
    nothing = F.lit(None).cast("bigint")
    answers = history.requests.where(F.col("outcome") == "ok").withColumn("told_end", told_end())
    ends = F.array(F.when(is_poll(), F.col("last_offset")), F.col("told_end") - 1)
    shown = (
        answers.select("p", F.explode(ends).alias("at"), F.col("complete_ns").alias("there_ns"))
        .where(F.col("at").isNotNull())
        .groupBy("p", "at")
        .agg(F.min("there_ns").alias("there_ns"))
        .select("p", "at", nothing.alias("last"), nothing.alias("invoke_ns"), "there_ns")
    )
    sent = placed.select("p", F.col("base").alias("at"), "last", "invoke_ns", F.col("complete_ns").alias("there_ns"))
    loud = batches.loose.where((F.col("fate") == LOUD) & F.col("low").isNotNull()).select(
        "p", F.col("low").alias("at"), F.col("low").alias("last"), "invoke_ns", nothing.alias("there_ns")
    )
    higher = Window.partitionBy("p").orderBy(F.col("at").desc()).rangeBetween(Window.unboundedPreceding, 0)
    late = (
        sent.unionByName(loud)
        .unionByName(shown)
        .withColumn("first_ns", F.min("there_ns").over(higher))
        .where(F.col("first_ns") < F.col("invoke_ns"))
        .select("p", "at", "last", "first_ns")
    )
    first = late.select("p", F.col("first_ns").alias("complete_ns")).distinct()
    by = F.broadcast(first)
    acked = placed.join(by, on=["p", "complete_ns"], how="left_semi")
    read = answers.where(is_poll() & (F.col("returned") > 0)).join(by, on=["p", "complete_ns"], how="left_semi")
    return (
        _over(late, F.col("at"), F.col("last"))
        .unionByName(_over(acked, F.col("base"), F.col("last")))
        .unionByName(_over(read, F.col("first_offset"), F.col("last_offset")))
    )


def out_of_order(batches: Batches) -> DataFrame:
    """Acknowledged sends of a process with an offset that is not above all that had been acknowledged to it before, and
    the highest of those.

    Only processes of which some send stands below the one that was begun before it can have any.
    """
    acked = batches.placed.where(F.col("acked"))
    begun = Window.partitionBy("p", "process").orderBy("invoke_ns", "op")
    doubtful = (
        acked.withColumn("before", F.lag("last").over(begun))
        .where(F.col("before") >= F.col("base"))
        .select("p", "process")
        .distinct()
    )
    theirs = acked.join(F.broadcast(doubtful), on=["p", "process"], how="left_semi")
    columns = ("p", "process", "base", "last")
    at_end = theirs.select(*columns, F.col("complete_ns").alias("at_ns"), F.col("last").alias("stands"))
    at_begin = theirs.select(*columns, F.col("invoke_ns").alias("at_ns"), F.lit(None).cast("bigint").alias("stands"))
    order = Window.partitionBy("p", "process").orderBy("at_ns", F.col("stands").isNotNull())
    back = (
        at_begin.unionByName(at_end)
        .withColumn("previous", F.max("stands").over(order))
        .where(F.col("stands").isNull() & (F.col("previous") >= F.col("base")))
    )
    return _over(back, F.col("base"), F.col("last")).unionByName(_over(back, F.col("previous"), F.col("previous")))


def odd_polls(history: History) -> DataFrame:
    """What polls went over that did not return all offsets from their position to their next one, once and in order."""
    wide = F.col("next_position") - F.col("position")
    plain = (
        (F.col("returned") == wide)
        & (F.col("in_range") == wide)
        & F.col("ascending")
        & ((wide == 0) | (F.col("first_offset") == F.col("position")))
        & ((wide == 0) | (F.col("last_offset") == F.col("next_position") - 1))
    )
    odd = history.requests.where(is_poll() & (F.col("outcome") == "ok") & ~F.coalesce(plain, F.lit(False)))
    first = F.least("position", "next_position", "first_offset")
    return _over(odd, first, F.greatest("position", "next_position", "last_offset"))


def jumped_over(history: History) -> DataFrame:
    """What lies between where a client's last poll ended and where it says that it goes on, further up."""
    before = Window.partitionBy("p", "consumer").orderBy("op").rowsBetween(Window.unboundedPreceding, -1)
    ended = F.last(F.when(F.col("outcome") == "ok", F.col("next_position")), ignorenulls=True).over(before)
    jumps = (
        history.requests.where(is_poll())
        .withColumn("ended", ended)
        .where((F.col("outcome") == "ok") & (F.col("client_position") > F.col("ended")))
    )
    return _over(jumps, F.col("ended"), F.col("client_position") - 1)


def bounds(batches: Batches) -> DataFrame:
    """The first acknowledged record of a partition, and sentinels: drains are held against them."""
    acked = batches.placed.where(F.col("acked"))
    least = acked.groupBy("p").agg(F.min("base").alias("base"))
    return _over(acked.where("sentinel"), F.col("base"), F.col("last")).unionByName(
        _over(least, F.col("base"), F.col("base"))
    )


def sent_twice(history: History, batches: Batches) -> DataFrame:
    """Where values were acknowledged of which another one of the same number may have been sent."""
    twice = history.sends.where(F.col("offset").isNotNull()).join(
        F.broadcast(batches.few), on=block_of(F.col("value")) == F.col("few"), how="left_semi"
    )
    return twice.select("p", block_of(F.col("offset")).alias("block"))


def drained(history: History, blocks: DataFrame) -> DataFrame:
    """blocks(p, block, …) with `compared`: from how many leaders, and in how many rounds, both readers' drains read all
    of it; null where a drain read some of it, or one that came to its end did not read it.
    """
    turn = ("p", "phase", "leader", "reader")
    polls = history.requests.where(F.col("phase").startswith("drain")).withColumn("leader", F.col("node"))
    islands = (
        covered_ranges(polls, *turn)
        .groupBy(*turn)
        .agg(F.collect_list(F.struct("start_offset", "end_offset")).alias("islands"))
    )
    finished = (
        history.marks.where(F.col("f") == "drain-complete").select(*turn, F.lit(True).alias("finished")).distinct()
    )
    begin, end = F.col("block") * BLOCK, (F.col("block") + 1) * BLOCK
    turns = islands.join(finished, on=list(turn), how="full_outer")
    whole = F.coalesce(
        F.exists("islands", lambda one: (one["start_offset"] <= begin) & (one["end_offset"] >= end)), F.lit(False)
    )
    some = F.coalesce(
        F.exists("islands", lambda one: (one["start_offset"] < end) & (one["end_offset"] > begin)), F.lit(False)
    )
    of_turn = (
        blocks.join(F.broadcast(turns), on="p", how="inner")
        .withColumn("whole", whole)
        .withColumn("doubtful", ~F.col("whole") & (some | F.col("finished").isNotNull()))
        .groupBy("p", "block", "phase", "leader")
        .agg(
            F.bool_or("doubtful").alias("doubtful"),
            F.bool_or(F.col("whole") & (F.col("reader") == "wire")).alias("by_wire"),
            F.bool_or(F.col("whole") & (F.col("reader") == "confluent")).alias("by_real"),
        )
        .groupBy("p", "block")
        .agg(
            F.bool_or("doubtful").alias("doubtful"),
            F.count_if(F.col("by_wire") & F.col("by_real")).alias("by_both"),
        )
    )
    compared = F.when(~F.coalesce("doubtful", F.lit(False)), F.coalesce("by_both", F.lit(0)))
    return (
        blocks.join(of_turn, on=["p", "block"], how="left").withColumn("compared", compared).drop("doubtful", "by_both")
    )
