"""Whose watermark says up to where every replica has the log: of those that were not told to go."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from checkers.evidence.timeline import build_timeline
from checkers.evidence.touched_files import NOTHING_TOUCHED
from checkers.evidence.unclean_elections import NONE
from checkers.history import schema
from checkers.white_box.log_rules import _epoch_files
from checkers.white_box.matching_rules import _across_replicas, known_watermarks
from tests.support.judging import pyspark_sockets
from tests.support.model_cluster import ModelCluster

pytestmark = pytest.mark.spark


def known(spark: SparkSession, folder: Path, events: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Partition → (lowest watermark, replicas), of lines from before a drain that begins behind them all."""
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps({**event, "t_ns": event["m"]}) + "\n" for event in events))
    lines = spark.read.schema(schema.EVENTS).json(path.as_uri())
    drain = spark.createDataFrame([("hw-0", "drain-current", 1 << 60)], "p string, phase string, invoke_ns bigint")
    kept = spark.createDataFrame([], "node string, p string, kind string, offset bigint")
    tables = {"events": lines, "timeline": build_timeline(lines), "touched": NOTHING_TOUCHED}
    evidence = cast(Any, SimpleNamespace(**tables, history=SimpleNamespace(requests=drain)))
    rows = known_watermarks(evidence, kept, F.lit(True), F.lit(True)).collect()
    assert all(len(row.judged) == row.replicas for row in rows)
    return {row.p: (row.min_hw, row.replicas) for row in rows}


def test_replica_that_was_told_to_go_has_no_watermark(spark: SparkSession, tmp_path: Path) -> None:
    model = ModelCluster(Random(5), "hw")
    for _ in range(3):
        model.send()
    model.settle(model.partitions[0])
    events = [dict(event) for event in model.events]
    last = max(events, key=lambda event: event["m"])
    guest = next(event for event in events if event["e"] == "become_follower")
    here = {"b": 4, "node": "n4", "i": "4x", "p": "hw-0", "w": last["w"]}
    came = [
        {**guest, **here, "s": 0, "m": last["m"] + 1, "hw": 0, "leo": 0},
        {**here, "e": "hw", "role": "follower", "le": 0, "hw": 1, "s": 1, "m": last["m"] + 2},
    ]
    went = {**here, "e": "stop_replica", "delete": True, "s": 2, "m": last["m"] + 3}
    with pyspark_sockets():
        assert known(spark, tmp_path, events) == {"hw-0": (3, 3)}
        assert known(spark, tmp_path, [*events, *came]) == {"hw-0": (1, 4)}
        assert known(spark, tmp_path, [*events, *came, went]) == {"hw-0": (3, 3)}
        assert known(spark, tmp_path, [*events, *came, {**went, "delete": False}]) == {"hw-0": (1, 4)}
        back = {**came[1], "hw": 2, "s": 4, "m": last["m"] + 5}
        assert known(spark, tmp_path, [*events, *came, went, back]) == {"hw-0": (2, 4)}


@pytest.mark.parametrize(("may_be_emptied", "found"), [(True, 0), (False, 1)])
def test_log_without_a_batch_ends_at_its_start_unless_retention_can_have_emptied_it(
    spark: SparkSession, *, may_be_emptied: bool, found: int
) -> None:
    with pyspark_sockets():
        epochs = spark.createDataFrame(
            [("n1", "hw-0", "epoch", None, 4, 4733, 0)],
            "node string, p string, kind string, problem string, epoch int, offset bigint, position int",
        )
        batches = spark.createDataFrame(
            [], "node string, p string, base bigint, last bigint, epoch int, file string, file_position bigint"
        )
        rows = _epoch_files(epochs, batches, may_be_emptied=may_be_emptied)
        assert sum(frame.count() for frame in rows) == found


@pytest.mark.parametrize(("judged", "found"), [(["n2", "n3"], 1), (["n1", "n2"], 0)])
def test_replica_of_unknown_watermark_stands_for_none_that_lacks_a_batch(
    spark: SparkSession, tmp_path: Path, judged: list[str], found: int
) -> None:
    """n1 and n2 have the second batch, n3 lacks it. judged: those whose watermark is known."""
    placed = {"n1": (0, 1), "n2": (0, 1), "n3": (0,)}
    rows = [
        {"node": node, "p": "hw-0", "base": at, "last": at, "epoch": 0, "digest": f"{at}"}
        for node, offsets in placed.items()
        for at in offsets
    ]
    path = tmp_path / "batches.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pyspark_sockets():
        batches = spark.read.schema(schema.BATCH).json(path.as_uri())
        marks = spark.createDataFrame(
            [("hw-0", 3, 2, judged)], "p string, replicas int, min_hw bigint, judged array<string>"
        )
        lines = build_timeline(spark.createDataFrame([], schema.EVENTS))
        evidence = cast(Any, SimpleNamespace(expiry=None, timeline=lines, unclean=NONE))
        assert [row.checker for row in _across_replicas(evidence, batches, marks).collect()] == ["log-matching"] * found
