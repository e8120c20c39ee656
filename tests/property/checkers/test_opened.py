"""More blocks opened later leave the same as all of them opened at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.checkers.planted import Anomaly
from benchmarks.checkers.shape import Shape
from benchmarks.checkers.stored import TABLES, write_closing, write_unit
from checkers.history.load import stored_history
from checkers.settled import opened
from checkers.settled.batches import batches_of
from checkers.settled.opened import opened_at
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]

FEW = Shape(12, 5)
FIRST = {("bench-0", 3), ("bench-0", 4), ("bench-5", 9)}
LATER = (
    {("bench-0", 2), ("bench-0", 5), ("bench-3", 7), ("bench-5", 9), ("bench-5", 11)},
    # More than a table is read by.
    {(f"bench-{p}", block) for p in (1, 2) for block in range(0, 18, 2)},
)


def _rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def test_widened_is_what_is_opened_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "MOST_SPANS", 8)
    kinds = ("fabricated-value", "truncated-tail")
    anomalies = [Anomaly(kind, p, 6, 7, FEW.foreign_value(p)) for p, kind in enumerate(kinds)]
    for table in TABLES:
        (tmp_path / table).mkdir()
    for unit in FEW.units():
        write_unit(FEW, anomalies, tmp_path, unit)
    write_closing(FEW, anomalies, tmp_path)

    def blocks(of: set[tuple[str, int]]) -> DataFrame:
        return spark.createDataFrame(sorted(of), "p string, block bigint")

    with pyspark_sockets():
        whole = stored_history(spark, tmp_path)
        batches = batches_of(whole, tmp_path / "batches")
        first = opened_at(whole, batches, blocks(FIRST), tmp_path / "first")
        for nth, later in enumerate(LATER):
            at_once = opened_at(whole, batches, blocks(FIRST | later), tmp_path / f"at-once-{nth}")
            widened = first.widened(blocks(later), tmp_path / f"widened-{nth}")
            assert _rows(widened.rest.sends) == _rows(at_once.rest.sends) != _rows(first.rest.sends)
            assert _rows(widened.rest.polls) == _rows(at_once.rest.polls) != _rows(first.rest.polls)
            assert _rows(widened.parts) == _rows(at_once.parts)
            assert _rows(widened.touching) == _rows(at_once.touching)


def test_spans_join_neighbours_of_all_partitions_and_are_none_where_they_are_many(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "MOST_SPANS", 2)
    with pyspark_sockets():
        near = spark.range(3).select(F.format_string("bench-%d", "id").alias("p"), (F.col("id") + 4).alias("block"))
        assert opened._spans(near.unionByName(near.limit(0))) == [(4, 6)]
        apart = near.withColumn("block", F.col("block") * 2)
        assert opened._spans(apart) == []
