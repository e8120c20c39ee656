from __future__ import annotations

from collections.abc import Sequence

from harness.nightly.history import NightRow, RunRow
from harness.nightly.jobs import Figures, Result
from harness.nightly.trends import flaky, moved, trends, tried_again
from harness.runs.analysis import CRASH


def nights(count: int) -> list[NightRow]:
    return [NightRow(number, "nightly", f"night {number}", None, 1, 1, 0, 0) for number in range(1, count + 1)]


def run(
    night: int,
    *,
    name: str = "a",
    seed: int = 1,
    code: str = "c",
    exit_code: int = 0,
    per_s: float | None = None,
    recovery_ms: float | None = None,
    number: int = 0,
    attempt: int = 1,
) -> RunRow:
    verdict = {0: "valid", 1: "invalid", 2: "unknown"}.get(exit_code, "crash")
    result = Result(exit_code, 1.0, "", None, figures=Figures(per_s=per_s, recovery_ms=recovery_ms))
    key = f"{name} code {code} seed {seed}"
    return RunRow(
        number or night, night, key, f"{name} seed {seed}", name, seed, code, attempt, "", verdict, None, result
    )


def recoveries(values: Sequence[float]) -> list[RunRow]:
    return [run(night, recovery_ms=value) for night, value in enumerate(values, start=1)]


def test_median_of_a_nights_runs_is_its_point() -> None:
    rows = [run(1, seed=seed, per_s=value) for seed, value in ((1, 10.0), (2, 90.0), (3, 20.0))]
    (trend,) = trends(nights(1), rows)
    assert trend.points("per_s") == [(1, 20.0)]
    assert trend.points("recovery_ms") == []
    assert trend.nights[0].counts == {"valid": 3}


def test_the_attempt_that_counts_is_the_last() -> None:
    rows = [run(1, exit_code=CRASH, number=1), run(1, number=2, attempt=2)]
    (trend,) = trends(nights(1), rows)
    assert trend.nights[0].counts == {"valid": 1}
    assert [row.id for row in tried_again(rows)] == [1]


def test_run_files_that_the_last_night_left_out_are_not_shown() -> None:
    assert [one.name for one in trends(nights(2), [run(1, name="old"), run(1), run(2)])] == ["a"]


def test_slower_recovery_than_usual_is_named_as_worse() -> None:
    (found,) = moved(trends(nights(4), recoveries([100, 110, 90, 160])))
    assert found.worse
    assert found.text == "a: slowest recovery after a fault, ms: 160, usually 100 (worse)"


def test_what_stays_within_half_as_much_again_has_not_moved() -> None:
    assert moved(trends(nights(4), recoveries([100, 100, 100, 150]))) == []
    assert moved(trends(nights(4), recoveries([150, 150, 150, 100]))) == []


def test_two_nights_say_nothing_about_what_is_usual() -> None:
    assert moved(trends(nights(3), recoveries([100, 100, 900]))) == []


def test_more_records_are_better() -> None:
    rows = [run(night, per_s=value) for night, value in enumerate([100, 100, 100, 40], start=1)]
    (found,) = moved(trends(nights(4), rows))
    assert found.worse
    rows[-1] = run(4, per_s=400.0)
    (found,) = moved(trends(nights(4), rows))
    assert not found.worse


def test_figure_that_the_last_night_did_not_measure_has_not_moved() -> None:
    assert moved(trends(nights(5), [*recoveries([100, 100, 100, 900]), run(5)])) == []


def test_schedule_with_two_verdicts_is_flaky() -> None:
    rows = [run(1), run(2, exit_code=1), run(1, seed=2), run(2, seed=2)]
    (found,) = flaky(rows)
    assert found.text == "a seed 1: valid, invalid, with the same code and seed"


def test_other_code_may_change_a_verdict_and_a_crash_is_none() -> None:
    assert flaky([run(1), run(2, code="d", exit_code=1)]) == []
    assert flaky([run(1), run(2, exit_code=CRASH)]) == []
