"""Segment files → the table of their batches, by Spark's workers: one file is one piece of work.

For what is too much to be decoded while Spark starts (`prepare`). Of a folder that all workers see, a worker opens the
file itself and reads it as it goes; of a place that only Hadoop knows, Spark hands it over whole, which takes about
five times its size in memory, so it has to be below 2 GB. Workers get the code with the work; of other packages they
need pyarrow and crc32c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import checkers.evidence
from checkers.evidence.segments import opened, read_segment
from checkers.history import schema
from checkers.spark.places import Place, Stored, address
from checkers.spark.workers import by_value

BATCH = pa.schema(
    [
        ("node", pa.string()),
        ("p", pa.string()),
        ("file", pa.string()),
        ("file_position", pa.int64()),
        ("base", pa.int64()),
        ("last", pa.int64()),
        ("epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("base_sequence", pa.int32()),
        ("transactional", pa.bool_()),
        ("control", pa.bool_()),
        ("marker", pa.string()),
        ("records", pa.int32()),
        ("crc_ok", pa.bool_()),
        ("digest", pa.string()),
        ("values", pa.list_(pa.int64())),
        ("problem", pa.string()),
    ]
)
ROWS_AT_ONCE = 10_000
_IN_DATA = re.compile(r"data/[^/]+/[^/]*\.log", re.DOTALL)
_BELOW_DATA = re.compile(r"(?P<dir>data/[^/]+)/[^/]+/[^/]*\.log", re.DOTALL)
_CHECKPOINT = "replication-offset-checkpoint"
_TASK = "node string, p string, file string, last_file boolean, path string"
_MOST_TASKS = 10_000


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
    paths = [
        address(evidence / one.name) if isinstance(evidence, Stored) else str(evidence / one.name) for one in order
    ]
    tasks = [(one.node, one.partition, one.file, one.last_file, path) for one, path in zip(order, paths, strict=True)]
    work = spark.createDataFrame(tasks, _TASK)
    decode = by_value(_decode, checkers.evidence)
    if not isinstance(evidence, Stored):
        return work.repartition(min(len(order), _MOST_TASKS)).mapInArrow(decode, schema.BATCH)
    # One row of Arrow's holds a whole file, a batch of them as many files.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    contents = spark.read.format("binaryFile").load(paths).select("path", "content")
    return contents.join(F.broadcast(work), on="path").mapInArrow(decode, schema.BATCH)


def _decode(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        for at in range(part.num_rows):
            task = {name: part.column(name)[at] for name in part.schema.names}
            node, p, file, last_file, path = (task[name].as_py() for name in ("node", "p", "file", "last_file", "path"))
            with opened(path) if "content" not in task else memoryview(task["content"].as_buffer()) as data:
                rows = read_segment(node, p, file, data, last_file)
                while some := list(islice(rows, ROWS_AT_ONCE)):
                    yield pa.RecordBatch.from_pylist(some, schema=BATCH)
