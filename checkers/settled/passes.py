"""The passes over a history's long tables, each file by a worker (`scans`), and what comes of them as frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

import checkers.settled
from checkers.columns.numbers import numbers, stretches
from checkers.columns.passes import passed
from checkers.settled.scans import Left, Parts, Placed, Returned, Sent, Values
from checkers.spark.places import Place


def _longs(*names: str) -> tuple[T.StructField, ...]:
    return tuple(T.StructField(name, T.LongType()) for name in names)


_P = T.StructField("p", T.StringType())
_SUMS = T.StructType([_P, *_longs("block", "n", "unsound", "offsets", "one", "other")])
_FEW = T.StructType([*_longs("few", "n", "bits")])
_FOUND = T.StructType([_P, *_longs("value", "offset")])


@dataclass(frozen=True, slots=True)
class OfSends:
    """given, few: see `scans.Sent`. unacknowledged: rows of sends without an offset, of which there are so many
    (`loose`). odd: rows that are not plain.
    """

    given: DataFrame
    few: DataFrame
    unacknowledged: DataFrame
    odd: int
    loose: int


@dataclass(frozen=True, slots=True)
class OfPolls:
    """returned, found: see `scans.Returned`. odd: records without an offset."""

    returned: DataFrame
    found: DataFrame
    odd: int


def sent(sends: DataFrame, table: Place, folder: Place) -> OfSends:
    """table: where `sends` is stored. folder: scratch space."""
    odd = T.StructType([*_longs("odd", "loose")])
    kinds = {"given": _SUMS, "few": _FEW, "unacknowledged": sends.schema, "odd": odd}
    made = passed(sends.sparkSession, table, Sent(), checkers.settled, folder / "of-sends", kinds)
    rows = made["odd"].collect()
    return OfSends(
        made["given"],
        made["few"],
        made["unacknowledged"],
        sum(row["odd"] for row in rows),
        sum(row["loose"] for row in rows),
    )


def placed(loose: DataFrame, fate: str, table: Place, folder: Place) -> DataFrame:
    """`given` of loose values of this fate. table: where `loose` is stored."""
    made = passed(loose.sparkSession, table, Placed(fate), checkers.settled, folder / "of-loose", {"given": _SUMS})
    return made["given"]


def returned(polls: DataFrame, unacknowledged: DataFrame, table: Place, folder: Place) -> OfPolls:
    """What polls returned, and where values that nothing acknowledged were. table: where `polls` is stored."""
    spark = polls.sparkSession
    values: Values = {p: of_p for p, (of_p,) in _by_partition(unacknowledged, "value").items()}
    kinds = {"returned": _SUMS, "found": _FOUND, "odd": T.StructType([*_longs("odd")])}
    work = Returned(spark.sparkContext.broadcast(values))
    made = passed(spark, table, work, checkers.settled, folder / "of-polls", kinds)
    return OfPolls(made["returned"], made["found"], sum(row["odd"] for row in made["odd"].collect()))


def left(rows: DataFrame, parts: DataFrame, table: Place, folder: Place) -> DataFrame:
    """Rows at offsets that are not settled. parts(p, block, head, tail). table: where `rows` is stored."""
    spark = rows.sparkSession
    work = Left(spark.sparkContext.broadcast(_by_partition(parts, "block", "head", "tail")))
    return passed(spark, table, work, checkers.settled, folder, {"left": rows.schema})["left"]


def _by_partition(rows: DataFrame, *names: str) -> Parts:
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
    pieces = [np.split(one[order], starts[1:]) for one in columns]
    keys = [column.dictionary[int(number)].as_py() for number in p[order[starts]]]
    return {key: of_p for key, *of_p in zip(keys, *pieces, strict=True)}
