"""What the report prints, from results.json alone."""

from __future__ import annotations

import pytest

from harness.report import model
from tests.support.sample_run import RESULTS, RUN

pytestmark = pytest.mark.guarantee("V6")


def test_page_puts_invalid_checkers_first_and_names_the_faults_of_a_witness() -> None:
    page = model.page(RUN, RESULTS)
    assert [row.name for row in page.families[0][1]] == ["lost-write", "fabricated-value"]
    (witness,) = page.witnesses
    assert witness.faults == ("kill n1",)
    assert (witness.from_s, witness.to_s) == (1.0, 5.0)


def test_page_names_the_command_that_runs_it_again() -> None:
    assert model.page(RUN, RESULTS).command == "highwater test sample.toml --seed 7 --nodes local"


def test_page_with_a_witness_of_an_unknown_fault_keeps_its_number() -> None:
    results = {**RESULTS, "faults": []}
    assert model.page(RUN, results).witnesses[0].faults == ("fault 1",)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567, "1,234,567"), (12.5, "12.5"), (2.0, "2"), (None, "–"), (True, "true"), ([1, 2], "1, 2"), ("x", "x")],
)
def test_number_prints_figures_with_separators(value: object, text: str) -> None:
    assert model.number(value) == text


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({}, ""),
        ({"met": None}, "; nothing shows that the broker met it"),
        (
            {"met": {"how": "cut", "at_ns": 6_500_000_000}},
            "; the broker found that log shorter after 5.5 s",
        ),
    ],
)
def test_page_says_how_damage_was_met(fault: dict[str, object], text: str) -> None:
    results = {**RESULTS, "faults": [{**RESULTS["faults"][0], "start_ns": 1_000_000_000, **fault}]}
    assert model.page(RUN, results).faults[0]["met_text"] == text
