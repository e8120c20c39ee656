"""Segment files → the table of their batches, by Spark's workers: one file is one piece of work.

For what is too much to be decoded while Spark starts (`prepare`). Of a folder that all workers see, a worker opens the
file itself and reads it as it goes; of a place that only Hadoop knows, Spark hands it over whole, which takes several
times its size in memory, so it has to be well below 2 GB. Workers get the code with the work, and need crc32c. By rows,
not by Arrow's batches, for which Spark wants pandas too: to decode a batch takes longer than to send what comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import checkers.evidence
from checkers.evidence.segments import opened, read_segment
from checkers.history import schema
from checkers.spark.places import Place, Stored, address
from checkers.spark.workers import by_value

COLUMNS = tuple(schema.BATCH.names)
_IN_DATA = re.compile(r"data/[^/]+/[^/]*\.log", re.DOTALL)
_BELOW_DATA = re.compile(r"(?P<dir>data/[^/]+)/[^/]+/[^/]*\.log", re.DOTALL)
_CHECKPOINT = "replication-offset-checkpoint"
_MOST_TASKS = 10_000
_Task = tuple[str, str, str, bool]
"""Node, partition, file, and whether it is the last one."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a replica's log. name: below the folder of all evidence; last_file: of that replica's partition."""

    node: str
    partition: str
    name: str
    size: int
    last_file: bool

    @property
    def file(self) -> str:
        """Its name in its folder."""
        return self.name.rpartition("/")[2]


def log_dirs(names: Iterable[str]) -> list[str]:
    """The log dirs of a node: `data`, or those one level below it where a broker has several. names: of all files below
    the node's folder (`data/hw-0/00000000000000000000.log`).
    """
    found = list(names)
    if f"data/{_CHECKPOINT}" in found or any(_IN_DATA.fullmatch(name) for name in found):
        return ["data"]
    below = {match["dir"] for name in found if (match := _BELOW_DATA.fullmatch(name)) is not None}
    return sorted(below) or ["data"]


def segments_below(node: str, sizes: Mapping[str, int]) -> list[Segment]:
    """The segment files of a node, partition by partition in the order of their offsets. sizes: of all files below the
    node's folder, by name. Of `topic-0`, not of `topic-0.<hex>-delete`.
    """
    dirs = log_dirs(sizes)
    by_folder: dict[str, list[str]] = {}
    for name in sorted(sizes):
        folder, _, file = name.rpartition("/")
        log_dir, _, partition = folder.rpartition("/")
        if log_dir in dirs and file.endswith(".log") and partition.rpartition("-")[2].isdigit():
            by_folder.setdefault(folder, []).append(name)
    return [
        Segment(node, folder.rpartition("/")[2], f"{node}/{name}", sizes[name], name == files[-1])
        for folder, files in by_folder.items()
        for name in files
    ]


def decoded(spark: SparkSession, segments: Sequence[Segment], evidence: Place) -> DataFrame:
    """schema.BATCH of all segments below `evidence`, in no order."""
    # The longest first: what is begun last should be over soon.
    order = sorted(segments, key=lambda one: -one.size)
    where = [(one.node, one.partition, one.file, one.last_file) for one in order]
    if isinstance(evidence, Stored):
        paths = [address(evidence / one.name) for one in order]
        tasks = dict(zip(paths, where, strict=True))
        contents = spark.read.format("binaryFile").load(paths).select("path", "content").rdd
        rows = contents.flatMap(
            by_value(lambda row: _rows(tasks[row.path], memoryview(row.content)), checkers.evidence)
        )
    else:
        files = [(task, str(evidence / one.name)) for task, one in zip(where, order, strict=True)]
        work = spark.sparkContext.parallelize(files, min(len(files), _MOST_TASKS))
        rows = work.flatMap(by_value(_rows_of_file, checkers.evidence))
    return spark.createDataFrame(rows, schema.BATCH, verifySchema=False)


def _rows_of_file(task: tuple[_Task, str]) -> Iterator[tuple[Any, ...]]:
    whose, path = task
    with opened(path) as data:
        yield from _rows(whose, data)


def _rows(whose: _Task, data: memoryview) -> Iterator[tuple[Any, ...]]:
    node, partition, file, last_file = whose
    for row in read_segment(node, partition, file, data, last_file):
        yield tuple(row[name] for name in COLUMNS)
