"""The passes over a history's long tables, each file by a worker (`scans`), and what comes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pyspark import RDD
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

import checkers.settled
from checkers.columns.exchange import by_partition
from checkers.columns.numbers import Numbers, numbers, stretches
from checkers.columns.passes import passed
from checkers.columns.work import Work
from checkers.history.load import History
from checkers.settled.answers import ANSWERS, TEXTS, answers_of
from checkers.settled.drained import Turn
from checkers.settled.left import Left, OfOperations, Parts
from checkers.settled.partition import LONGS, UNACKNOWLEDGED, Asked, Judge, Plain, plain
from checkers.settled.scans import Columns, Homes, Operations, Returned, Sent, Values
from checkers.spark.places import Place
from checkers.spark.tables import stored

Partitions = RDD[tuple[str, Plain]]
"""Of each `partition.Partition`, as its fields."""


def _longs(*names: str) -> tuple[T.StructField, ...]:
    return tuple(T.StructField(name, T.LongType()) for name in names)


_P = T.StructField("p", T.StringType())
_SUMS = T.StructType([_P, *_longs("block", "n", "unsound", "offsets", "one", "other")])
_FEW = T.StructType([_P, *_longs("few", "n", "bits")])
_FOUND = T.StructType([_P, *_longs("value", "offset")])


@dataclass(frozen=True, slots=True)
class OfSends:
    """unacknowledged: rows of sends without an offset, of which there are so many (`loose`). odd: rows that are not
    plain.
    """

    unacknowledged: DataFrame
    odd: int
    loose: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """Where the tables of a history are, and where passes leave what they made of them."""

    tables: Place
    folder: Place

    def of_sends(self, name: str) -> Place:
        return self.folder / "of-sends" / name

    def of_polls(self, name: str) -> Place:
        return self.folder / "of-polls" / name


def sent(sends: DataFrame, at: Scratch) -> OfSends:
    odd = T.StructType([*_longs("odd", "loose")])
    kinds = {"given": _SUMS, "few": _FEW, "unacknowledged": sends.schema, "odd": odd}
    made = passed(sends.sparkSession, at.tables / "sends", Sent(), checkers.settled, at.folder / "of-sends", kinds)
    rows = made["odd"].collect()
    return OfSends(made["unacknowledged"], sum(row["odd"] for row in rows), sum(row["loose"] for row in rows))


def returned(polls: DataFrame, unacknowledged: DataFrame, at: Scratch) -> int:
    """What polls returned, and where values that nothing acknowledged were: how many records are without an offset."""
    spark = polls.sparkSession
    values: Values = {p: of_p for p, (of_p,) in by_p(unacknowledged, "value").items()}
    kinds = {"returned": _SUMS, "found": _FOUND, "odd": T.StructType([*_longs("odd")])}
    work = Returned(spark.sparkContext.broadcast(values))
    made = passed(spark, at.tables / "polls", work, checkers.settled, at.folder / "of-polls", kinds)
    return sum(row["odd"] for row in made["odd"].collect())


def homes(sends: DataFrame, wanted: Values, shift: int, at: Scratch) -> dict[str, Numbers]:
    """Partition → offsets at which values that are wanted were acknowledged (`scans.Homes`)."""
    if not wanted:
        return {}
    spark = sends.sparkSession
    work = Homes(spark.sparkContext.broadcast(wanted), shift)
    made = passed(spark, at.tables / "sends", work, checkers.settled, at.folder / "of-homes", {"homes": _FOUND})
    return {p: offset for p, (offset,) in by_p(made["homes"], "offset").items()}


def answers(history: History, at: Scratch) -> None:
    """What answers say of the logs."""
    stored(answers_of(history.requests), at.folder / ANSWERS)


def judged(history: History, twice: Mapping[str, Numbers], at: Scratch) -> Partitions:
    """What is known of each partition. twice: blocks in which values were acknowledged of which another one of the same
    number may have been sent.
    """
    spark = history.ops.sparkSession
    sums = tuple(_SUMS.names)
    of_tables: list[tuple[Place, Work]] = [
        (at.of_sends("given"), Columns("given", sums)),
        (at.of_sends("few"), Columns("few", tuple(_FEW.names))),
        (at.of_sends("unacknowledged"), Columns("unacknowledged", UNACKNOWLEDGED, ("p", "outcome"))),
        (at.of_polls("returned"), Columns("returned", sums)),
        (at.of_polls("found"), Columns("found", tuple(_FOUND.names))),
        (at.folder / ANSWERS, Columns(ANSWERS, ("p", *LONGS[ANSWERS], *TEXTS), ("p", *TEXTS))),
        (at.tables / "ops", Operations()),
    ]
    asked = Asked(twice, _finished(history), _stops(history))
    return by_partition(spark, of_tables, Judge(spark.sparkContext.broadcast(plain(asked))), checkers.settled)


def left(rows: DataFrame, table: Place, parts: Parts, before: Parts | None, to: Place) -> None:
    """Rows at offsets that are not settled by these parts, and were by those before. table: where `rows` is stored."""
    context = rows.sparkSession.sparkContext
    work = Left(context.broadcast(parts), None if before is None else context.broadcast(before))
    passed(rows.sparkSession, table, work, checkers.settled, to, {"left": rows.schema})


def of_sends(rows: DataFrame, table: Place, ops: Mapping[str, Numbers], to: Place) -> None:
    """Rows of these sends. table: where `rows` is stored."""
    work = OfOperations(rows.sparkSession.sparkContext.broadcast(ops))
    passed(rows.sparkSession, table, work, checkers.settled, to, {"left": rows.schema})


def by_p(rows: DataFrame, *names: str) -> dict[str, list[Numbers]]:
    """Partition → columns of its rows, in the order of the first. What has nothing there is of no use."""
    known = rows.where(F.col("p").isNotNull() & F.col(names[0]).isNotNull())
    found = known.select("p", *names).toArrow().combine_chunks()
    column = found.column("p").combine_chunks().dictionary_encode()
    p = column.indices.to_numpy(zero_copy_only=False)
    columns = [numbers(found.column(name).combine_chunks())[0] for name in names]
    order = np.lexsort((columns[0], p))
    starts = stretches(p[order])
    if not len(starts):
        return {}
    split = [np.split(one[order], starts[1:]) for one in columns]
    keys = [column.dictionary[int(number)].as_py() for number in p[order[starts]]]
    return {key: list(of_p) for key, *of_p in zip(keys, *split, strict=True)}


def _finished(history: History) -> dict[str, list[Turn]]:
    """Partition → drains that came to their end."""
    ended = history.marks.where(F.col("f") == "drain-complete").select("p", "phase", "leader", "reader").distinct()
    found = defaultdict(list)
    for p, *turn in ended.collect():
        found[p].append(tuple(turn))
    return dict(found)


def _stops(history: History) -> list[int]:
    """When each fault was first taken back."""
    stopped = history.marks.where((F.col("kind") == "nemesis") & (F.col("f") == "stop"))
    return [row.at for row in stopped.groupBy("fault_id").agg(F.min("time_ns").alias("at")).collect()]
