from __future__ import annotations

from harness.plan.run_file import parse_plan
from harness.runs.console.phases import Phases
from harness.runs.expected_phases import expected_phases


def walk(phases: Phases, *names: str) -> list[tuple[int, int | None]]:
    found = []
    for name in names:
        phases.begin(name)
        found.append((phases.number, phases.of))
    return found


def test_phases_as_expected_keep_their_count() -> None:
    assert walk(Phases(["a", "b", "c"]), "a", "b", "c") == [(1, 3), (2, 3), (3, 3)]


def test_phases_one_that_nobody_expected_is_one_more() -> None:
    assert walk(Phases(["a", "b", "c"]), "a", "again", "b", "c") == [(1, 3), (2, 4), (3, 4), (4, 4)]


def test_phases_that_are_passed_over_do_not_count() -> None:
    assert walk(Phases(["a", "b", "c", "d"]), "a", "c", "d") == [(1, 4), (2, 3), (3, 3)]


def test_phases_that_are_not_known_have_no_total() -> None:
    assert walk(Phases(None), "a", "b") == [(1, None), (2, None)]


def test_expected_phases_of_three_brokers_are_nine() -> None:
    plan = parse_plan("x.toml", 'name = "x"\n')
    expected = expected_phases(plan, judged=True)
    assert expected is not None
    assert expected[:5] == ["setup", "main", "heal", "final", "drain-current"]
    assert expected[5:] == ["drain-n1", "drain-n2", "drain-n3", "analysis"]
    assert expected_phases(plan, judged=False) == expected[:-1]
