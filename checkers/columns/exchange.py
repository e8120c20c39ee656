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
from checkers.columns.passes import dealt, paths_of
from checkers.columns.pieces import CutContent, CutPath, OfPartition, Piece, Together, slot_of
from checkers.columns.work import Work
from checkers.spark.places import Place, Stored, address
from checkers.spark.workers import by_value

_T = TypeVar("_T")
_SLOTS_A_CORE = 16
"""Tasks, so that one seldom has two partitions where another one has none."""


def by_partition(
    spark: SparkSession, of_tables: Sequence[tuple[Place, Work]], work: OfPartition[_T], package: ModuleType
) -> RDD[tuple[str, _T]]:
    """What is made of each partition of what comes of the files of these tables. package: where all work is defined."""
    slots = _SLOTS_A_CORE * spark.sparkContext.defaultParallelism
    pieces = _pieces(spark, of_tables, package).partitionBy(slots, by_value(slot_of, checkers.columns))
    return pieces.mapPartitions(by_value(by_value(Together(work), package), checkers.columns))


def _pieces(spark: SparkSession, of_tables: Sequence[tuple[Place, Work]], package: ModuleType) -> RDD[Piece]:
    """Of tables that all workers see one task has files of several: it is told of its work once."""
    seen = [(table, work) for table, work in of_tables if not isinstance(table, Stored)]
    handed = [_handed_over(spark, table, work, package) for table, work in of_tables if isinstance(table, Stored)]
    tasks = [(nth, path) for nth, (table, _) in enumerate(seen) for path in paths_of(table)]
    cut = by_value(by_value(CutPath([work for _, work in seen]), package), checkers.columns)
    return spark.sparkContext.union([dealt(spark, tasks).flatMap(cut), *handed])


def _handed_over(spark: SparkSession, table: Stored, work: Work, package: ModuleType) -> RDD[Piece]:
    contents = spark.read.format("binaryFile").load(address(table)).select("content")
    return contents.rdd.flatMap(by_value(by_value(CutContent(work), package), checkers.columns))
