"""What counts as an election along the versions of a state znode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.evidence.elections import elections
from checkers.evidence.znodes import znode_tables
from checkers.history import schema
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("H8")]


def test_elections_are_changes_of_the_leader_not_of_the_epoch_alone(spark: SparkSession, tmp_path: Path) -> None:
    states = [
        (1, 0, [1, 2, 3]),
        (1, 1, [1, 3]),  # A dead follower left the ISR, under a new epoch.
        (1, 1, [1, 3, 2]),
        (3, 2, [3, 2]),
        (-1, 3, [3]),
        (3, 4, [3]),
    ]
    path = tmp_path / "znodes.jsonl"
    with path.open("w") as file:
        for version, (leader, epoch, isr) in enumerate(states):
            data = {"leader": leader, "leader_epoch": epoch, "controller_epoch": 1, "isr": isr}
            row: dict[str, object] = {
                "zxid": version + 1,
                "position": 0,
                "time_ms": 0,
                "session": 7,
                "version": version,
            }
            row |= {"node": "zk1", "op": "set" if version else "create", "data": json.dumps(data)}
            file.write(json.dumps({**row, "path": "/brokers/topics/hw/partitions/0/state"}) + "\n")
    with pyspark_sockets():
        tables = znode_tables(spark.read.schema(schema.ZNODE).json(path.as_uri()))
        found = [row.version for row in elections(tables.states).select("version").orderBy("version").collect()]
    assert found == [3, 5]
