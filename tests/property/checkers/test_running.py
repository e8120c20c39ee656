"""Running counts and maxima by slices are those of one window over all rows, however wide a slice is."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from checkers.spark.running import Fold, by_slices, running
from tests.support.judging import pyspark_sockets

pytestmark = pytest.mark.spark

FOLDS: dict[str, Fold] = {"count": ("count", "x"), "most": ("max", "x"), "latest": ("max", "y")}
ROWS = 300
Told = tuple[int | None, ...]


def _rows() -> list[Told]:
    """(at, tie, x, y): some instants have many rows, some slices none, and no row before some time has a y."""
    random = Random(7)
    made: list[Told] = []
    for tie in range(ROWS):
        at = random.choice((random.randrange(200), random.randrange(10_000), 5_000))
        x = random.choice((None, random.randrange(-50, 50)))
        made.append((at, tie, x, random.randrange(1000) if at > 3_000 and random.random() < 0.2 else None))
    random.shuffle(made)
    return made


def _plainly(rows: list[Told]) -> list[Told]:
    """(at, tie, count, most, latest) of each row, by the order."""
    found: list[Told] = []
    count, most, latest = 0, None, None
    for at, tie, x, y in sorted(rows, key=lambda row: (row[0], row[1])):
        count += x is not None
        most = x if most is None or (x is not None and x > most) else most
        latest = y if latest is None or (y is not None and y > latest) else latest
        found.append((at, tie, count, most, latest))
    return found


def _told(rows: list[Row]) -> list[Told]:
    names = ("at", "tie", "count", "most", "latest")
    return sorted((tuple(row[name] for name in names) for row in rows), key=lambda row: row[:2])


@pytest.mark.parametrize("bits", [None, 0, 7, 12, 40])
def test_folds_are_those_of_a_plain_loop_however_wide_a_slice_is(spark: SparkSession, bits: int | None) -> None:
    made = _rows()
    order = [F.col("at"), F.col("tie")]
    with pyspark_sockets():
        frame = spark.createDataFrame(made, "at bigint, tie bigint, x bigint, y bigint")
        slices = F.shiftright("at", bits or 0)
        taken = running(frame, slices, order, FOLDS) if bits is None else by_slices(frame, slices, order, FOLDS)
        assert set(taken.columns) == {*frame.columns, *FOLDS}
        found = taken.collect()
    assert _told(found) == _plainly(made)
