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
from checkers.settled.blocks import block_of, blocks_between
from checkers.settled.scans import BLOCK

MOST_BLOCKS = 1024
"""That are counted off in one span of an answer; of wider ones those are marked in which there is something."""


def _over(rows: DataFrame, first: Column, last: Column) -> DataFrame:
    return rows.select("p", blocks_between(first, last).alias("block"))


def _over_spans(rows: DataFrame, first: Column, last: Column, blocks: DataFrame) -> DataFrame:
    """As `_over`, of spans as wide as an answer may say. blocks(p, block): all in which there is something.

    From the first to the last offset of a partition's wide spans all is marked.
    """
    spans = rows.select("p", block_of(first).alias("first"), block_of(last).alias("last"))
    wide = F.col("last") - F.col("first") >= MOST_BLOCKS
    narrow = spans.where(~wide).select("p", F.explode(F.sequence("first", "last")).alias("block"))
    hull = spans.where(wide).groupBy("p").agg(F.min("first").alias("first"), F.max("last").alias("last"))
    within = blocks.select("p", "block").join(F.broadcast(hull), on="p", how="inner")
    return narrow.unionByName(within.where(F.col("block").between(F.col("first"), F.col("last"))).select("p", "block"))


def _out_of(blocks: DataFrame, rows: DataFrame, offset: str) -> DataFrame:
    """Rows with an offset in none of the blocks(p, block)."""
    return (
        rows.withColumn("block", block_of(F.col(offset)))
        .join(F.broadcast(blocks), on=["p", "block"], how="left_anti")
        .drop("block")
    )


def late_sends(history: History, batches: Batches) -> DataFrame:
    """(p, base, last, invoke_ns): sends that were begun after something above them was there, or was told, or after
    they were read themselves. What was sent where all goes well is never late.

    An answer that returned records shows that the last of them is there; one that tells an end, all below it.
    """
    nothing = F.lit(None).cast("bigint")
    answers = history.requests.where(F.col("outcome") == "ok").withColumn("told_end", told_end())
    ends = F.array(F.when(is_poll(), F.col("last_offset")), F.col("told_end") - 1)
    shown = (
        answers.select("p", F.explode(ends).alias("base"), F.col("complete_ns").alias("there_ns"))
        .where(F.col("base").isNotNull())
        .groupBy("p", "base")
        .agg(F.min("there_ns").alias("there_ns"))
        .select("p", "base", nothing.alias("last"), nothing.alias("invoke_ns"), "there_ns")
    )
    sent = batches.placed.select("p", "base", "last", "invoke_ns", F.col("complete_ns").alias("there_ns"))
    loud = batches.loose.where((F.col("fate") == LOUD) & F.col("low").isNotNull()).select(
        "p", F.col("low").alias("base"), F.col("low").alias("last"), "invoke_ns", nothing.alias("there_ns")
    )
    higher = Window.partitionBy("p").orderBy(F.col("base").desc()).rangeBetween(Window.unboundedPreceding, 0)
    return (
        sent.unionByName(loud)
        .unionByName(shown)
        .withColumn("first_ns", F.min("there_ns").over(higher))
        .where(F.col("first_ns") < F.col("invoke_ns"))
        .select("p", "base", "last", "invoke_ns")
    )


def out_of_time(history: History, batches: Batches, late: DataFrame, opened: DataFrame) -> DataFrame:
    """Late sends, and the earliest records above each. late: see `late_sends`.

    opened(p, block): what other functions mark. Records in the others are what they seem, and only they are looked at
    for the earliest: an end that was told, a value that stands elsewhere as well, or a send whose offset another one
    has too, which may all be earlier, hide none. An earlier record in `opened` is judged anyway.
    """
    some = F.broadcast(late.groupBy("p").agg(F.max("invoke_ns").alias("until_ns")))
    acked = batches.placed.where(F.col("acked")).join(some, on="p", how="inner")
    acked = _out_of(opened, acked.where(F.col("complete_ns") < F.col("until_ns")), "base")
    polls = history.requests.where(is_poll() & (F.col("outcome") == "ok") & _is_plain() & (F.col("returned") > 0))
    read = polls.join(some, on="p", how="inner").where(F.col("complete_ns") < F.col("until_ns"))
    # The last record of a poll in each of its blocks.
    pieces = read.select(
        "p", "last_offset", "complete_ns", blocks_between(F.col("first_offset"), F.col("last_offset")).alias("block")
    ).join(F.broadcast(opened), on=["p", "block"], how="left_anti")
    end = F.least(F.col("last_offset"), (F.col("block") + 1) * BLOCK - 1)
    nothing = F.lit(None).cast("bigint")
    there = acked.select("p", F.col("base").alias("at"), "complete_ns").unionByName(
        pieces.select("p", end.alias("at"), "complete_ns")
    )
    asked = late.select("p", F.col("last").alias("at"), nothing.alias("complete_ns"), "invoke_ns")
    higher = Window.partitionBy("p").orderBy(F.col("at").desc()).rangeBetween(Window.unboundedPreceding, -1)
    first = (
        there.withColumn("invoke_ns", nothing)
        .unionByName(asked)
        .withColumn("first_ns", F.min("complete_ns").over(higher))
        .where(F.col("first_ns") < F.col("invoke_ns"))
        .select("p", F.col("first_ns").alias("complete_ns"))
        .distinct()
    )
    by = F.broadcast(first)
    return (
        _over(late, F.col("base"), F.col("last"))
        .unionByName(_over(acked.join(by, on=["p", "complete_ns"], how="left_semi"), F.col("base"), F.col("last")))
        .unionByName(pieces.join(by, on=["p", "complete_ns"], how="left_semi").select("p", "block"))
    )


