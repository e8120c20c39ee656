"""series.json: what the report draws, bounded however long the run was.

Rates and latencies per second and operation, sampled latency points, HW, LEO, ISR and leader per partition, and what
each node's wall clock said, all in run time. Source: docs/results-format.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.history.load import History
from checkers.history.run_info import RunInfo

LATENCY_POINTS = 5000
POINTS_PER_LINE = 600
"""Per partition and broker: the last value of each of this many equal slices of the run."""


def history_series(history: History) -> dict[str, Any]:
    ops = history.ops.withColumn("end_ns", F.coalesce("complete_ns", "invoke_ns")).withColumn(
        "second", F.floor(F.col("end_ns") / 1e9).cast("bigint")
    )
    latency_ms = (F.col("complete_ns") - F.col("invoke_ns")) / 1e6
    per_second = (
        ops.groupBy("second", "f")
        .agg(
            F.count_if(F.col("outcome") == "ok").alias("ok"),
            F.count_if(F.col("outcome") == "fail").alias("fail"),
            F.count_if(F.col("outcome") == "info").alias("info"),
            F.percentile_approx(latency_ms, [0.5, 0.95, 0.99], 1000).alias("quantiles"),
            F.max(latency_ms).alias("max_ms"),
            F.max("end_ns").alias("end_ns"),
            F.count(F.lit(1)).alias("n"),
        )
        .orderBy("second", "f")
        .collect()
    )
    total = sum(row.n for row in per_second)
    step = max(1, -(-total // LATENCY_POINTS))
    # Invocation indices are spread evenly enough for a picture, and the sample is the same on every analysis.
    points = (
        ops.where(F.col("complete_ns").isNotNull())
        .where(F.pmod(F.xxhash64("op"), F.lit(step)) == 0)
        .select((F.col("invoke_ns") / 1e9).alias("t_s"), "f", latency_ms.alias("ms"), "outcome")
        .limit(LATENCY_POINTS)
        .collect()
    )
    return {
        "duration_ns": max((row.end_ns for row in per_second), default=0),
        "rate": [{"second": r.second, "f": r.f, "ok": r.ok, "fail": r.fail, "info": r["info"]} for r in per_second],
        "latency": [
            {
                "second": row.second,
                "f": row.f,
                "p50_ms": row.quantiles[0],
                "p95_ms": row.quantiles[1],
                "p99_ms": row.quantiles[2],
                "max_ms": row.max_ms,
            }
            for row in per_second
            if row.quantiles is not None
        ],
        "latency_points": [{"t_s": p.t_s, "f": p.f, "ms": p.ms, "outcome": p.outcome} for p in points],
    }


def partition_series(events: DataFrame, duration_ns: int) -> dict[str, Any]:
    """HW and LEO per broker (last of each slice), every ISR, who became leader, and whom a controller chose.

    events: with run time `t_ns`.
    """
    slice_ns = max(1, duration_ns // POINTS_PER_LINE)
    leo = (
        F.when(F.col("e") == "append", F.col("last") + 1)
        .when(F.col("e") == "truncate", F.col("to"))
        .when(F.col("e").isin("recovered", "become_leader", "become_follower"), F.col("leo"))
    )
    points = events.where(F.col("p").isNotNull()).select(
        "p", "b", "t_ns", F.when(F.col("e") == "hw", F.col("hw")).alias("hw"), leo.alias("leo")
    )
    lines = (
        points.where(F.col("hw").isNotNull() | F.col("leo").isNotNull())
        .groupBy("p", "b", F.floor(F.col("t_ns") / slice_ns).alias("slice"))
        .agg(
            F.max(F.when(F.col("hw").isNotNull(), F.struct("t_ns", "hw"))).alias("hw"),
            F.max(F.when(F.col("leo").isNotNull(), F.struct("t_ns", "leo"))).alias("leo"),
        )
        .orderBy("p", "b", "slice")
        .collect()
    )
    changes = (
        events.where(F.col("e").isin("become_leader", "isr_commit", "election"))
        .select("p", "t_ns", "e", "b", "le", "isr", "leader", "reason")
        .withColumn("nth", F.row_number().over(Window.partitionBy("p").orderBy("t_ns")))
        .where(F.col("nth") <= POINTS_PER_LINE * 4)
        .orderBy("p", "t_ns")
        .collect()
    )
    out: dict[str, Any] = defaultdict(lambda: {"hw": [], "leo": [], "isr": [], "leader": [], "elected": []})
    for row in lines:
        for name in ("hw", "leo"):
            if row[name] is not None:
                out[row.p][name].append([row[name].t_ns / 1e9, row.b, row[name][name]])
    for row in changes:
        if row.isr is not None:
            out[row.p]["isr"].append([row.t_ns / 1e9, list(row.isr)])
        if row.e == "become_leader":
            out[row.p]["leader"].append([row.t_ns / 1e9, row.b, row.le])
        elif row.e == "election" and row.leader is not None and row.leader >= 0:
            out[row.p]["elected"].append([row.t_ns / 1e9, row.leader, row.le, row.b, row.reason])
    return dict(out)


def clock_series(events: DataFrame, origin_wall_ns: int) -> list[dict[str, Any]]:
    """Per node, four times a second: its wall clock minus what the harness's says at that instant, in ms."""
    # Exact in integers: wall clocks in ns do not fit a double.
    offset = F.col("w") - (F.col("t_ns") + F.lit(origin_wall_ns))
    rows = (
        events.groupBy("node", F.floor(F.col("t_ns") / 250_000_000).alias("slice"))
        .agg(F.min(F.struct("t_ns", offset.alias("offset_ns"))).alias("first"))
        .orderBy("node", "slice")
        .collect()
    )
    nodes: dict[str, list[list[float]]] = defaultdict(list)
    for row in rows:
        nodes[row.node].append([row["first"].t_ns / 1e9, row["first"].offset_ns / 1e6])
    return [{"node": node, "points": points} for node, points in nodes.items()]


def of_run(history: History, events: DataFrame, info: RunInfo, faults: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """series.json. faults: as in results.json."""
    charts = history_series(history)
    mine = events.where(F.col("p").isin(*info.partitions))
    return {
        **charts,
        "partitions": partition_series(mine, charts["duration_ns"]),
        "clock": clock_series(events, info.origin_wall_ns),
        "faults": list(faults),
    }
