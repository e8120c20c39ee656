"""What H8 requires of a run: what is missing makes it unknown; what is lowered is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkers.coverage.requirements import AroundFault, Seen, judge_coverage

pytestmark = pytest.mark.guarantee("H8")

FAULT: dict[str, Any] = {
    "fault_id": 1,
    "fault": "kill",
    "targets": ["n1"],
    "start_ns": 10,
    "stop_ns": 20,
    "observed": True,
    "stop_observed": True,
}
FULL = Seen(
    acknowledged=6000,
    elections=4,
    elections_by_partition={"hw-0": 4},
    election_faults=["isolate", "kill", "pause"],
    lag_shrinks=2,
    expansions=3,
    faults=[FAULT],
    around=[AroundFault(1, True, True, True, True, True, True)],
    drain_gaps=[],
)


def test_coverage_met_by_all_figures() -> None:
    result = judge_coverage(FULL, scripted=False, checks={})
    assert (result.met, result.missing, result.lowered) == (True, [], {})


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"acknowledged": 4999}, "acknowledged records: 4999, required are 5000"),
        ({"election_faults": ["kill", "pause"]}, "kinds of faults that caused an election: 2"),
        ({"elections": None}, "kinds of faults that caused an election: no evidence"),
        ({"lag_shrinks": 0}, "ISR shrinks by a leader for lag: 0"),
        ({"lag_shrinks": None}, "ISR shrinks by a leader for lag: no evidence"),
        ({"expansions": 0}, "ISR expansions: 0"),
        ({"drain_gaps": ["drain of hw-0: not read"]}, "drain of hw-0"),
        ({"load_gaps": ["no acknowledged write to hw-0"]}, "no acknowledged write to hw-0"),
        ({"faults": [{**FAULT, "observed": False}]}, "its effect was not observed"),
        ({"faults": [{**FAULT, "stop_observed": False}]}, "its end was not observed"),
        ({"faults": [{**FAULT, "stop_ns": None}]}, "was not taken back"),
        ({"faults": [{**FAULT, "error": "no iptables"}]}, "could not be applied: no iptables"),
        ({"around": [replace(FULL.around[0], w_during=False)]}, "no acknowledged write during fault 1"),
        ({"around": [replace(FULL.around[0], r_after=False)]}, "no answered poll after fault 1"),
    ],
)
def test_coverage_not_met_names_what_is_missing(change: dict[str, Any], missing: str) -> None:
    result = judge_coverage(replace(FULL, **change), scripted=False, checks={})
    assert not result.met
    assert any(missing in text for text in result.missing), result.missing


def test_coverage_lowered_by_checks_is_shown() -> None:
    result = judge_coverage(replace(FULL, acknowledged=10), scripted=False, checks={"acknowledged": 10})
    assert result.met
    assert result.lowered == {"acknowledged": 10}


def test_coverage_raised_by_checks_is_held() -> None:
    assert not judge_coverage(FULL, scripted=False, checks={"acknowledged": 9000}).met


def test_coverage_of_no_acknowledged_record_cannot_be_met() -> None:
    assert not judge_coverage(replace(FULL, acknowledged=0), scripted=True, checks={"acknowledged": 0}).met


def test_coverage_of_a_script_needs_no_writes_during_faults_but_says_so() -> None:
    quiet = AroundFault(1, True, False, True, False, False, True)
    result = judge_coverage(replace(FULL, acknowledged=3, around=[quiet]), scripted=True, checks={"acknowledged": 2})
    assert result.met
    assert result.lowered["writes_during_faults"] == 0
    assert result.lowered["acknowledged"] == 2


def test_coverage_of_a_script_needs_not_reach_every_partition() -> None:
    assert judge_coverage(replace(FULL, load_gaps=["no acknowledged write to hw-1"]), scripted=True, checks={}).met


def test_coverage_of_a_partition_that_the_load_left_out_is_lowered_by_nothing() -> None:
    checks = {"acknowledged": 1, "election_faults": 0, "lag_shrinks": 0, "expansions": 0}
    result = judge_coverage(replace(FULL, load_gaps=["no poll of hw-1"]), scripted=False, checks=checks)
    assert result.missing == ["no poll of hw-1"]


def test_coverage_of_a_script_keeps_its_coverage() -> None:
    result = judge_coverage(replace(FULL, drain_gaps=["drain of hw-0: gap"]), scripted=True, checks={})
    assert result.missing == ["drain of hw-0: gap"]
    silent = AroundFault(1, True, True, False, True, True, False)
    after = judge_coverage(replace(FULL, around=[silent]), scripted=True, checks={})
    assert after.missing == ["no acknowledged write after the last fault", "no answered poll after the last fault"]


@pytest.mark.parametrize("scripted", [False, True])
def test_coverage_of_a_run_whose_faults_never_began_is_not_met(scripted: bool) -> None:
    """Nothing lowers it: who asks for faults wants to know what the cluster does under them."""
    calm = replace(FULL, faults=[], around=[], faults_asked=["kill", "pause"])
    checks = dict.fromkeys(("election_faults", "lag_shrinks", "expansions"), 0)
    result = judge_coverage(calm, scripted=scripted, checks=checks)
    assert result.missing == ["not one fault began, though the run file names kill, pause"]
    assert judge_coverage(replace(calm, faults_asked=[]), scripted=scripted, checks=checks).met


@pytest.mark.parametrize(
    ("seen", "missing"), [(4, []), (3, [": 3, required are 4"]), (None, [": no evidence, required"])]
)
def test_logs_that_lost_their_heads_are_required_where_the_run_file_asks(seen: int | None, missing: list[str]) -> None:
    result = judge_coverage(replace(FULL, heads_deleted=seen), scripted=False, checks={"heads_deleted": 4})
    what = "partitions whose oldest records were deleted during the load"
    assert [text.startswith(what + end) for text, end in zip(result.missing, missing, strict=True)] == [True] * len(
        missing
    )
    assert result.figures.get("heads_deleted") == seen


def test_no_log_needs_to_lose_its_head_unasked() -> None:
    result = judge_coverage(replace(FULL, heads_deleted=0), scripted=False, checks={})
    assert (result.met, result.lowered) == (True, {})


@pytest.mark.parametrize(
    ("fault", "met"),
    [
        ({"role": "last-in-sync"}, True),
        ({"role": "another broker: no ISR of one is known"}, False),
        ({"role": "last-in-sync", "observed": False}, False),
        ({}, False),
    ],
)
def test_last_of_an_isr_must_be_hit_where_the_run_file_asks(fault: dict[str, Any], met: bool) -> None:
    seen = replace(FULL, faults=[{**FAULT, **fault}])
    result = judge_coverage(seen, scripted=False, checks={"last_in_sync_hit": 1})
    missing = "faults that hit the only member of an ISR: 0, required are 1"
    assert (missing not in result.missing) == met
    assert ("last_in_sync_hit" in result.figures) == met
