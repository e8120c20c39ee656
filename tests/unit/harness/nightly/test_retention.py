from __future__ import annotations

from datetime import UTC, datetime

from harness.nightly.history import RunRow
from harness.nightly.jobs import Result
from harness.nightly.retention import Keep, to_remove

DAY_S = 86_400.0
NOW_S = 100 * DAY_S


def run(number: int) -> RunRow:
    """Begun on the day of its number."""
    began = datetime.fromtimestamp(number * DAY_S, UTC).isoformat()
    return RunRow(number, 1, "", "", "a", 1, "", 1, began, "valid", None, Result(0, 1.0, "", f"run {number}"))


RUNS = [run(number) for number in (90, 95, 99)]
SIZES = {90: 10**9, 95: 10**9, 99: 10**9}


def removed(keep: Keep) -> list[int]:
    return [one.id for one in to_remove(RUNS, SIZES, keep, NOW_S)]


def test_without_limits_everything_stays() -> None:
    assert removed(Keep()) == []


def test_older_ones_go() -> None:
    assert removed(Keep(days=5.5)) == [90]
    assert removed(Keep(days=0)) == [90, 95, 99]


def test_the_newest_stay_within_the_size() -> None:
    assert removed(Keep(gb=3)) == []
    assert removed(Keep(gb=2)) == [90]
    assert removed(Keep(gb=0.5)) == [90, 95, 99]


def test_what_is_old_does_not_count_for_the_size() -> None:
    assert removed(Keep(days=5.5, gb=2)) == [90]
