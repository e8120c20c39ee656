"""What a controller's epoch may do, in ZooKeeper, in what brokers claim, and in what they obey; and when it did not."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.evidence.znodes import znode_tables
from checkers.history import schema
from checkers.white_box.controller_rules import controller_rules
from tests.support.judging import pyspark_sockets
from tests.support.run_info import run_info

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

MS = 1_000_000
Found = list[tuple[str, int, int]]


def _elected(b: int, ce: int, at_ms: int, what: str = "elected") -> dict[str, Any]:
    return {"e": "controller", "b": b, "i": f"{b}x1", "ce": ce, "what": what, "t_ns": at_ms * MS}


def _obeyed(b: int, ce: int, at_ms: int, life: int = 1) -> dict[str, Any]:
    return {"e": "obeyed", "b": b, "i": f"{b}x{life}", "ce": ce, "t_ns": at_ms * MS}


def _findings(
    spark: SparkSession, folder: Path, events: list[dict[str, Any]], epochs: tuple[tuple[int, str], ...] = ()
) -> Found:
    """(what is said, from ms, to ms) of each. epochs: (ms, what was written to /controller_epoch)."""
    lines, znodes = folder / "events.jsonl", folder / "znodes.jsonl"
    lines.write_text(
        "".join(json.dumps({**line, "s": s, "node": f"n{line['b']}"}) + "\n" for s, line in enumerate(events))
    )
    row = {"node": "zk1", "position": 0, "session": 7, "path": "/controller_epoch"}
    rows = [
        {**row, "zxid": zxid, "time_ms": at_ms, "op": "set" if zxid else "create", "version": zxid, "data": data}
        for zxid, (at_ms, data) in enumerate(epochs)
    ]
    znodes.write_text("".join(json.dumps(row) + "\n" for row in rows))
    evidence: Any = SimpleNamespace(
        info=run_info(),
        events=spark.read.schema(schema.EVENTS).json(lines.as_uri()),
        znodes=znode_tables(spark.read.schema(schema.ZNODE).json(znodes.as_uri())),
    )
    with pyspark_sockets():
        found = controller_rules(evidence).findings
        assert found is not None
        return sorted((row.detail, row.from_ns // MS, row.to_ns // MS) for row in found.collect())


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([_obeyed(1, 1, 10), _obeyed(1, 2, 20), _obeyed(2, 1, 30), _obeyed(1, 2, 40, life=2)], []),
        ([_obeyed(1, 1, 10), _obeyed(1, 3, 20), _obeyed(1, 2, 30), _obeyed(1, 3, 40)], [(2, 3, 30)]),
        # A restart forgets; the controller has been deposed all the same.
        ([_obeyed(1, 3, 10), _obeyed(1, 2, 20, life=2)], [(2, 3, 20)]),
        # Whom a broker takes itself for is no request: its own first one may come late.
        ([_obeyed(1, 2, 10), _elected(1, 3, 20), _obeyed(1, 2, 30)], []),
    ],
    ids=["newer", "older", "older after a restart", "own"],
)
def test_broker_obeys_no_controller_older_than_one_that_it_obeyed(
    spark: SparkSession, tmp_path: Path, events: list[dict[str, Any]], found: list[tuple[int, int, int]]
) -> None:
    told = _findings(spark, tmp_path, events)
    assert [(at, to) for _, at, to in told] == [(at, at) for _, _, at in found]
    for (detail, _, _), (older, newer, _) in zip(told, found, strict=True):
        assert detail.startswith("n1, broker 1, event 1x")
        assert f"a request of controller epoch {older}; of {newer} it had" in detail


def test_two_controllers_of_one_epoch_are_known_once_the_second_says_so(spark: SparkSession, tmp_path: Path) -> None:
    events = [_elected(1, 1, 5), _elected(1, 2, 10), _elected(1, 2, 12, "resigned"), _elected(2, 2, 30)]
    told = _findings(spark, tmp_path, [*events, _elected(1, 2, 40), _elected(3, 2, 50)])
    assert told == [("brokers [1, 2, 3] both became controller in epoch 2", 10, 30)]


def test_epoch_in_zookeeper_that_does_not_rise_is_found_as_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    epochs = ((10, "1"), (20, "2"), (30, "2"), (40, "3"))
    assert _findings(spark, tmp_path, [], epochs) == [("/controller_epoch went from 2 to 2 at zxid 2", 30, 30)]
