"""More blocks opened later leave the same as all of them opened at once, wherever the tables are."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks.checkers.planted import Anomaly
from benchmarks.checkers.shape import Shape
from benchmarks.checkers.stored import TABLES, write_closing, write_unit
from checkers.history.load import stored_history
from checkers.settled import passes
from checkers.settled.batches import batches_of
from checkers.settled.opened import opened_at
from checkers.spark.places import Files, Stored
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]

FEW = Shape(12, 5)
FIRST = {("bench-0", 3), ("bench-0", 4), ("bench-5", 9)}
LATER = (
    {("bench-0", 2), ("bench-0", 5), ("bench-3", 7), ("bench-5", 9), ("bench-5", 11)},
    {(f"bench-{p}", block) for p in (1, 2) for block in range(0, 18, 2)},
)


def _rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def test_widened_is_what_is_opened_at_once(spark: SparkSession, tmp_path: Path) -> None:
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
        # What Spark takes for no piece of the table.
        (tmp_path / "sends" / "_temporary" / "0").mkdir(parents=True)
        for left_behind in (".part.parquet", "_temporary/0/part.parquet"):
            (tmp_path / "sends" / left_behind).write_bytes(b"half of a fi")
        sent = passes.sent(whole.sends, tmp_path / "sends", tmp_path / "batches")
        read = passes.returned(whole.polls, sent.unacknowledged, tmp_path / "polls", tmp_path / "batches")
        batches = batches_of(whole, sent, read.found, tmp_path / "batches")
        first = opened_at(whole, batches, tmp_path, blocks(FIRST), tmp_path / "first")
        for nth, later in enumerate(LATER):
            at_once = opened_at(whole, batches, tmp_path, blocks(FIRST | later), tmp_path / f"at-once-{nth}")
            widened = first.widened(blocks(later), tmp_path / f"widened-{nth}")
            assert _rows(widened.rest.sends) == _rows(at_once.rest.sends) != _rows(first.rest.sends)
            assert _rows(widened.rest.polls) == _rows(at_once.rest.polls) != _rows(first.rest.polls)
            assert _rows(widened.parts) == _rows(at_once.parts)
            assert _rows(widened.touching) == _rows(at_once.touching)
        # As of a place that only Hadoop knows: nothing is asked for but through Spark.
        elsewhere = Stored(tmp_path.as_uri(), cast(Files, None))
        sent = passes.sent(whole.sends, elsewhere / "sends", elsewhere / "elsewhere")
        read = passes.returned(whole.polls, sent.unacknowledged, elsewhere / "polls", elsewhere / "elsewhere")
        batches = batches_of(whole, sent, read.found, elsewhere / "elsewhere")
        same = opened_at(whole, batches, elsewhere, blocks(FIRST), elsewhere / "elsewhere")
        assert _rows(same.rest.sends) == _rows(first.rest.sends)
        assert _rows(same.rest.polls) == _rows(first.rest.polls)
