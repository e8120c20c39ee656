"""What is left of a history where some of its blocks are open: their records, and the whole of each send that reaches
into one. All else is settled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.history.load import History
from checkers.settled import passes
from checkers.settled.batches import LOUD, PLACED, SILENT, Batches
from checkers.settled.blocks import block_of, blocks_between
from checkers.settled.scans import BLOCK
from checkers.spark.places import Place
from checkers.spark.tables import read_table, stored, write_table

_ENDLESS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Open:
    """blocks(p, block): those that are open. touching(p, op): sends that reach into one. parts: see `_parts_of`.

    tables: where those of the history are. places: where the sends and polls of `rest` are, by these names.
    """

    history: History
    batches: Batches
    tables: Place
    places: Mapping[str, Sequence[Place]]
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
        left = _left(self.history, self.batches, self.tables, changed, touching, folder)
        for name, rows in (("sends", _placed(self.rest.sends)), ("polls", self.rest.polls)):
            write_table(_out_of(rows, changed), folder / "as-before" / name)
            left[name].append(folder / "as-before" / name)
        return _opened(self.history, self.batches, self.tables, left, blocks, touching, parts)

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


def opened_at(history: History, batches: Batches, tables: Place, blocks: DataFrame, folder: Place) -> Open:
    """blocks(p, block): those that are not settled. tables: where those of the history are. folder: scratch space."""
    touching = stored(_touching(batches, blocks).distinct(), folder / "touching")
    parts = stored(_parts_of(batches, blocks, touching), folder / "parts")
    left = _left(history, batches, tables, parts, touching, folder)
    return _opened(history, batches, tables, left, blocks, touching, parts)


def _left(
    history: History, batches: Batches, tables: Place, parts: DataFrame, touching: DataFrame, folder: Place
) -> dict[str, list[Place]]:
    """Where the sends and polls are that lie in these parts, and sends without an offset that are not settled."""
    passes.left(history.sends, parts, tables / "sends", folder / "sends")
    passes.left(history.polls, parts, tables / "polls", folder / "polls")
    write_table(_loose(batches, touching), folder / "sends" / "loose")
    return {"sends": [folder / "sends" / "left", folder / "sends" / "loose"], "polls": [folder / "polls" / "left"]}


def _opened(
    history: History,
    batches: Batches,
    tables: Place,
    places: Mapping[str, Sequence[Place]],
    blocks: DataFrame,
    touching: DataFrame,
    parts: DataFrame,
) -> Open:
    spark = blocks.sparkSession
    sends = read_table(spark, history.sends.schema, *places["sends"])
    polls = read_table(spark, history.polls.schema, *places["polls"])
    return Open(history, batches, tables, places, blocks, touching, parts, replace(history, sends=sends, polls=polls))


def placed_values(history: History, batches: Batches) -> DataFrame:
    """(p, offset, value): where each value is known to stand."""
    acked = _placed(history.sends).select("p", "offset", "value")
    read = batches.loose.where(F.col("fate") == PLACED).select("p", F.col("low").alias("offset"), "value")
    return acked.unionByName(read)


def _placed(sends: DataFrame) -> DataFrame:
    return sends.where(F.col("offset").isNotNull())


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


def _loose(batches: Batches, touching: DataFrame) -> DataFrame:
    """Sends that nothing acknowledged, and that are not settled."""
    loud = batches.loose.where(F.col("fate") == LOUD).select("p", "op")
    ops = F.broadcast(loud.unionByName(touching).distinct())
    return batches.unacknowledged.join(ops, on=["p", "op"], how="left_semi")


def _out_of(rows: DataFrame, blocks: DataFrame) -> DataFrame:
    """Rows at offsets in none of the blocks(p, block)."""
    placed = rows.withColumn("block", block_of(F.col("offset")))
    return placed.join(F.broadcast(blocks), on=["p", "block"], how="left_anti").select(*rows.columns)


def _of_row(row: Mapping[str, int | None]) -> dict[str, int]:
    counts = {name: int(value or 0) for name, value in row.items() if name != "p"}
    reads = counts.pop("all_reads") - counts.pop("rest_reads")
    return {**counts, "reads": reads}
