"""Plain words and units of figures."""

from __future__ import annotations

import pytest

from harness.report import words

pytestmark = pytest.mark.guarantee("V6")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567, "1,234,567"), (12.5, "12.5"), (2.0, "2"), (None, "–"), (True, "true"), ([1, 2], "1, 2"), ("x", "x")],
)
def test_number_prints_figures_with_separators(value: object, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.432091, "432 ms"), (3.900282, "3.9 s"), (59.97, "60 s"), (83.2, "83.2 s"), (200, "3 min 20 s")],
)
def test_duration_has_the_unit_that_a_person_would_use(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def test_figure_in_milliseconds_is_a_duration_with_words_for_its_checker() -> None:
    assert words.figure("worst_ms", "availability") == "longest time without an acknowledged send to a partition"
    assert words.figure("worst_ms", "staleness") != words.figure("worst_ms", "availability")
    assert words.quantity("worst_ms", 3900.282) == "3.9 s"
    assert words.quantity("acknowledged", 3900) == "3,900"


def test_figure_without_words_of_its_own_is_spelt_out() -> None:
    assert words.figure("commits_too_late") == "commits too late"
    assert words.figure("drained:wire:n2") == "partitions read to their end by the lab's own client with n2 as leader"
    assert words.figure("healed:confluent") == "partitions read to their end by librdkafka before any restart"


def test_value_is_called_by_the_name_that_the_script_gave_it() -> None:
    assert words.value_name(17, {"17": "m2"}) == "m2 (value 17)"
    assert words.value_name(18, {"17": "m2"}) == "value 18"
    assert words.value_name(10**12, {}) == "one of the lab's last records (value 1000000000000)"


@pytest.mark.parametrize(
    ("numbers", "text"), [([3], "3"), ([8, 3, 6, 7], "3, 6 to 8"), (range(0, 30, 2), "0 to 28 with gaps"), ([], "")]
)
def test_runs_of_numbers_are_short(numbers: list[int], text: str) -> None:
    assert words.runs_of(numbers) == text


def test_date_is_in_utc_and_names_it() -> None:
    assert words.date(1_700_000_000_000_000_000) == "2023-11-14 22:13 UTC"
    assert words.date(None) is None
