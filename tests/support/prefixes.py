"""Many prefixes of histories through one Spark pass, each in a topic of its own, judged as a run under way is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from checkers.history.load import load_history
from checkers.online.prefix import found_by, known_for_good, prefix_rows
from checkers.verdicts.prefixes import CLOSED, Doubt, may_judge
from tests.support.histories import OUT, merged, write_history
from tests.support.judging import pyspark_sockets


@dataclass(frozen=True)
class Prefix:
    """The first so many lines of a history, and what its run may have. topic: of this prefix alone."""

    topic: str
    history: Sequence[dict[str, Any]]
    cut: int
    doubts: frozenset[Doubt] = frozenset()


def found_in(spark: SparkSession, folder: Path, prefixes: Sequence[Prefix]) -> Mapping[str, set[str]]:
    """Topic → checkers that found something. folder: scratch space."""
    lines = merged({prefix.topic: list(prefix.history[: prefix.cut]) for prefix in prefixes})
    with pyspark_sockets():
        history, health = load_history(spark, write_history(folder / "history.jsonl", lines), folder / "parquet")
        assert not health.problems, health.problems
        rows = prefix_rows(known_for_good(history), transactions=True, witnesses=10 * len(prefixes))
        spark.catalog.clearCache()
    places: dict[str, list[Any]] = {}
    for row in rows:
        if row.kind != "figure" and row.p is not None:
            places.setdefault(row.p.rpartition("-")[0].partition("~")[0].removesuffix(OUT), []).append(row)
    return {
        prefix.topic: {
            one.checker
            for one in found_by([n for n in CLOSED if may_judge(n, prefix.doubts)], places.get(prefix.topic, []))
        }
        for prefix in prefixes
    }
