"""Files and states of topics that were made anew: the last life of each is judged as the run's own topic is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.evidence.timeline import build_evidence
from checkers.evidence.znodes import znode_tables
from checkers.history.load import load_history
from checkers.history.remade import lasting_lives
from checkers.verdicts.jobs import collect_families
from checkers.verdicts.verdict import Row
from checkers.white_box.agreement_rules import agreement_rules
from checkers.white_box.log_rules import log_rules
from checkers.white_box.matching_rules import matching_rules
from tests.support.histories import TICK_NS, Story, merged, write_history
from tests.support.judging import TABLES, pyspark_sockets
from tests.support.run_info import run_info
from tests.support.topic_stories import NODES, Remakers

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

RECORDS = 4
Tables = dict[str, list[dict[str, Any]]]


class Life:
    """A is gone; B has RECORDS batches on each of three brokers, which know all to be committed."""

    def __init__(self, topic: str) -> None:
        self.topic, self.story = topic, Story(topic)
        self.remakers = Remakers(self.story)
        self.remakers.twice()
        self.tables: Tables = {name: [] for name in TABLES}
        state = {"leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1, 2, 3]}
        self.tables["znodes"] = [
            {"node": "zk1", "position": 0, "session": 7, "version": 0, "zxid": 10, "time_ms": 0, "op": "create"}
            | {"path": f"/brokers/topics/{topic}~B/partitions/0/state", "data": json.dumps(state)}
        ]
        for broker, node in enumerate(NODES, 1):
            self.hold("B", node, RECORDS)
            line = {"b": broker, "node": node, "i": f"{topic}{broker}", "p": f"{topic}~B-0", "le": 0}
            role = "become_leader" if broker == 1 else "become_follower"
            taken = {"s": 0, "e": role, "leader": 1, "pe": 0, "isr": [1, 2, 3], "leo": 0, "hw": 0}
            self.tables["events"] += [
                {**line, **taken, "t_ns": TICK_NS},
                {**line, "s": 1, "e": "hw", "hw": RECORDS, "t_ns": 2 * TICK_NS, "role": role.partition("_")[2]},
            ]

    def hold(self, life: str, node: str, batches: int) -> None:
        p = f"{self.topic}~{life}-0"
        for at in range(batches):
            row = {"node": node, "p": p, "file": f"{0:020d}.log", "file_position": 70 * at, "base": at, "last": at}
            self.tables["batches"].append(
                {**row, "epoch": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "control": False}
                | {"records": 1, "crc_ok": True, "digest": f"{at}", "values": [], "problem": None}
            )

    def drained(self) -> None:
        self.remakers.drained("B")
        self.remakers.poll("B", 0, [(0, 11), (1, 12)], phase="drain-current", consumer="of-B-drained")

    def batch(self, node: str, at: int) -> dict[str, Any]:
        return next(row for row in self.tables["batches"] if (row["node"], row["base"]) == (node, at))


def _sound(life: Life) -> None:
    life.drained()


def _differs(life: Life) -> None:
    life.batch("l2", 1)["digest"] = "other"
    life.drained()


def _lacking(life: Life) -> None:
    life.tables["batches"].remove(life.batch("l3", RECORDS - 1))
    life.drained()


def _hole(life: Life) -> None:
    for node in NODES:
        life.tables["batches"].remove(life.batch(node, 1))
    life.drained()


def _never_was(life: Life) -> None:
    life.tables["events"][0]["isr"] = [1, 2]
    life.drained()


def _left_of_another(life: Life) -> None:
    """A broker that was stopped has what it had of the life before."""
    life.hold("A", "l3", 2)
    life.tables["batches"][-1]["digest"] = "other"
    life.tables["batches"][-1]["base"] += 5
    life.hold("A", "l2", 2)
    life.drained()


def _asked_to_go(life: Life) -> None:
    """Nobody knows whether the deletion was carried out: its replicas may be gone, one by one."""
    _lacking(life)
    life.remakers.end("B", outcome="info")


def _not_told(life: Life) -> None:
    """No round of the drain was told of it."""
    life.tables["batches"].remove(life.batch("l3", RECORDS - 1))


def _file_fault(life: Life) -> None:
    """A fault names the folder, by which nobody knows the life."""
    _differs(life)
    life.story.nemesis("start", "bitflip", 1, ["l2"], file=f"data/{life.topic}-0/00000000000000000000.log")


LIVES: dict[str, tuple[Callable[[Life], None], set[str]]] = {
    "sound": (_sound, set()),
    "differs": (_differs, {"log-matching"}),
    "lacking": (_lacking, {"log-matching"}),
    "hole": (_hole, {"log-contiguous"}),
    "never-was": (_never_was, {"isr-znode"}),
    "left-of-another": (_left_of_another, set()),
    "asked-to-go": (_asked_to_go, set()),
    "not-told": (_not_told, set()),
    "file-fault": (_file_fault, set()),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = tmp_path_factory.mktemp("lives")
    made: dict[str, Life] = {}
    for name, (change, _) in LIVES.items():
        made[name] = Life(name)
        change(made[name])
    with pyspark_sockets():
        lines = merged({name: life.story.lines for name, life in made.items()})
        history, health = load_history(spark, write_history(folder / "history.jsonl", lines), folder / "parquet")
        assert not health.problems, health.problems
        tables = {}
        for name, kind in TABLES.items():
            path = folder / f"{name}.jsonl"
            found = [row for life in made.values() for row in life.tables[name]]
            path.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
            tables[name] = spark.read.schema(kind).json(path.as_uri())
        evidence = build_evidence(
            run_info(partitions=("hw-0",)),
            history,
            tables["events"],
            znode_tables(tables["znodes"]),
            tables["batches"],
            tables["checkpoints"],
            NODES,
            lives=lasting_lives(history.coordination),
        )
        families = {"files": lambda: [log_rules(evidence), matching_rules(evidence), agreement_rules(evidence)]}
        return collect_families(families)


@pytest.mark.parametrize("name", LIVES)
def test_last_life_is_judged_by_its_files_and_states(rows: list[Row], name: str) -> None:
    mine = [row for row in rows if row.kind != "figure" and (row.p or "").partition("~")[0] == name]
    assert {row.checker for row in mine} == LIVES[name][1], mine
    assert all(row.kind == "invalid" and row.p == f"{name}~B-0" for row in mine)


def test_lives_that_are_judged_are_counted(rows: list[Row]) -> None:
    counted = {row.p for row in rows if row.kind == "figure" and row.checker == "log-matching"}
    assert "sound~B-0" in counted
    assert "not-told~B-0" not in counted
