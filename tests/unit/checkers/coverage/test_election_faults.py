"""Which faults an election counts for: those that touched the old leader, while they can have had an effect."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from checkers.coverage.damage_met import Meeting
from checkers.coverage.incidents import not_fired
from checkers.coverage.queries import Election, election_faults
from checkers.history.faults import (
    Fault,
    faults_of,
)
from checkers.history.run_info import NodeInfo
from tests.support.known_faults import effects_of
from tests.unit.checkers.coverage.test_incidents import INFO

pytestmark = pytest.mark.guarantee("H8")

NODES = (
    *(NodeInfo(f"n{number}", "broker", number, 0) for number in (1, 2, 3)),
    NodeInfo("zk1", "zookeeper", None, 0),
)
THREE = replace(INFO, nodes=NODES)


def fault(kind: str, *targets: str, grudge: dict[str, list[str]] | None = None, **times: Any) -> Fault:
    params = json.dumps({"grudge": grudge or {}})
    spans = {"start_ns": 100, "stop_ns": 200, **times}
    return Fault(
        1,
        kind,
        targets,
        spans.pop("start_ns"),
        spans.pop("stop_ns"),
        True,
        "",
        params_json=params,
        effects=effects_of(kind),
        **spans,
    )


def election(at_ns: int, led: int | None = 1, by: int | None = 3, reason: str | None = "offline") -> Election:
    return Election("hw-0", 2, at_ns, reason, led, by)


def test_election_counts_while_the_fault_is_applied_and_while_it_is_taken_back() -> None:
    kill = fault("kill", "n1", began_ns=40, stop_began_ns=180)
    assert [election_faults([election(at)], [kill], THREE, {}) for at in (39, 40, 200, 201)] == [
        [],
        ["kill"],
        ["kill"],
        [],
    ]


def test_election_before_a_fault_without_such_a_time_is_not_its_doing() -> None:
    assert election_faults([election(99)], [fault("clock-step", "n1")], THREE, {}) == []


@pytest.mark.parametrize(
    ("one", "touched"),
    [
        (fault("kill", "n1"), True),
        (fault("kill", "n2"), False),
        (fault("pause", "zk1"), True),
        (fault("isolate", "n1", grudge={"n1": ["n2"], "n2": ["n1"]}), True),
        (fault("isolate", "n2", grudge={"n1": ["n2"], "n2": ["n1", "n3"], "n3": ["n2"]}), False),
        # The controller that elected had not heard of it.
        (fault("isolate", "n3", grudge={"n1": ["n3"], "n3": ["n1", "n2"], "n2": ["n3"]}), True),
        (fault("cut-zookeeper", "n2", grudge={"n2": ["zk1"], "zk1": ["n2"]}), False),
        # In half of a cut, but on ZooKeeper's side.
        (fault("halves", "n1", "zk1", grudge={"n1": ["n2"], "n2": ["n1", "zk1"], "zk1": ["n2"]}), False),
        (fault("halves", "n2", "n1", grudge={"n1": ["zk1"], "zk1": ["n1", "n2"], "n2": ["zk1"]}), True),
    ],
)
def test_election_counts_for_a_fault_that_touched_the_old_leader_alone(one: Fault, touched: bool) -> None:
    assert election_faults([election(150)], [one], THREE, {}) == ([one.fault] if touched else [])


DOWN, UP = (json.dumps({"file": "segment", "while": during, "seed": 1}) for during in ("down", "up"))


@pytest.mark.parametrize("kind", ["bitflip", "truncate-file", "remove-file"])
def test_election_of_a_broker_killed_for_its_files_counts_for_a_kill(kind: str) -> None:
    hurt = replace(fault(kind, "n1"), params_json=DOWN)
    assert election_faults([election(150)], [hurt], THREE, {}) == ["kill"]
    assert election_faults([election(150)], [fault("kill", "n1"), hurt], THREE, {}) == ["kill"]


@pytest.mark.parametrize("params", [UP, None, "torn", "[]", "{}"])
@pytest.mark.parametrize(
    ("met", "counted"),
    [
        (None, False),
        (Meeting("opened", 160, "hw-0"), True),
        (Meeting("cut", 160, "hw-0"), True),
        (Meeting("started", 160), True),
        # The election was of another partition; and long before the broker looked.
        (Meeting("opened", 160, "hw-1"), False),
        (Meeting("opened", 201, "hw-0"), False),
    ],
)
def test_election_under_a_file_fault_counts_for_it_only_where_its_broker_met_the_damage(
    params: str | None, met: Meeting | None, counted: bool
) -> None:
    hurt = replace(fault("bitflip", "n1"), params_json=params)
    found = election_faults([election(150)], [hurt], THREE, {} if met is None else {1: met})
    assert found == (["bitflip"] if counted else [])


def test_election_by_hand_counts_for_nothing() -> None:
    assert election_faults([election(150, reason="preferred")], [fault("kill", "n1")], THREE, {}) == []


def test_faults_of_older_histories_have_no_time_before_their_lines() -> None:
    common = {"kind": "nemesis", "fault_id": 1, "fault": "kill", "targets": ["n1"], "observed": True}
    common |= {"observation": "", "error": None}
    (old,) = faults_of([{**common, "f": "start", "time_ns": 100}, {**common, "f": "stop", "time_ns": 200}])
    assert (old.began_ns, old.stop_began_ns) == (None, None)
    assert not old.active(90, 99)
    (new,) = faults_of(
        [
            {**common, "f": "start", "time_ns": 100, "began_ns": 50},
            {**common, "f": "stop", "time_ns": 200, "began_ns": 150},
        ]
    )
    assert (new.began_ns, new.stop_began_ns) == (50, 150)
    assert new.active(90, 99)


def test_kinds_that_never_fired_are_those_named_and_able() -> None:
    info = replace(THREE, fault_kinds=("kill", "pause", "clock-step"))
    assert not_fired(info, [fault("kill", "n1")], {"clock-step": "no libfaketime"}) == ["pause"]
