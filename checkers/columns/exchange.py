"""Rows of several tables → what is made of each partition, all of whose rows one worker gets.

A worker holds the rows of the partitions that come to its task, and those of one partition as arrays: what is sent
there has to be columns of numbers, and no more of them than are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TypeVar

from pyspark import RDD
from pyspark.sql import SparkSession

import checkers.columns
from checkers.columns.passes import dealt_paths, tasks_for
from checkers.columns.pieces import CutContent, CutPath, OfPartition, Piece, Together, slot_of
from checkers.columns.work import Work
from checkers.spark.places import Place, Stored, address
from checkers.spark.workers import by_value

Pieces = RDD[Piece]
_T = TypeVar("_T")
_SLOTS_A_CORE = 16
"""Tasks, so that one seldom has two partitions where another one has none."""


def pieces(spark: SparkSession, table: Place, work: Work, package: ModuleType) -> Pieces:
    """Of what comes of a table's files. package: where `work` is defined."""
    mine = by_value(by_value(work, package), checkers.columns)
    if isinstance(table, Stored):
        contents = spark.read.format("binaryFile").load(address(table))
        return contents.select("content").rdd.flatMap(CutContent(mine))
    paths = dealt_paths(spark, table)
    return spark.sparkContext.parallelize(paths, tasks_for(spark, len(paths))).flatMap(CutPath(mine))


def by_partition(
    spark: SparkSession, of_tables: Sequence[Pieces], work: OfPartition[_T], package: ModuleType
) -> RDD[tuple[str, _T]]:
    """What is made of each partition that has rows. package: where `work` is defined."""
    mine = by_value(by_value(Together(work), package), checkers.columns)
    slots = _SLOTS_A_CORE * spark.sparkContext.defaultParallelism
    together = spark.sparkContext.union(list(of_tables)).partitionBy(slots, by_value(slot_of, checkers.columns))
    return together.mapPartitions(mine)
