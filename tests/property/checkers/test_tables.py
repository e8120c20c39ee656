"""Frames that the checkers compute once, and unions: same rows, and shorter plans (checkers/spark/tables.py)."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.spark.tables import kept, one_piece
from checkers.verdicts.findings import union
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]


def test_what_is_made_of_a_kept_frame_is_planned_from_its_cache(spark: SparkSession) -> None:
    made = kept(spark.range(4).select((F.col("id") * 2).alias("twice"))).where(F.col("twice") > 2)
    assert kind_of_source(made) == "InMemoryRelation"
    with pyspark_sockets():
        assert [row.twice for row in made.collect()] == [4, 6]


def test_kept_frame_may_be_joined_with_itself(spark: SparkSession) -> None:
    frame = kept(spark.range(4).select("id", (F.col("id") + 1).alias("next")))
    pairs = frame.alias("a").join(frame.alias("b"), on=F.col("a.next") == F.col("b.id"))
    with pyspark_sockets():
        assert sorted((row[0], row[1]) for row in pairs.select("a.id", "b.id").collect()) == [(0, 1), (1, 2), (2, 3)]


def test_union_in_a_short_job_is_grouped_without_a_shuffle(spark: SparkSession) -> None:
    sides = [one_piece(spark.range(size).withColumn("by", F.col("id") % 2)) for size in (3, 4, 5)]
    counted = union(sides).groupBy("by").count()
    assert "Exchange" not in counted._jdf.queryExecution().executedPlan().treeString()
    with pyspark_sockets():
        assert sorted((row[0], row[1]) for row in counted.collect()) == [(0, 7), (1, 5)]


def kind_of_source(made: DataFrame) -> str:
    """What a frame of one step reads from, in its plan before anything is replaced in it."""
    return str(made._jdf.queryExecution().analyzed().child().getClass().getSimpleName())