def out_of_order(batches: Batches, twice: DataFrame) -> DataFrame:
    """Acknowledged sends of a process with an offset that is not above all that had been acknowledged to it before, and
    the highest of those. twice: see `sent_twice`; of a value that was sent twice one acknowledgement counts.

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
    doubted = twice.distinct().select("p", F.col("block").alias("of_last"), F.lit(True).alias("doubted"))
    theirs = (
        acked.join(F.broadcast(doubtful), on=["p", "process"], how="left_semi")
        .withColumn("of_last", block_of(F.col("last")))
        .join(F.broadcast(doubted), on=["p", "of_last"], how="left")
        .withColumn("sure", F.when(F.col("doubted").isNull(), F.col("last")))
    )
    columns = ("p", "process", "base", "last")
    nothing = F.lit(None).cast("bigint")
    at_end = theirs.select(*columns, F.col("complete_ns").alias("at_ns"), F.col("last").alias("stands"), "sure")
    at_begin = theirs.select(
        *columns, F.col("invoke_ns").alias("at_ns"), nothing.alias("stands"), nothing.alias("sure")
    )
    order = Window.partitionBy("p", "process").orderBy("at_ns", F.col("stands").isNotNull())
    back = (
        at_begin.unionByName(at_end)
        .withColumn("previous", F.max("stands").over(order))
        .withColumn("sure", F.max("sure").over(order))
        .where(F.col("stands").isNull() & (F.col("previous") >= F.col("base")))
    )
    return _over(back, F.col("base"), F.col("last")).unionByName(_over(back, F.col("sure"), F.col("sure")))


def _is_plain() -> Column:
    """Whether a poll returned all offsets from its position to its next one, once and in order."""
    wide = F.col("next_position") - F.col("position")
    plain = (
        (F.col("returned") == wide)
        & (F.col("in_range") == wide)
        & F.col("ascending")
        & ((wide == 0) | (F.col("first_offset") == F.col("position")))
        & ((wide == 0) | (F.col("last_offset") == F.col("next_position") - 1))
    )
    return F.coalesce(plain, F.lit(False))


def odd_polls(history: History, blocks: DataFrame) -> DataFrame:
    """What polls went over that did not return all offsets from their position to their next one, once and in order.

    blocks: see `_over_spans`.
    """
    odd = history.requests.where(is_poll() & (F.col("outcome") == "ok") & ~_is_plain())
    first = F.least("position", "next_position", "first_offset")
    return _over_spans(odd, first, F.greatest("position", "next_position", "last_offset"), blocks)


def jumped_over(history: History, blocks: DataFrame) -> DataFrame:
    """What lies between where a client's last poll ended and where it says that it goes on, further up.

    blocks: see `_over_spans`.
    """
    before = Window.partitionBy("p", "consumer").orderBy("op").rowsBetween(Window.unboundedPreceding, -1)
    ended = F.last(F.when(F.col("outcome") == "ok", F.col("next_position")), ignorenulls=True).over(before)
    jumps = (
        history.requests.where(is_poll())
        .withColumn("ended", ended)
        .where((F.col("outcome") == "ok") & (F.col("client_position") > F.col("ended")))
    )
    return _over_spans(jumps, F.col("ended"), F.col("client_position") - 1, blocks)


def bounds(batches: Batches, twice: DataFrame) -> DataFrame:
    """The first acknowledged record of a partition, and sentinels: drains are held against them.

    twice: see `sent_twice`; of a value that was sent twice one acknowledgement counts.
    """
    acked = batches.placed.where(F.col("acked"))
    least = _out_of(twice, acked, "base").groupBy("p").agg(F.min("base").alias("base"))
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
