"""What the versions of a state znode show: elections, and who was in sync when."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from checkers.coverage.leaders import InSync
from checkers.coverage.queries import isrs_of
from checkers.evidence.elections import elections
from checkers.evidence.znodes import Znodes, znode_tables
from checkers.history import schema
from checkers.history.run_info import NodeInfo
from tests.support.judging import pyspark_sockets
from tests.support.run_info import run_info

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("H8")]


def _tables(spark: SparkSession, folder: Path, versions: Sequence[tuple[int, Mapping[str, Any]]]) -> Znodes:
    """versions: of the state of hw-0, by ms of ZooKeeper's clock."""
    path = folder / "znodes.jsonl"
    with path.open("w") as file:
        for version, (time_ms, state) in enumerate(versions):
            data = json.dumps({"controller_epoch": 1, **state})
            row: dict[str, object] = {"zxid": version + 1, "position": 0, "time_ms": time_ms, "session": 7}
            row |= {"version": version, "node": "zk1", "op": "set" if version else "create", "data": data}
            file.write(json.dumps({**row, "path": "/brokers/topics/hw/partitions/0/state"}) + "\n")
    return znode_tables(spark.read.schema(schema.ZNODE).json(path.as_uri()))


def test_elections_are_changes_of_the_leader_not_of_the_epoch_alone(spark: SparkSession, tmp_path: Path) -> None:
    states = [
        (1, 0, [1, 2, 3]),
        (1, 1, [1, 3]),  # A dead follower left the ISR, under a new epoch.
        (1, 1, [1, 3, 2]),
        (3, 2, [3, 2]),
        (-1, 3, [3]),
        (3, 4, [3]),
    ]
    with pyspark_sockets():
        tables = _tables(
            spark, tmp_path, [(0, {"leader": led, "leader_epoch": le, "isr": isr}) for led, le, isr in states]
        )
        found = [row.version for row in elections(tables.states).select("version").orderBy("version").collect()]
    assert found == [3, 5]


def test_in_sync_are_members_of_the_isr_and_who_is_eligible_beside_it(spark: SparkSession, tmp_path: Path) -> None:
    states: list[Mapping[str, Any]] = [
        {"leader": 1, "leader_epoch": 0, "isr": [1, 2, 3]},
        {"leader": 1, "leader_epoch": 0, "isr": [1], "elr": {"replicas": [3], "isr": [1], "leader_epoch": 0}},
        {"leader": -1, "leader_epoch": 1, "isr": [1]},
    ]
    nodes = tuple(NodeInfo(f"n{id_}", "broker", id_, 0) for id_ in (1, 2, 3))
    with pyspark_sockets():
        evidence: Any = SimpleNamespace(
            info=run_info(nodes=nodes, partitions=("hw-0",), origin_wall_ns=1_000_000),
            znodes=_tables(spark, tmp_path, [(2 + 10 * nth, state) for nth, state in enumerate(states)]),
        )
        found = isrs_of(evidence)
        other = SimpleNamespace(info=run_info(partitions=("other-0",)), znodes=evidence.znodes)
        assert isrs_of(cast(Any, other)) == {}
    everybody = frozenset({"n1", "n2", "n3"})
    assert found == {
        "hw-0": [
            InSync(1_000_000, everybody),
            InSync(11_000_000, frozenset({"n1", "n3"})),
            InSync(21_000_000, frozenset({"n1"})),
        ]
    }
