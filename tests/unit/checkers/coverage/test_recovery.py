"""What the load must show while no fault is in force, and from when on that can be asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkers.coverage.recovery import (
    QuietWindow,
    Work,
    load_end_ns,
    quiet_windows_of,
    too_short,
    unreached_in,
    unreached_partitions,
)
from checkers.coverage.requirements import judge_coverage
from checkers.history.faults import Fault
from tests.unit.checkers.coverage.test_incidents import INFO
from tests.unit.checkers.coverage.test_requirements import FULL

pytestmark = pytest.mark.guarantee("H8")

S = 1_000_000_000
NOTHING = ("acknowledged write to", "answered poll of")
SOUND = Work(3, 3, wrote=True, read=True)
STILL = ["no acknowledged write to hw-1 (7 tried) in the load after fault 1, the last"]


LAST = QuietWindow(6, 40 * S, None, last=True)
BEFORE = QuietWindow(5, 20 * S, 30 * S)


def fault(fault_id: int, stop_s: float | None, began_s: float = 9) -> Fault:
    stop_ns = None if stop_s is None else int(stop_s * S)
    began_ns = int(began_s * S)
    return Fault(fault_id, "kill", ("n1",), began_ns + S, stop_ns, observed=True, observation="", began_ns=began_ns)


def test_load_ends_with_the_heal_and_not_where_the_run_broke_off() -> None:
    begun = [{"f": "phase", "phase": "main", "time_ns": 3 * S}, {"f": "leadership", "phase": "heal", "time_ns": 4 * S}]
    assert load_end_ns(begun) is None
    assert load_end_ns([*begun, {"f": "phase", "phase": "heal", "time_ns": 9 * S}]) == 9 * S


def test_quiet_window_lasts_until_no_fault_was_in_force_for_a_session_and_a_request() -> None:
    info = replace(INFO, session_timeout_ms=6000, request_timeout_ms=3000)
    # 2 lies within 1, 4 begins while 3 is in force; 3 follows 1 after 8 s, and 5 follows 4 after 10.
    faults = [fault(2, 30, 20), fault(1, 40, 10), fault(4, 60, 52), fault(3, 55, 48), fault(5, 75, 70)]
    early = [QuietWindow(1, 40 * S, 70 * S), QuietWindow(4, 60 * S, 70 * S)]
    assert quiet_windows_of(info, faults, 84 * S) == [*early, QuietWindow(5, 75 * S, None, last=True)]
    assert quiet_windows_of(info, faults, None) == [*early, QuietWindow(5, 75 * S, None, last=True)]
    assert quiet_windows_of(info, faults, 83 * S) == [*early, QuietWindow(5, 75 * S, None, last=True, required=False)]
    assert quiet_windows_of(info, [], 90 * S) == []


def test_quiet_window_of_an_earlier_fault_is_required_where_the_last_ended_too_late() -> None:
    """Faults 4 s apart: three such times are asked for, two and a last one of no length are not."""
    info = replace(INFO, session_timeout_ms=6000, request_timeout_ms=3000)
    faults = [fault(nth, 10 * nth + 6, 10 * nth) for nth in range(1, 6)]
    late = QuietWindow(5, 56 * S, None, last=True, required=False)
    assert quiet_windows_of(info, faults, 57 * S) == [
        QuietWindow(1, 16 * S, 40 * S),
        QuietWindow(2, 26 * S, 50 * S),
        QuietWindow(3, 36 * S, None),
        late,
    ]
    assert quiet_windows_of(info, faults, 55 * S) == [
        QuietWindow(1, 16 * S, 40 * S),
        QuietWindow(2, 26 * S, 50 * S),
        late,
    ]


def test_quiet_window_comes_after_no_fault_that_never_was_gone() -> None:
    faults = [fault(1, 40), fault(2, None, 50), fault(3, 60, 55)]
    assert quiet_windows_of(INFO, faults, 90 * S) == [QuietWindow(1, 40 * S, 50 * S)]


@pytest.mark.parametrize(
    ("stop_s", "expected"),
    [(51.0, False), (51.1, True), (70.0, True), (None, False)],
    ids=["in time", "late", "heal", "never"],
)
def test_fault_that_ends_within_a_session_and_a_request_of_the_load_s_end_is_too_short(
    stop_s: float | None, expected: bool
) -> None:
    info = replace(INFO, session_timeout_ms=6000, request_timeout_ms=3000)
    assert too_short(info, [fault(1, 20), fault(2, stop_s)], 60 * S) == (frozenset({2}) if expected else frozenset())
    assert too_short(info, [fault(2, stop_s)], None) == frozenset()


@pytest.mark.parametrize(
    ("stop_began_s", "stop_s", "expected"),
    [(41, 70, False), (41.1, 70, True), (41.1, 51, False), (50, 52, True), (None, 52, True), (None, 51, False)],
    ids=["slow", "slow and late", "seen in time", "late", "late of old", "in time of old"],
)
def test_fault_that_took_long_to_go_is_excused_for_a_restart_and_no_longer(
    stop_began_s: float | None, stop_s: float, expected: bool
) -> None:
    """The load ends at 60 s, and needs 9 s."""
    info = replace(INFO, session_timeout_ms=6000, request_timeout_ms=3000)
    began_ns = None if stop_began_s is None else int(stop_began_s * S)
    slow = replace(fault(2, stop_s, 20), stop_began_ns=began_ns)
    assert (too_short(info, [slow], 60 * S) == {2}) == expected
    (window,) = quiet_windows_of(info, [slow], 60 * S)
    gone_ns = int(min(stop_s, (stop_began_s or stop_s) + 10) * S)
    assert window == QuietWindow(2, gone_ns, None, last=True, required=not expected)


def test_unreached_in_names_each_partition_and_what_was_tried_there() -> None:
    work = {
        "hw-0": SOUND,
        "hw-1": replace(SOUND, sends=7, wrote=False),
        "hw-2": replace(SOUND, polls=4, read=False),
    }
    assert unreached_in(["hw-0", "hw-1", "hw-2", "hw-3"], work, LAST) == (
        {"hw-1", "hw-2", "hw-3"},
        [
            "no acknowledged write to hw-1 (7 tried), hw-3 (0 tried) in the load after fault 6, the last",
            "no answered poll of hw-2 (4 tried), hw-3 (0 tried) in the load after fault 6, the last",
        ],
    )
    assert unreached_in(["hw-0"], work, LAST) == (frozenset(), [])
    assert unreached_in(["hw-1"], work, BEFORE)[1] == [
        "no acknowledged write to hw-1 (7 tried) in the load for 10.0 s after fault 5"
    ]


@pytest.mark.parametrize("required", [True, False])
def test_late_fault_cancels_nothing_that_an_earlier_quiet_window_requires(required: bool) -> None:
    """hw-1 stands still from fault 5 on, and fault 6, which harms nothing, ends when the load does."""
    last = replace(LAST, required=required)
    work = {window: {"hw-0": SOUND, "hw-1": replace(SOUND, sends=7, wrote=False)} for window in (BEFORE, last)}
    earlier = "no acknowledged write to hw-1 (7 tried) in the load for 10.0 s after fault 5"
    later = "no acknowledged write to hw-1 (7 tried) in the load after fault 6, the last"
    expected = ([earlier, later], None) if required else ([earlier], 1)
    assert unreached_partitions(["hw-0", "hw-1"], [BEFORE, last], work) == expected
    assert unreached_partitions(["hw-0", "hw-1"], [last], work) == (expected[0][1:], expected[1])
    # The nearest that is sound: it came back, and there was no time to show it once more.
    assert unreached_partitions(
        ["hw-0", "hw-1"], [BEFORE, last], {BEFORE: {"hw-0": SOUND, "hw-1": SOUND}, last: {}}
    ) == (
        ([f"no {what} hw-0 (0 tried), hw-1 (0 tried) in the load after fault 6, the last" for what in NOTHING], None)
        if required
        else ([], 0)
    )


def test_partition_that_is_not_reached_after_the_last_fault_is_lowered_by_nothing() -> None:
    seen = replace(FULL, unreached=STILL, too_short=frozenset({1}))
    checks = {"acknowledged": 1, "election_faults": 0, "lag_shrinks": 0, "expansions": 0}
    result = judge_coverage(seen, scripted=False, checks=checks)
    assert result.missing == STILL
    assert "partitions_after_last_fault" not in result.lowered


def test_partition_that_had_no_time_to_come_back_is_shown() -> None:
    result = judge_coverage(replace(FULL, reached=1), scripted=False, checks={})
    assert (result.missing, result.lowered) == ([], {"partitions_after_last_fault": 1})
    both = judge_coverage(replace(FULL, unreached=STILL, reached=1), scripted=False, checks={})
    assert (both.missing, both.lowered) == (STILL, {"partitions_after_last_fault": 1})


@pytest.mark.parametrize("what", ["w_after", "r_after"])
def test_fault_with_no_time_for_work_after_it_is_shown(what: str) -> None:
    quiet = replace(FULL, around=[FULL.around[0], replace(FULL.around[0], fault_id=2, **{what: False})])
    assert not judge_coverage(quiet, scripted=False, checks={}).met
    assert not judge_coverage(replace(quiet, too_short=frozenset({1})), scripted=False, checks={}).met
    late = judge_coverage(replace(quiet, too_short=frozenset({2})), scripted=False, checks={})
    assert (late.missing, late.lowered) == ([], {"work_after_faults": 1})


def test_coverage_of_a_script_needs_no_partition_after_its_last_fault() -> None:
    result = judge_coverage(replace(FULL, unreached=STILL, reached=0), scripted=True, checks={})
    assert result.met
    assert "partitions_after_last_fault" not in result.lowered
