"""Which brokers an interruption can have cost their life, or their place among the living, by ZooKeeper's log.

A broker that is killed or stopped is registered anew when it is back, and one that stood still, or was cut off, counts
as dead once its session is over, or where the controller suspected its process to be gone (docs/adr/0011). Where its
registration went on, and nobody suspected it, it lived, remembered, and was waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.evidence.unclean_elections import WALL_SLACK_NS
from checkers.history.faults import FOR_EVER_NS, Interruption
from checkers.history.run_info import RunInfo

LATER_NS = 2_000_000_000
"""How long after the session's end, or its process is back, a broker's registration may change at last."""


def absences(registrations: DataFrame, events: DataFrame, info: RunInfo) -> dict[str, list[int]]:
    """Node → when its registration came or went, or it was suspected, in run time. registrations: of `znodes`."""
    names = {node.broker_id: node.name for node in info.brokers}
    changed = registrations.select("b", F.explode(F.array_compact(F.array("created_ms", "deleted_ms"))).alias("ms"))
    registered = changed.select("b", (F.col("ms") * 1_000_000 - F.lit(info.origin_wall_ns)).alias("at_ns"))
    suspected = events.where(F.col("e") == "suspicion").select(F.col("target").alias("b"), F.col("t_ns").alias("at_ns"))
    found: dict[str, list[int]] = {}
    for row in registered.unionByName(suspected).collect():
        if row.b in names:
            found.setdefault(names[row.b], []).append(row.at_ns)
    return found


def with_gone(
    spans: Iterable[Interruption], absent_ns: Mapping[str, Sequence[int]], session_timeout_ms: int
) -> list[Interruption]:
    """The spans, each with those brokers as `gone` that were absent in it, or so soon after it that it may be why."""
    after_ns = session_timeout_ms * 1_000_000 + LATER_NS + WALL_SLACK_NS
    found = []
    for span in spans:
        until_ns = min(span.until_ns, FOR_EVER_NS - after_ns) + after_ns
        gone = {
            node
            for node, times in absent_ns.items()
            if any(span.from_ns - WALL_SLACK_NS <= at_ns <= until_ns for at_ns in times)
        }
        found.append(replace(span, gone=frozenset(gone if span.nodes is None else gone & span.nodes)))
    return found
