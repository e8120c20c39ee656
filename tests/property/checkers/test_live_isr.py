"""Who may stay in an ISR whose controller takes brokers out one by one, and what a leader must have proposed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.evidence.znodes import znode_tables
from checkers.history import schema
from checkers.white_box.live_rules import live_rules
from tests.support.judging import pyspark_sockets

pytestmark = pytest.mark.spark

STATE = "/brokers/topics/hw/partitions/0/state"
GRACE_MS = 6_000
GONE_MS = 20_000
"""When brokers 2 and 3 end; broker 1 leads."""

Version = tuple[int, int, int, int, list[int]]
"""time_ms, controller epoch, leader, leader epoch, ISR."""

BEGIN: Version = (0, 1, 1, 0, [1, 2, 3])
# Long after both ended: a controller that was slow, or a new one.
FIRST: Version = (30_000, 2, 1, 1, [1, 3])

KEPT: dict[str, tuple[list[Version], int]] = {
    "one-by-one": ([BEGIN, FIRST, (30_010, 2, 1, 2, [1])], 0),
    "never-taken-out": ([BEGIN, FIRST], 1),
    "late": ([BEGIN, FIRST, (37_000, 2, 1, 2, [1])], 1),
    # Its leader took it out for lag.
    "by-its-leader": ([BEGIN, FIRST, (30_010, 2, 1, 1, [1])], 1),
    # The controller died in between, and the next one was elected when its session had ended.
    "by-the-next": ([BEGIN, FIRST, (37_000, 3, 1, 2, [1])], 0),
    "by-the-next-late": ([BEGIN, FIRST, (43_000, 3, 1, 2, [1])], 1),
    # A leader that is elected anew is elected among who is there.
    "by-an-election": ([BEGIN, (30_000, 2, 3, 1, [1, 2, 3]), (30_010, 2, 1, 2, [1])], 2),
    # Who is added was not there before: that is no place left for later.
    "added": ([(0, 1, 1, 0, [1, 2]), (30_000, 2, 1, 1, [1, 2, 3]), (30_010, 2, 1, 2, [1])], 1),
}


def _znodes(spark: SparkSession, folder: Path, versions: list[Version]) -> Any:
    common = {"node": "zk1", "position": 0, "session": 7, "version": 0, "data": "{}"}
    rows: list[dict[str, Any]] = [
        {**common, "zxid": b, "time_ms": 0, "op": "create", "path": f"/brokers/ids/{b}"} for b in (1, 2, 3)
    ]
    for nth, (time_ms, controller_epoch, leader, epoch, isr) in enumerate(versions):
        state = {"leader": leader, "leader_epoch": epoch, "controller_epoch": controller_epoch, "isr": isr}
        row = {
            **common,
            "zxid": (100 if time_ms > GONE_MS else 10) + nth,
            "time_ms": time_ms,
            "version": nth,
            "path": STATE,
        }
        rows.append({**row, "op": "set" if nth else "create", "data": json.dumps(state)})
    gone = {**common, "time_ms": GONE_MS, "op": "delete"}
    rows += [{**gone, "zxid": 18 + b, "path": f"/brokers/ids/{b}"} for b in (2, 3)]
    path = folder / "znodes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return znode_tables(spark.read.schema(schema.ZNODE).json(path.as_uri()))


def _found(spark: SparkSession, folder: Path, versions: list[Version], events: list[dict[str, Any]]) -> list[str]:
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps({"b": 1, "p": "hw-0", "s": s, **line}) + "\n" for s, line in enumerate(events)))
    with pyspark_sockets():
        evidence: Any = SimpleNamespace(
            info=SimpleNamespace(session_timeout_ms=GRACE_MS, origin_wall_ns=0),
            znodes=_znodes(spark, folder, versions),
            events=spark.read.schema(schema.EVENTS).json(path.as_uri()),
        )
        found = live_rules(evidence).findings
        assert found is not None
        return [row.detail for row in found.orderBy("detail").collect()]


@pytest.mark.parametrize("name", KEPT)
def test_place_that_a_write_kept_is_judged_by_those_that_follow_it(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    versions, wrong = KEPT[name]
    found = _found(spark, tmp_path, versions, [])
    assert len([detail for detail in found if "not registered" in detail]) == wrong, found


JOINED: list[Version] = [(0, 1, 1, 0, [1]), (10_000, 1, 1, 0, [1, 3])]
PROPOSED = {"e": "isr_propose", "kind": "expand", "le": 0, "pe": 0, "isr": [3, 1], "bes": {"3": 3}}
TOLD = {"e": "isr_commit", "le": 0, "pe": 1, "isr": [1, 3]}

PROPOSALS: dict[str, tuple[list[dict[str, Any]], str | None]] = {
    "it": ([PROPOSED, TOLD], None),
    "none": ([TOLD], "had proposed no such ISR"),
    # Each of the two is in one that was proposed, and nobody proposed both.
    "parts-of-it": (
        [{**PROPOSED, "isr": [1, 2], "bes": {"2": 2}}, {**PROPOSED, "isr": [1, 2, 3], "bes": {"2": 2, "3": 3}}, TOLD],
        "had proposed no such ISR",
    ),
    "no-epoch": ([{**PROPOSED, "bes": {}}, TOLD], "under broker epoch -1"),
    "no-epochs": ([{**PROPOSED, "bes": None}, TOLD], "under broker epoch -1"),
    "old-epoch": ([{**PROPOSED, "bes": {"3": 2}}, TOLD], "under broker epoch 2"),
    # The answer to the first was lost, and the broker came again before the second.
    "again": ([PROPOSED, {**PROPOSED, "bes": {"3": 50}}, TOLD], None),
}


@pytest.mark.parametrize("name", PROPOSALS)
def test_isr_that_grew_is_one_that_its_leader_proposed(spark: SparkSession, tmp_path: Path, name: str) -> None:
    events, wrong = PROPOSALS[name]
    found = _found(spark, tmp_path, JOINED, events)
    assert len(found) == (wrong is not None), found
    assert wrong is None or wrong in found[0]
