"""More blocks opened later leave the same as all of them opened at once, wherever the tables are."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks.checkers.planted import Anomaly
from benchmarks.checkers.shape import Shape
from benchmarks.checkers.stored import TABLES, write_closing, write_unit
from checkers.history.load import History, stored_history
from checkers.settled import passes
from checkers.settled.left import Parts
from checkers.settled.passes import Scratch
from checkers.settled.rest import told
from checkers.settled.unsettle import settled_of
from checkers.spark.places import Files, Place, Stored
from checkers.spark.tables import read_table
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]

FEW = Shape(12, 5)
FIRST = {"bench-0": [3, 4], "bench-5": [9]}
LATER = (
    {"bench-0": [2, 3, 4, 5], "bench-3": [7], "bench-5": [9, 11]},
    {**FIRST, **{f"bench-{p}": list(range(0, 18, 2)) for p in (1, 2)}},
)


def _rows(*frames: DataFrame) -> list[str]:
    return sorted(repr(row) for frame in frames for row in frame.collect())


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    kinds = ("fabricated-value", "truncated-tail", "duplicate")
    anomalies = [Anomaly(kind, p, 6, 7, FEW.foreign_value(p)) for p, kind in enumerate(kinds)]
    for table in TABLES:
        (folder / table).mkdir()
    for unit in FEW.units():
        write_unit(FEW, anomalies, folder, unit)
    write_closing(FEW, anomalies, folder)
    # What Spark takes for no piece of the table.
    (folder / "sends" / "_temporary" / "0").mkdir(parents=True)
    for left_behind in (".part.parquet", "_temporary/0/part.parquet"):
        (folder / "sends" / left_behind).write_bytes(b"half of a fi")
    return folder


def test_what_is_opened_later_is_left_besides(spark: SparkSession, tables: Path, tmp_path: Path) -> None:
    whole, at = stored_history(spark, tables), Scratch(tables, tmp_path)

    def left(name: str, parts: Parts, before: Parts | None, to: Path) -> DataFrame:
        rows: DataFrame = getattr(whole, name)
        passes.left(rows, tables / name, parts, before, to)
        return read_table(spark, rows.schema, to / "left")

    with pyspark_sockets():
        sent = passes.sent(whole.sends, at)
        assert not passes.returned(whole.polls, sent.unacknowledged, at)
        passes.answers(whole, at)
        partitions = passes.judged(whole, {}, at)

        def parts_of(blocks: dict[str, list[int]]) -> Parts:
            opened = {p: np.array(of_p, np.int64) for p, of_p in blocks.items()}
            return {p: rest.parts for p, (_, rest) in told(partitions, opened).items()}

        first = parts_of(FIRST)
        for nth, later in enumerate(LATER):
            more = parts_of(later)
            for name in ("sends", "polls"):
                of_first = left(name, first, None, tmp_path / f"{nth}-{name}-first")
                besides = left(name, more, first, tmp_path / f"{nth}-{name}-besides")
                at_once = left(name, more, None, tmp_path / f"{nth}-{name}-at-once")
                assert _rows(of_first, besides) == _rows(at_once) != _rows(of_first)


def test_by_a_uri_the_same_is_left_as_by_a_path(spark: SparkSession, tables: Path) -> None:
    def settled(place: Place) -> tuple[list[list[str]], object]:
        found = settled_of(stored_history(spark, tables), place)
        assert found is not None
        rest: History = found.rest
        rows = [_rows(frame) for frame in (rest.sends, rest.polls, rest.ops, found.acked)]
        return rows, (found.counts, found.available)

    with pyspark_sockets():
        here = settled(tables)
        # As of a place that only Hadoop knows: nothing is asked for but through Spark.
        assert settled(Stored(tables.as_uri(), cast(Files, None))) == here
    assert all(here[0][:2])
