from __future__ import annotations

from typing import Any

import pytest

from harness.runs.changes import WITNESSES_SHOWN, changes


def witness(summary: str, **more: object) -> dict[str, object]:
    return {"summary": summary, "kind": "invalid", "partition": "hw-0", "offset": 3, "value": 17} | more


def results(verdict: str = "valid", reasons: list[str] | None = None, **checkers: dict[str, Any]) -> dict[str, Any]:
    return {"verdict": verdict, "reasons": reasons or [], "checkers": checkers, "analysis": {"seconds": 3.0}}


def test_same_judgement_in_another_time_changed_nothing() -> None:
    lost = {"verdict": "valid", "counts": {"acknowledged": 8}, "measures": {"worst_ms": 1.0}, "witnesses": []}
    again = results(lost=lost | {"measures": {"worst_ms": 2.0}}) | {"analysis": {"seconds": 9.0}}
    assert changes(results(lost=lost), again) == []


def test_verdicts_counts_reasons_and_witnesses_are_changes() -> None:
    before = results(
        "unknown",
        ["aborted"],
        lost={"verdict": "unknown", "counts": {"found": 0, "undecided": 2}, "reasons": ["no drain"], "witnesses": []},
    )
    now = results(
        "invalid",
        ["torn history"],
        lost={
            "verdict": "invalid",
            "counts": {"found": 1200},
            "reasons": ["one is nowhere"],
            "witnesses": [witness("value 17 is nowhere")],
        },
    )
    assert changes(before, now) == [
        "verdict: unknown, now invalid",
        "the run as a whole: new: torn history",
        "the run as a whole: no more: aborted",
        "lost: unknown, now invalid",
        "lost: found 0, now 1,200",
        "lost: undecided 2, now absent",
        "lost: new: one is nowhere",
        "lost: no more: no drain",
        "lost: witness new: value 17 is nowhere",
    ]


def test_checker_that_came_or_went_is_a_change() -> None:
    assert changes(results(old={"verdict": "valid"}), results(new={"verdict": "unknown"})) == [
        "new: not judged, now unknown",
        "old: valid, now not judged",
    ]


def test_witness_of_the_same_words_about_another_record_is_another() -> None:
    before = results(lost={"verdict": "invalid", "witnesses": [witness("gone")]})
    now = results(lost={"verdict": "invalid", "witnesses": [witness("gone", offset=4)]})
    assert changes(before, now) == ["lost: witness new: gone", "lost: witness no more: gone"]


def test_of_many_witnesses_some_are_shown_and_the_others_counted() -> None:
    many = [witness(f"value {number}", value=number) for number in range(WITNESSES_SHOWN + 40)]
    lines = changes(results(lost={"witnesses": many}), results(lost={"witnesses": []}))
    assert len(lines) == WITNESSES_SHOWN + 1
    assert lines[-1] == "lost: witness no more: 40 others"


def test_fault_that_is_seen_otherwise_is_a_change() -> None:
    before, now = (results() | {"faults": [{"fault_id": 3, "observed": seen}]} for seen in (True, False))
    assert changes(before, now) == ["fault 3: observed, now not observed"]


@pytest.mark.parametrize("broken", [None, 7, "x", [1], {"lost": 3}, {"lost": {"counts": [], "witnesses": [None, 4]}}])
def test_whatever_a_file_holds_is_compared_without_an_error(broken: object) -> None:
    odd = {"verdict": "valid", "checkers": broken, "reasons": broken, "faults": broken}
    assert changes(odd, odd) == []
    changes(odd, results(lost={"verdict": "valid"}))
    changes(results(lost={"verdict": "valid"}), odd)
