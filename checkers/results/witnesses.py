"""What a witness carries: its operations' history lines, and what each replica holds at its offset.

Bounded: only the few operations and offsets that the witnesses name leave Spark.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.spark.places import Place, address


def history_lines(session: SparkSession, path: Place, ops: AbstractSet[int]) -> Mapping[int, list[dict[str, Any]]]:
    """Invocation index → its lines (invocation, then completion), as they stand in the file."""
    if not ops:
        return {}
    wanted = [int(op) for op in sorted(ops)]
    parsed = session.read.text(address(path)).withColumn("ids", F.from_json("value", "index bigint, invoke bigint"))
    rows = (
        parsed.where(F.col("ids.index").isin(wanted) | F.col("ids.invoke").isin(wanted))
        .select("value", F.coalesce("ids.invoke", "ids.index").alias("op"), F.col("ids.index").alias("index"))
        .orderBy("index")
        .collect()
    )
    lines: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        lines[row.op].append(json.loads(row.value))
    return lines


def script_names(lines: Iterable[str]) -> dict[str, str]:
    """Value → the name that a script gave its record, of the lines of a history; one that cannot be read names none."""
    names: dict[str, str] = {}
    for line in lines:
        if '"step"' not in line:
            continue
        try:
            step = json.loads(line)
            sent = json.loads(step.get("result_json") or "{}") if step.get("f") == "step" else {}
            names |= {str(value): str(name) for name, value in zip(sent["names"], sent["values"], strict=True)}
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            continue
    return names


def replica_holdings(
    batches: DataFrame, places: AbstractSet[tuple[str, int]]
) -> Mapping[tuple[str, int], list[dict[str, Any]]]:
    """(partition, offset) → what each node's segment files hold there; also for nodes whose log ends before it."""
    if not places:
        return {}
    session = batches.sparkSession
    wanted = session.range(1).select(
        F.inline(
            F.array(
                *[F.struct(F.lit(p).alias("p"), F.lit(o).cast("bigint").alias("offset")) for p, o in sorted(places)]
            )
        )
    )
    whole = batches.where(F.col("problem").isNull())
    ends = whole.groupBy("node", "p").agg((F.max("last") + 1).alias("log_end"))
    holding = (
        wanted.join(whole, on="p", how="inner")
        .where((F.col("offset") >= F.col("base")) & (F.col("offset") <= F.col("last")))
        .select(
            "node",
            "p",
            "offset",
            "base",
            "last",
            "epoch",
            "file",
            "file_position",
            F.get("values", (F.col("offset") - F.col("base")).cast("int")).alias("value"),
        )
    )
    rows = (
        wanted.join(ends, on="p", how="inner")
        .join(holding, on=["node", "p", "offset"], how="left")
        .orderBy("p", "offset", "node")
        .collect()
    )
    held: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        entry = {"node": row.node, "log_end": row.log_end}
        if row.base is not None:
            entry |= {
                "base": row.base,
                "last": row["last"],
                "epoch": row.epoch,
                "value": row.value,
                "file": row.file,
                "file_position": row.file_position,
            }
        held[row.p, row.offset].append(entry)
    return held
