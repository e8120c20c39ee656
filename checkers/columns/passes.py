"""Parquet files → Parquet files, by Spark's Python workers: one file is one piece of work, whatever its size.

Of a folder that all workers see, a worker reads a file itself and writes what comes of it; of a place that only Hadoop
knows, Spark hands the file over whole, which has to be well below 2 GB, and takes the rows back.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pyspark import RDD, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

import checkers.columns
from checkers.columns.work import OfContent, OfPath, Work
from checkers.spark.master import runs_here
from checkers.spark.places import Place, Stored, address, sizes_below
from checkers.spark.tables import check_shared, read_table, stored
from checkers.spark.workers import by_value

Kinds = Mapping[str, T.StructType]
"""Columns of what comes of a table, by its name."""
Frames = dict[str, DataFrame]
_T = TypeVar("_T")
_TASKS_A_CORE = 4
"""A worker is told of each task anew, which takes as long as to go through a short file."""


def passed(spark: SparkSession, table: Place, work: Work, package: ModuleType, out: Place, kinds: Kinds) -> Frames:
    """What comes of a table's files, stored below `out` by name. package: where `work` is defined."""
    if isinstance(table, Stored) or isinstance(out, Stored):
        return _handed_over(spark, table, work, package, out, kinds)
    for name in kinds:
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).mkdir(parents=True)
    tasks = [(path, str(out.absolute()), f"{nth:06d}") for nth, path in enumerate(paths_of(table))]
    of_path = by_value(by_value(OfPath(work), package), checkers.columns)
    counts = dealt(spark, tasks).map(of_path).collect()
    frames = {name: read_table(spark, kind, out / name) for name, kind in kinds.items()}
    if not runs_here(spark):
        for name, frame in frames.items():
            check_shared(frame, sum(of_file.get(name, 0) for of_file in counts), out / name)
    return frames


def paths_of(table: Path) -> list[str]:
    """Of a table's files, the longest first."""
    sizes = {name: size for name, size in sizes_below(table).items() if _is_read(name)}
    return [str((table / name).absolute()) for name in sorted(sizes, key=lambda name: (-sizes[name], name))]


def dealt(spark: SparkSession, work: Sequence[_T]) -> RDD[_T]:
    """Pieces of work, the longest first, as tasks of which each has long ones and short ones."""
    at_once = max(1, min(len(work), _TASKS_A_CORE * spark.sparkContext.defaultParallelism))
    return spark.sparkContext.parallelize([one for first in range(at_once) for one in work[first::at_once]], at_once)


def _is_read(name: str) -> bool:
    """Whether Spark takes it for a piece of the table: what a task did not end, or a tool has hidden, it passes by."""
    return not any(part.startswith((".", "_")) for part in name.split("/"))


def _handed_over(
    spark: SparkSession, table: Place, work: Work, package: ModuleType, out: Place, kinds: Kinds
) -> Frames:
    names = {name: tuple(kind.names) for name, kind in kinds.items()}
    of_content = by_value(by_value(OfContent(work, names), package), checkers.columns)
    contents = spark.read.format("binaryFile").load(address(table))
    rows = contents.select("content").rdd.flatMap(of_content).persist(StorageLevel.DISK_ONLY)
    try:
        return {name: stored(_named(spark, rows, name, kind), out / name) for name, kind in kinds.items()}
    finally:
        rows.unpersist()


def _named(spark: SparkSession, rows: RDD[tuple[str, Any]], name: str, kind: T.StructType) -> DataFrame:
    own = rows.filter(by_value(lambda row: row[0] == name, checkers.columns)).map(
        by_value(lambda row: row[1], checkers.columns)
    )
    return spark.createDataFrame(own, kind, verifySchema=False)
