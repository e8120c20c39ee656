"""The brokers' event logs as one table, in run time, and whether they are whole.

Grain: one row per line. A torn last line of an incarnation is legal; any other loss shows as a gap in `s`. Order
inside a broker is (incarnation, s); order across brokers is never taken from clocks by the rules. Arrow reads the
lines of this machine's files, before there is a session; Spark reads what is left, and files anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from checkers.evidence.event_lines import put
from checkers.evidence.event_names import MOST, beyond
from checkers.history import schema
from checkers.history.lines import Form, write_lines
from checkers.history.run_info import RunInfo
from checkers.spark.places import Place, Stored, address, remove
from checkers.spark.tables import empty, read_table, write_table

_FORM = Form(T.StructType([field for field in schema.EVENT_LINE.fields if field.name != schema.CORRUPT]), put)
_LINES = "event-lines"


def convert_events(files: Sequence[tuple[str, Place]], info: RunInfo, parquet: Place) -> Mapping[str, Place] | None:
    """Write the event logs' lines under `parquet`, which takes no session. Returns the files of those that are left for
    Spark to read, by node; None: all, of places that only Hadoop knows.
    """
    if isinstance(parquet, Stored):
        return None
    remove(parquet / _LINES)
    left: dict[str, Place] = {}
    for node, path in files:
        if isinstance(path, Stored):
            return None
        odd = parquet / f"{_LINES}-odd-{node}.jsonl"
        placed, file = _placed(node, _shift_ns(node, info)), parquet / _LINES / f"{node}.parquet"
        # Each rule asks for one or two kinds of lines.
        if write_lines(path, _FORM, file, odd, placed, apart="e"):
            left[node] = odd
    return left


def load_events(
    spark: SparkSession,
    files: Sequence[tuple[str, Place]],
    info: RunInfo,
    parquet: Place,
    left: Mapping[str, Place] | None = None,
) -> DataFrame:
    """schema.EVENTS: all event logs, with `node` and run time `t_ns`; unreadable lines keep their text only. A line
    with a number that no broker has is `beyond`, and has no run time.

    left: what `convert_events` returned, where that has been done.
    """
    if not files:
        return empty(spark, schema.EVENTS)
    frames = [_read(spark, node, path, info) for node, path in (files if left is None else left.items())]
    if left is not None:
        frames.append(read_table(spark, schema.EVENTS, parquet / _LINES))
    whole, *others = frames
    if left is not None and not others:
        return whole
    for frame in others:
        whole = whole.unionByName(frame)
    write_table(whole, parquet / "events")
    return read_table(spark, schema.EVENTS, parquet / "events")


def _read(spark: SparkSession, node: str, path: Place, info: RunInfo) -> DataFrame:
    lines = spark.read.schema(schema.EVENT_LINE).option("columnNameOfCorruptRecord", schema.CORRUPT).json(address(path))
    t_ns = F.when(~beyond(), F.try_subtract(F.col("m"), F.lit(_shift_ns(node, info))))
    return lines.select("*", F.lit(node).alias("node"), t_ns.alias("t_ns"), beyond().alias("beyond"))


def sound(events: DataFrame) -> DataFrame:
    """The lines that rules can go by: read, and of numbers that a broker may have."""
    read = F.col(schema.CORRUPT).isNull() & F.col("e").isNotNull()
    return events.where(read & ~F.coalesce("beyond", F.lit(False)))


def _shift_ns(node: str, info: RunInfo) -> int:
    """From a node's monotonic time to run time."""
    offsets = {one.name: one.monotonic_offset_ns for one in info.nodes}
    return info.origin_monotonic_ns + offsets.get(node, 0)


def _placed(node: str, shift_ns: int) -> Callable[[pa.Table], pa.Table]:
    """With the columns of schema.EVENTS that no line has."""

    def placed(table: pa.Table) -> pa.Table:
        nodes = pa.repeat(pa.scalar(node, pa.string()), table.num_rows)
        outside = _beyond(table)
        times = pyarrow.compute.subtract(table.column("m"), pa.scalar(shift_ns, pa.int64()))
        times = pyarrow.compute.if_else(outside, pa.scalar(None, pa.int64()), times)
        return table.append_column("node", nodes).append_column("t_ns", times).append_column("beyond", outside)

    return placed


def _beyond(table: pa.Table) -> pa.ChunkedArray:
    """`beyond` of each row."""
    found = pa.chunked_array([pyarrow.compute.fill_null(pa.nulls(table.num_rows, pa.bool_()), False)])
    for name, most in MOST.items():
        numbers = table.column(name)
        outside = pyarrow.compute.or_(pyarrow.compute.less(numbers, -most), pyarrow.compute.greater(numbers, most))
        if pyarrow.compute.any(outside).as_py():
            found = pyarrow.compute.or_(found, pyarrow.compute.fill_null(outside, False))
    return found
