"""When brokers opened their logs, by their event logs, and whether a log ended below where they had had its end."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from checkers.coverage.damage_met import Opening, openings
from checkers.evidence.timeline import build_timeline
from checkers.history import schema
from checkers.history.faults import Fault
from tests.support.judging import pyspark_sockets
from tests.support.known_faults import effects_of
from tests.support.model_cluster import ModelCluster

pytestmark = pytest.mark.spark


def test_openings_are_of_damaged_logs_and_say_where_one_came_back_shorter(spark: SparkSession, tmp_path: Path) -> None:
    model = ModelCluster(Random(5), "hw", partitions=2)
    _, second, third = model.brokers
    for _ in range(3):
        model.send()
    for nth, broker in enumerate((second, third), 1):
        model.kill(broker)
        model.start(broker, nth)
    # The second broker finds less than it had written.
    opened = [event for event in model.events if event["e"] == "recovered" and event["p"] == "hw-0"]
    assert [event["b"] for event in opened] == [second, third]
    opened[0]["leo"] = 2
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps({**event, "t_ns": event["m"]}) + "\n" for event in model.events))
    faults = [
        Fault(nth, "bitflip", (node,), 1, 2, True, "", file="hw-0/0.log", effects=effects_of("bitflip"))
        for nth, node in enumerate(("n2", "n3"))
    ]
    with pyspark_sockets():
        events = spark.read.schema(schema.EVENTS).json(path.as_uri())
        evidence = cast(Any, SimpleNamespace(events=events, timeline=build_timeline(events)))
        found = openings(evidence, faults)
        assert openings(evidence, [Fault(9, "kill", ("n2",), 1, 2, True, "", effects=effects_of("kill"))]) == []
    starts = [
        Opening(event["node"], None, event["m"])
        for event in model.events
        if event["e"] == "start" and event["node"] in ("n2", "n3")
    ]
    logs = [Opening(event["node"], "hw-0", event["m"], event["b"] == second) for event in opened]
    assert set(found) == {*starts, *logs}
