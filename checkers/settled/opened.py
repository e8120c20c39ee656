"""What is left of a history where some of its blocks are open: their records, and the whole of each send that reaches
into one. All else is settled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.history.load import History
from checkers.settled.batches import LOUD, PLACED, SILENT, Batches
from checkers.settled.blocks import BLOCK, block_of, blocks_between
from checkers.spark.places import Place
from checkers.spark.tables import stored

MOST_SPANS = 64
"""Of offsets, that a table is read by; more of them cost more to compare with than its pieces are worth."""
_ENDLESS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Open:
    """blocks(p, block): those that are open. touching(p, op): sends that reach into one. parts: see `_parts_of`.

    folder: where all of it is stored, the sends and polls of `rest` under these names.
    """

    history: History
    batches: Batches
    folder: Place
    blocks: DataFrame
    touching: DataFrame
    parts: DataFrame
    rest: History

    def whole(self) -> DataFrame:
        """Rows of `placed` that are settled: none of their records lies in an open block."""
        return self.batches.placed.join(F.broadcast(self.touching), on=["p", "op"], how="left_anti")

    def strays(self) -> DataFrame:
        """(p, block): where values stand that were read in an open block, and sent in none."""
        read = self.rest.polls.select("p", "value").distinct()
        strays = read.join(self.rest.sends.select("p", "value"), on=["p", "value"], how="left_anti")
        home = placed_values(self.history, self.batches).join(F.broadcast(strays), on=["p", "value"], how="left_semi")
        return home.select("p", block_of(F.col("offset")).alias("block")).distinct()

    def widened(self, more: DataFrame, folder: Place) -> Open:
        """With more open blocks(p, block). Of the tables only that is read of which more is left now."""
        blocks = stored(self.blocks.unionByName(more).distinct(), folder / "open")
        touching = self.touching.unionByName(_touching(self.batches, more)).distinct()
        touching = stored(touching, folder / "touching")
        parts = stored(_parts_of(self.batches, blocks, touching), folder / "parts")
        changed = stored(parts.join(self.parts, on=[*parts.columns], how="left_anti"), folder / "changed")
        spans = _spans(changed)
        known, sent = self.rest.sends.where(F.col("offset").isNotNull()), _placed(self.history.sends)
        sends = _out_of(known, changed).unionByName(_within(_in_spans(sent, spans), changed))
        polls = _out_of(self.rest.polls, changed).unionByName(_within(_in_spans(self.history.polls, spans), changed))
        rest = _stored_rest(self.history, sends.unionByName(_loose(self.batches, touching)), polls, folder)
        return Open(self.history, self.batches, folder, blocks, touching, parts, rest)

    def counts(self, blocks: DataFrame) -> dict[str, dict[str, int]]:
        """Settled.counts. blocks: all, with `returned` and `compared`."""
        n = F.col("last") - F.col("base") + 1
        placed = (
            self.whole()
            .groupBy("p")
            .agg(
                F.sum(F.when(F.col("acked"), n)).alias("acked"),
                F.sum(F.when(~F.col("acked"), n)).alias("found"),
                F.count_if(n > 1).alias("batches"),
            )
        )
        silent = (
            self.batches.loose.where(F.col("fate") == SILENT)
            .groupBy("p")
            .agg(
                F.count_if(F.col("outcome") == "info").alias("unknown"),
                F.count_if(F.col("outcome") == "fail").alias("failed"),
                F.count_distinct(F.when(F.col("of") > 1, F.col("op"))).alias("silent_batches"),
            )
        )
        reads = blocks.groupBy("p").agg(F.sum("returned").alias("all_reads"))
        rest_reads = self.rest.polls.groupBy("p").agg(F.count(F.lit(1)).alias("rest_reads"))
        joined = reads
        for frame in (rest_reads, placed, silent, self._compared(blocks)):
            joined = joined.join(frame, on="p", how="full_outer")
        return {row["p"]: _of_row(row.asDict()) for row in joined.collect()}

    def _compared(self, blocks: DataFrame) -> DataFrame:
        beside = self.parts.where(F.col("head") != _ENDLESS)
        begin, end = F.col("block") * BLOCK, (F.col("block") + 1) * BLOCK
        settled = F.greatest(F.coalesce("tail", end) - F.coalesce("head", begin), F.lit(0))
        return (
            blocks.join(F.broadcast(self.blocks), on=["p", "block"], how="left_anti")
            .join(F.broadcast(beside), on=["p", "block"], how="left")
            .groupBy("p")
            .agg(F.sum(settled * F.col("compared")).alias("compared"))
        )


def opened_at(history: History, batches: Batches, blocks: DataFrame, folder: Place) -> Open:
    """blocks(p, block): those that are not settled. folder: scratch space."""
    touching = stored(_touching(batches, blocks).distinct(), folder / "touching")
    parts = stored(_parts_of(batches, blocks, touching), folder / "parts")
    sends = _within(_placed(history.sends), parts).unionByName(_loose(batches, touching))
    rest = _stored_rest(history, sends, _within(history.polls, parts), folder)
    return Open(history, batches, folder, blocks, touching, parts, rest)


def placed_values(history: History, batches: Batches) -> DataFrame:
    """(p, offset, value): where each value is known to stand."""
    acked = _placed(history.sends).select("p", "offset", "value")
    read = batches.loose.where(F.col("fate") == PLACED).select("p", F.col("low").alias("offset"), "value")
    return acked.unionByName(read)


def _placed(sends: DataFrame) -> DataFrame:
    return sends.where(F.col("offset").isNotNull())


def _stored_rest(history: History, sends: DataFrame, polls: DataFrame, folder: Place) -> History:
    return replace(history, sends=stored(sends, folder / "sends"), polls=stored(polls, folder / "polls"))


def _touching(batches: Batches, blocks: DataFrame) -> DataFrame:
    """(p, op), not distinct: sends of which something lies in one of these blocks."""
    spans = batches.placed.select("p", "op", blocks_between(F.col("base"), F.col("last")).alias("block"))
    return spans.join(F.broadcast(blocks), on=["p", "block"], how="left_semi").select("p", "op")


def _parts_of(batches: Batches, blocks: DataFrame, touching: DataFrame) -> DataFrame:
    """(p, block, head, tail): of every block that has records which are not settled: those below `head`, and from
    `tail` on. In one that is not open they are of sends that reach into a neighbour that is.
    """
    reaching = batches.placed.join(F.broadcast(touching), on=["p", "op"], how="left_semi")
    begin, end = F.col("block") * BLOCK, (F.col("block") + 1) * BLOCK
    beside = (
        reaching.where(block_of(F.col("base")) != block_of(F.col("last")))
        .select("p", "base", "last", blocks_between(F.col("base"), F.col("last")).alias("block"))
        .select(
            "p",
            "block",
            F.when(F.col("base") <= begin, F.col("last") + 1).otherwise(begin).alias("head"),
            F.when(F.col("base") > begin, F.col("base")).otherwise(end).alias("tail"),
        )
    )
    endless = F.lit(_ENDLESS)
    whole = blocks.select("p", "block", endless.alias("head"), endless.alias("tail"))
    parts = whole.unionByName(beside).groupBy("p", "block")
    return parts.agg(F.max("head").alias("head"), F.min("tail").alias("tail"))


def _within(rows: DataFrame, parts: DataFrame) -> DataFrame:
    """Rows at offsets that are not settled, by these parts."""
    placed = rows.withColumn("block", block_of(F.col("offset")))
    # One number is looked for several times as fast as a text and a number, and most rows go at that.
    number = F.xxhash64("p", "block")
    near = placed.join(F.broadcast(parts.select(number.alias("number"))), on=number == F.col("number"), how="left_semi")
    joined = near.join(F.broadcast(parts), on=["p", "block"], how="inner")
    inside = (F.col("offset") < F.col("head")) | (F.col("offset") >= F.col("tail"))
    return joined.where(inside).select(*rows.columns)


def _loose(batches: Batches, touching: DataFrame) -> DataFrame:
    """Sends that nothing acknowledged, and that are not settled."""
    loud = batches.loose.where(F.col("fate") == LOUD).select("p", "op")
    ops = F.broadcast(loud.unionByName(touching).distinct())
    return batches.unacknowledged.join(ops, on=["p", "op"], how="left_semi")


def _out_of(rows: DataFrame, blocks: DataFrame) -> DataFrame:
    """Rows at offsets in none of the blocks(p, block)."""
    placed = rows.withColumn("block", block_of(F.col("offset")))
    return placed.join(F.broadcast(blocks), on=["p", "block"], how="left_anti").select(*rows.columns)


def _spans(blocks: DataFrame) -> list[tuple[int, int]]:
    """First and last number of each run of the blocks(p, block), whatever the partition; none where they are many."""
    numbers = blocks.select("block").distinct().limit(MOST_SPANS * 8).collect()
    if len(numbers) == MOST_SPANS * 8:
        return []
    spans: list[tuple[int, int]] = []
    for number in sorted(row["block"] for row in numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans if len(spans) <= MOST_SPANS else []


def _in_spans(rows: DataFrame, spans: Sequence[tuple[int, int]]) -> DataFrame:
    """Rows of which some may lie in blocks with these numbers; all where there are none. As a condition on offsets
    alone, by which a table is not read where it has no others.
    """
    within: list[Column] = [F.col("offset").between(low * BLOCK, (high + 1) * BLOCK - 1) for low, high in spans]
    near = F.lit(not within)
    for one in within:
        near = near | one
    return rows.where(near)


def _of_row(row: Mapping[str, int | None]) -> dict[str, int]:
    counts = {name: int(value or 0) for name, value in row.items() if name != "p"}
    reads = counts.pop("all_reads") - counts.pop("rest_reads")
    return {**counts, "reads": reads}
