"""What the report prints beside stories and charts, from run.json and results.json alone."""

from __future__ import annotations

import pytest

from harness.report import model
from tests.support.sample_run import RESULTS, RUN

pytestmark = pytest.mark.guarantee("V6")


def test_page_puts_invalid_checkers_first() -> None:
    page = model.page(RUN, RESULTS)
    assert [row.name for row in page.families[0][1]] == ["lost-write", "availability"]


def test_page_names_the_command_that_runs_it_again() -> None:
    assert model.page(RUN, RESULTS).command == "highwater test sample.toml --seed 7 --nodes local"


def test_headline_is_the_first_part_of_the_sentence_and_nothing_is_left_out() -> None:
    page = model.page(RUN, RESULTS)
    assert page.headline == "Invalid: 1 acknowledged record lost."
    assert page.remarks == ("Found by lost-write, in 1,234 acknowledged records.",)


def test_remark_on_what_was_required_has_plain_words() -> None:
    coverage = {**RESULTS["coverage"], "lowered": {"acknowledged": 2500, "writes_during_faults": 6}}
    sentence = "Valid: 3 records; required less: acknowledged 2500, writes_during_faults 6."
    assert model.page(RUN, {**RESULTS, "sentence": sentence, "coverage": coverage}).remarks == (
        "Required was less than usual: records acknowledged, 2,500; faults during which there were writes, 6.",
    )


def test_sentence_is_not_parted_inside_brackets() -> None:
    assert model.parts_of("Unknown: 2 nodes (n1; n2) are gone; not fired: kill.") == [
        "Unknown: 2 nodes (n1; n2) are gone.",
        "Not fired: kill.",
    ]
    assert model.parts_of("") == ["There is no verdict."]


def test_facts_tell_the_run_from_others() -> None:
    facts = dict(model.page(RUN, RESULTS, 83_200_000_000).facts)
    assert facts == {
        "Run": "sample, seed 7",
        "Date": "2023-11-14 22:13 UTC",
        "Duration": "83.2 s",
        "System": "highwater 0.1.0",
        "Code": "a2d5e3bbd842",
        "Nodes": "local: 3 brokers and 1 ZooKeeper",
        "Host": "kernel 6.1, python 3.11.7, java 17",
    }


def test_facts_leave_out_what_an_older_run_does_not_say() -> None:
    older = {key: value for key, value in RUN.items() if key not in ("code", "versions", "started_wall_ns")}
    assert set(dict(model.page(older, RESULTS).facts)) == {"Run", "System", "Nodes"}


def test_availability_is_in_plain_words_and_seconds() -> None:
    figures = dict(model.page(RUN, RESULTS).availability)
    assert figures["longest time without an acknowledged send to a partition"] == "3.9 s"
    assert "violations found" not in figures


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


def test_fault_has_its_length_unless_it_was_not_taken_back() -> None:
    results = {**RESULTS, "faults": [RESULTS["faults"][0], {**RESULTS["faults"][0], "stop_ns": None}]}
    assert [fault["lasted"] for fault in model.page(RUN, results).faults] == ["2 s", "until the end"]
