"""The brokers' event logs as one table, in run time, and whether they are whole.

Grain: one row per line. A torn last line of an incarnation is legal; any other loss shows as a gap in `s`. Order
inside a broker is (incarnation, s); order across brokers is never taken from clocks by the rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.history import schema
from checkers.history.run_info import RunInfo
from checkers.spark.places import Place, address
from checkers.spark.tables import empty, read_table, write_table


def load_events(spark: SparkSession, files: Sequence[tuple[str, Place]], info: RunInfo, parquet: Place) -> DataFrame:
    """All event logs → parquet/events, with `node` and run time `t_ns`; unreadable lines keep their text only."""
    offsets = {node.name: node.monotonic_offset_ns for node in info.nodes}
    frames = []
    for node, path in files:
        raw = (
            spark.read.schema(schema.EVENT_LINE).option("columnNameOfCorruptRecord", schema.CORRUPT).json(address(path))
        )
        shift = info.origin_monotonic_ns + offsets.get(node, 0)
        frames.append(raw.withColumn("node", F.lit(node)).withColumn("t_ns", F.col("m") - F.lit(shift)))
    if not frames:
        return empty(spark, schema.EVENTS)
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    write_table(whole, parquet / "events")
    return read_table(spark, schema.EVENTS, parquet / "events")
