"""Blocks of a log's offsets, and in which of them all agree: what was acknowledged is what was read, whoever read it.

Input grain: one row per (partition, block, stretch of a file), of what was sent and of what was read (`scans.sums`);
output grain: one row per (partition, block). A block is BLOCK offsets from a multiple of BLOCK on. It *agrees* where
each of its offsets was given to one value, and each of them was read as often as any other of the block, every time
with that value, and intact. That is told by counts and sums of two hashes of (offset, value), 40 bits each: of what was
read as many times those of what was sent as it was read. That sums agree though records do not has a chance of 2**-80
in a block, and no record can know its hashes.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.settled.scans import BLOCK, SHIFT

_MOST_READS = 1 << 16
"""Of one offset; sums stay below 2**63."""


def block_of(offset: Column) -> Column:
    """Number of the block that an offset lies in."""
    return F.shiftright(offset, SHIFT)


def blocks_between(first: Column, last: Column) -> Column:
    """Numbers of the blocks that [first, last] touches, one row each (a generator)."""
    return F.explode(F.sequence(block_of(first), block_of(last)))


def agreeing_blocks(sent: DataFrame, read: DataFrame) -> DataFrame:
    """(p, block, agrees, returned): of every block in which something was sent or read; how many records were.

    sent, read: sums of where each value is known to stand, and of what polls returned.
    """
    given = sent.groupBy("p", "block").agg(
        F.sum("n").alias("given"), F.bit_or("offsets").alias("offsets"), *_sums("given_")
    )
    returned = read.groupBy("p", "block").agg(F.sum("n").alias("returned"), *_sums(""))
    times = F.floor(F.col("returned") / BLOCK)
    as_often = (times > 0) & (times <= _MOST_READS) & (times * BLOCK == F.col("returned"))
    same = (F.col("one") == times * F.col("given_one")) & (F.col("other") == times * F.col("given_other"))
    # -1 has every bit: no offset was given twice.
    whole = (F.col("given") == BLOCK) & (F.col("offsets") == -1) & (F.col("given_unsound") == 0)
    agrees = F.when(whole & (F.col("unsound") == 0) & as_often, same)
    return given.join(returned, on=["p", "block"], how="full_outer").select(
        "p",
        "block",
        F.coalesce(agrees, F.lit(False)).alias("agrees"),
        F.coalesce("returned", F.lit(0)).alias("returned"),
    )


def _sums(prefix: str) -> list[Column]:
    return [
        F.sum("unsound").alias(f"{prefix}unsound"),
        *[F.try_sum(name).alias(f"{prefix}{name}") for name in ("one", "other")],
    ]


def crowded(few: DataFrame) -> DataFrame:
    """(few): numbers `value >> SHIFT` among whose values one was sent twice. few(few, n, bits): of each file."""
    return (
        few.groupBy("few")
        .agg(F.sum("n").alias("n"), F.bit_count(F.bit_or("bits")).alias("values"))
        .where(F.col("n") != F.col("values"))
        .select("few")
    )
