"""What the load must show after the last fault, and from when on that can be asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkers.floor import judge_floor
from checkers.recovery import Work, hurried, last_of, load_end_ns, still
from checkers.run_report import Fault
from tests.unit.checkers.test_floor import FULL
from tests.unit.checkers.test_incidents import INFO

S = 1_000_000_000
SOUND = Work(3, 3, wrote=True, read=True)
STILL = ["no acknowledged write to hw-1 (7 tried) in the load after fault 1, the last"]


def fault(fault_id: int, stop_s: float | None) -> Fault:
    stop_ns = None if stop_s is None else int(stop_s * S)
    return Fault(fault_id, "kill", ("n1",), 10 * S, stop_ns, observed=True, observation="")


def test_load_ends_with_the_heal_and_not_where_the_run_broke_off() -> None:
    begun = [{"f": "phase", "phase": "main", "time_ns": 3 * S}, {"f": "leadership", "phase": "heal", "time_ns": 4 * S}]
    assert load_end_ns(begun) is None
    assert load_end_ns([*begun, {"f": "phase", "phase": "heal", "time_ns": 9 * S}]) == 9 * S


def test_last_fault_is_the_one_that_was_seen_gone_last() -> None:
    assert last_of([fault(1, 40), fault(2, 30), fault(3, None)]) == fault(1, 40)
    assert last_of([fault(3, None)]) is None
    assert last_of([]) is None


@pytest.mark.parametrize(
    ("stop_s", "expected"),
    [(51.0, False), (51.1, True), (70.0, True), (None, False)],
    ids=["in time", "late", "heal", "never"],
)
def test_fault_that_ends_within_a_session_and_a_request_of_the_load_s_end_is_hurried(
    stop_s: float | None, expected: bool
) -> None:
    info = replace(INFO, session_timeout_ms=6000, request_timeout_ms=3000)
    assert hurried(info, [fault(1, 20), fault(2, stop_s)], 60 * S) == (frozenset({2}) if expected else frozenset())
    assert hurried(info, [fault(2, stop_s)], None) == frozenset()


def test_still_names_each_partition_and_what_was_tried_there() -> None:
    work = {
        "hw-0": SOUND,
        "hw-1": replace(SOUND, sends=7, wrote=False),
        "hw-2": replace(SOUND, polls=4, read=False),
    }
    assert still(["hw-0", "hw-1", "hw-2", "hw-3"], work, fault(6, 40)) == (
        {"hw-1", "hw-2", "hw-3"},
        [
            "no acknowledged write to hw-1 (7 tried), hw-3 (0 tried) in the load after fault 6, the last",
            "no answered poll of hw-2 (4 tried), hw-3 (0 tried) in the load after fault 6, the last",
        ],
    )
    assert still(["hw-0"], work, fault(6, 40)) == (frozenset(), [])
    assert still(["hw-0", "hw-3"], {}, None) == (frozenset(), ())


def test_floor_partition_that_stands_still_after_the_last_fault_is_lowered_by_nothing() -> None:
    seen = replace(FULL, still=STILL, last_fault=1, reached=1)
    checks = {"acknowledged": 1, "election_faults": 0, "lag_shrinks": 0, "expansions": 0}
    result = judge_floor(seen, scripted=False, checks=checks)
    assert result.missing == STILL
    assert "partitions_after_last_fault" not in result.lowered


def test_floor_partition_that_had_no_time_to_come_back_is_told() -> None:
    # Fault 2 ended in time, and is not the last one.
    seen = replace(FULL, still=STILL, last_fault=1, reached=1, hurried=frozenset({1}))
    result = judge_floor(seen, scripted=False, checks={})
    assert (result.missing, result.lowered) == ([], {"partitions_after_last_fault": 1})
    other = judge_floor(replace(seen, hurried=frozenset({2})), scripted=False, checks={})
    assert other.missing == STILL


@pytest.mark.parametrize("what", ["w_after", "r_after"])
def test_floor_fault_with_no_time_for_work_after_it_is_told(what: str) -> None:
    quiet = replace(FULL, around=[FULL.around[0], replace(FULL.around[0], fault_id=2, **{what: False})])
    assert not judge_floor(quiet, scripted=False, checks={}).met
    assert not judge_floor(replace(quiet, hurried=frozenset({1})), scripted=False, checks={}).met
    late = judge_floor(replace(quiet, hurried=frozenset({2})), scripted=False, checks={})
    assert (late.missing, late.lowered) == ([], {"work_after_faults": 1})


def test_floor_of_a_script_asks_for_no_partition_after_its_last_fault() -> None:
    result = judge_floor(replace(FULL, still=STILL, last_fault=1), scripted=True, checks={})
    assert result.met
    assert "partitions_after_last_fault" not in result.lowered
