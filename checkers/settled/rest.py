"""The rows that are left of a history's tables, stored, and read back by the session that is to judge them.

Records at offsets that are not settled, and the whole of each send of which something is; values that were read there,
and sent elsewhere, open the blocks where they stand besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import checkers.settled
from checkers.columns.numbers import Numbers
from checkers.history.load import History
from checkers.settled import passes
from checkers.settled.partition import Denied, Leave, Left, Stray, Told
from checkers.settled.passes import Partitions, Scratch
from checkers.settled.scans import SHIFT
from checkers.spark.places import Place
from checkers.spark.tables import read_table, stored
from checkers.spark.workers import by_value

MOST_STRAYS = 4_000_000
"""Values that were read and sent nowhere near; where there are more of them, nothing is settled."""

_DENIED = T.StructType(
    [
        T.StructField("p", T.StringType()),
        T.StructField("op", T.LongType()),
        T.StructField("node", T.StringType()),
        *[T.StructField(name, T.LongType()) for name in ("base_offset", "n_values", "invoke_ns", "complete_ns")],
        T.StructField("whole", T.BooleanType()),
    ]
)
"""Of `partition.Denied`."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left. left: by partition. sends, polls, ops: places of the rows of these tables, and of `acked` (see
    `Settled`).
    """

    left: Mapping[str, Left]
    sends: tuple[Place, ...]
    polls: tuple[Place, ...]
    ops: tuple[Place, ...]
    acked: Place


def told(partitions: Partitions, more: Mapping[str, Numbers]) -> dict[str, tuple[Told, Left]]:
    """What is told of each partition, and what is left of it. more: partition → blocks that are open besides."""
    leave = by_value(Leave(partitions.context.broadcast(more)), checkers.settled)
    return {p: (Told(**of_p), Left(**rest)) for p, (of_p, rest) in partitions.map(leave).collect()}


def kept(
    history: History, partitions: Partitions, left: Mapping[str, Left], at: Scratch, brief: SparkSession
) -> Kept | None:
    """None where too many values are strays. left: of each partition, where nothing is open besides. brief: a session
    for few rows.
    """
    folder = at.folder / "rest"
    sends, polls = _records(history, left, None, at, folder)
    loose = _loose(history, left, at, folder)
    polled = read_table(brief, history.polls.schema, *polls)
    known = read_table(brief, history.sends.schema, *sends, loose)
    read = polled.where(F.col("value").isNotNull()).select("p", "value").distinct()
    strays = stored(read.join(known, on=["p", "value"], how="left_anti"), folder / "strays")
    if strays.count() > MOST_STRAYS:
        return None
    more = _homes(history, partitions, passes.by_p(strays, "value"), at)
    if more:
        before, left = left, {p: rest for p, (_, rest) in told(partitions, more).items()}
        further = _records(history, left, before, at, at.folder / "further")
        sends, polls = (*sends, *further[0]), (*polls, *further[1])
        loose = _loose(history, left, at, at.folder / "further")
    acked, ops = _denied(history, partitions, more, folder)
    return Kept(left, (*sends, loose), polls, ops, acked)


def _records(
    history: History, left: Mapping[str, Left], before: Mapping[str, Left] | None, at: Scratch, folder: Place
) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Places of the sends and the polls at offsets that are not settled, and were before."""
    parts = {p: one.parts for p, one in left.items()}
    parts_before = None if before is None else {p: one.parts for p, one in before.items()}
    found = []
    for rows, name in ((history.sends, "sends"), (history.polls, "polls")):
        passes.left(rows, at.tables / name, parts, parts_before, folder / name)
        found.append((folder / name / "left",))
    return found[0], found[1]


def _loose(history: History, left: Mapping[str, Left], at: Scratch, folder: Place) -> Place:
    """Place of the sends that nothing acknowledged, and that are not settled."""
    ops = {p: one.loose for p, one in left.items() if len(one.loose)}
    passes.of_sends(history.sends, at.of_sends("unacknowledged"), ops, folder / "loose")
    return folder / "loose" / "left"


def _homes(
    history: History, partitions: Partitions, strays: Mapping[str, list[Numbers]], at: Scratch
) -> dict[str, Numbers]:
    """Partition → blocks where these values stand, as far as they were sent at all."""
    values = {p: of_p for p, (of_p,) in strays.items()}
    if not values:
        return {}
    acked = passes.homes(history.sends, values, 0, at)
    stray = by_value(Stray(partitions.context.broadcast(values)), checkers.settled)
    blocks = {p: [found] for p, found in partitions.map(stray).collect() if len(found)}
    for p, offset in acked.items():
        blocks.setdefault(p, []).append(offset >> SHIFT)
    return {p: np.unique(np.concatenate(of_p)) for p, of_p in blocks.items()}


def _denied(
    history: History, partitions: Partitions, more: Mapping[str, Numbers], folder: Place
) -> tuple[Place, tuple[Place, ...]]:
    """Places of `Settled.acked`, and of the operations that are left."""
    spark = history.ops.sparkSession
    rows = partitions.flatMap(by_value(Denied(partitions.context.broadcast(more)), checkers.settled))
    denied = stored(spark.createDataFrame(rows, _DENIED, verifySchema=False), folder / "denied")
    last = F.col("base_offset") + F.col("n_values") - 1
    acked = denied.where("whole").select("p", last.alias("offset"), F.col("complete_ns").alias("acked_ns"))
    stored(acked, folder / "acked")
    constant = {"f": F.lit("send"), "outcome": F.lit("ok"), "acks": F.lit(-1)}
    operations = denied.drop("whole").withColumns(constant)
    kinds = {field.name: field.dataType for field in history.ops.schema}
    of_kind = operations.select(*[F.col(name).cast(kinds[name]) for name in operations.columns])
    stored(of_kind, folder / "ops" / "denied")
    stored(history.ops.where(F.col("error") == "malformed"), folder / "ops" / "malformed")
    return folder / "acked", (folder / "ops" / "denied", folder / "ops" / "malformed")
