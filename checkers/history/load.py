"""history.jsonl → its tables (`tables`), as Parquet in the run's folder, and whether the file is whole.

Judges nothing else, and knows no columns but those that say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from checkers.history import schema
from checkers.history.applications import coordination_table, processed_table
from checkers.history.faults import SKEWS_CLOCK
from checkers.history.health import HistoryHealth, health_of
from checkers.history.lines import Form, write_lines
from checkers.history.remade import in_lives
from checkers.history.tables import (
    deletions_table,
    joined_operations,
    marks_table,
    ops_table,
    polls_table,
    requests_table,
    sends_table,
)
from checkers.spark.master import runs_here
from checkers.spark.places import Place, Stored, address, end_of, lines_with, size_of
from checkers.spark.tables import empty, one_piece, read_table, write_table
from checkers.spark.threads import threads

TAIL_BYTES = 1 << 20
"""How much of a history's end is searched for its last line's time; a line may hold a whole poll."""


_LINES, _ODD = "lines.parquet", "odd-lines.jsonl"
_READABLE = Form(T.StructType([field for field in schema.HISTORY_LINE.fields if field.name != schema.CORRUPT]))


@dataclass(frozen=True, slots=True)
class History:
    """The tables of one history (or of several at once: no checker looks across partitions' names)."""

    ops: DataFrame
    sends: DataFrame
    requests: DataFrame
    polls: DataFrame
    deletions: DataFrame
    coordination: DataFrame
    processed: DataFrame
    marks: DataFrame


def load_history(
    spark: SparkSession, path: Place, parquet: Place, odd: int | None = None
) -> tuple[History, HistoryHealth]:
    """Read the history, write its tables under `parquet`, and return them as read back.

    odd: what `convert` returned, where that has been done.
    """
    if odd is None and runs_here(spark):
        odd = convert(path, parquet)
    raw = _lines(spark, path, parquet, odd).persist(StorageLevel.MEMORY_AND_DISK)
    operations = joined_operations(raw.where(F.col(schema.CORRUPT).isNull())).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        health = health_of(raw, operations, ends_torn(path))
        frames = _tables(raw.where(F.col(schema.CORRUPT).isNull()), operations)
        if health.remakes:
            known, sends = in_lives(operations)
            frames |= {"ops": ops_table(known), "sends": sends_table(sends)}
        with threads(2) as pool:
            list(pool.map(lambda item: write_table(item[1], parquet / item[0]), frames.items()))
    finally:
        operations.unpersist()
        raw.unpersist()
    return _read_back(spark, frames, parquet), health


def stored_history(spark: SparkSession, parquet: Place) -> History:
    """The tables of a history that are there as Parquet. A column that a file lacks is null."""
    lines = empty(spark, schema.HISTORY_LINE)
    return _read_back(spark, _tables(lines, joined_operations(lines)), parquet)


def _tables(lines: DataFrame, operations: DataFrame) -> dict[str, DataFrame]:
    """Of lines that can be read, and their operations."""
    return {
        "ops": ops_table(operations),
        "sends": sends_table(operations),
        "requests": requests_table(operations),
        "polls": polls_table(operations),
        "deletions": deletions_table(operations),
        "coordination": coordination_table(operations),
        "processed": processed_table(operations),
        "marks": marks_table(lines),
    }


def _read_back(spark: SparkSession, frames: Mapping[str, DataFrame], parquet: Place) -> History:
    return History(**{name: read_table(spark, frame.schema, parquet / name) for name, frame in frames.items()})


def convert(path: Place, parquet: Place) -> int | None:
    """Write the history's lines under `parquet`, which takes no session. Returns how many are left for Spark to read;
    None: all, of a place that only Hadoop knows.
    """
    if isinstance(path, Stored) or isinstance(parquet, Stored):
        return None
    return write_lines(path, _READABLE, parquet / _LINES, parquet / _ODD)


def _lines(spark: SparkSession, path: Place, parquet: Place, odd: int | None) -> DataFrame:
    read = spark.read.schema(schema.HISTORY_LINE).option("columnNameOfCorruptRecord", schema.CORRUPT)
    if odd is None:
        return read.json(address(path))
    lines = read_table(spark, schema.HISTORY_LINE, parquet / _LINES)
    return lines.unionByName(read.json(address(parquet / _ODD))).transform(one_piece) if odd else lines


def ends_torn(path: Place) -> bool:
    """True when the last line has no end: the writer was killed in the middle of it."""
    return size_of(path) > 0 and end_of(path, 1) != b"\n"


def span_of(path: Place, *, clocks: bool) -> tuple[int, float, float]:
    """(run time of the last whole line in ns, how many seconds faults set a clock ahead at most, and how many behind).

    clocks: whether such faults are to be looked for, which reads the whole file.
    """
    times = [int(found) for found in re.findall(rb'"time_ns": ?(\d+)', end_of(path, TAIL_BYTES))]
    length_ns = max(times, default=0)
    if not clocks:
        return length_ns, 0.0, 0.0
    off = [_off_s(line, length_ns) for line in lines_with(path, '"nemesis"') if _may_skew(line)]
    # Two faults of one clock are never in force at once.
    return length_ns, max((ahead for ahead, _ in off), default=0.0), max((behind for _, behind in off), default=0.0)


def _may_skew(line: bytes) -> bool:
    """A line of an older history says no effects, and its fault may have any."""
    return f'"{SKEWS_CLOCK}"'.encode() in line or b'"effects"' not in line


def _off_s(line: bytes, length_ns: int) -> tuple[float, float]:
    """(ahead, behind) of one fault at most: a step goes one way, a strobe both, and a drift as long as the run."""
    try:
        params = json.loads(json.loads(line).get("params_json") or "{}")
        step, strobe = float(params.get("offset_s", 0.0)), abs(float(params.get("delta_s", 0.0)))
        drift = (float(params.get("rate", 1.0)) - 1.0) * length_ns / 1e9
        return max(0.0, step, strobe, drift), max(0.0, -step, strobe, -drift)
    except (ValueError, TypeError, AttributeError, RecursionError):
        # A line that cannot be read excuses nothing; `load_history` counts it as unreadable.
        return 0.0, 0.0
