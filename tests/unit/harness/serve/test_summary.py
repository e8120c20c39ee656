"""One line of the list: what a run is called that is judged, not judged, not finished, or nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from harness.serve.summary import STATES, summary
from tests.support.sample_run import RESULTS, RUN

pytestmark = pytest.mark.guarantee("V6")


def test_judged_run_says_verdict_sentence_anomalies_nodes_and_duration() -> None:
    shown = summary("sample", "t", {**RUN, "started_wall_ns": 10 * 10**9}, RESULTS, 75.5)
    assert (shown.state, shown.sentence) == ("invalid", RESULTS["sentence"])
    assert shown.found == ("leader-completeness", "lost-write")
    assert (shown.seed, shown.seconds) == (7, 65.5)


@pytest.mark.parametrize(
    ("run", "results", "state"),
    [
        ({"finished": True}, None, "not judged"),
        ({"finished": False}, None, "not finished"),
        ({"finished": False, "aborted": "Ctrl-C"}, None, "aborted"),
        ({"finished": True}, {"verdict": "fine"}, "not readable"),
        ({"finished": True}, {"verdict": ["valid"]}, "not readable"),
        ({}, None, "not finished"),
    ],
)
def test_run_without_a_verdict_is_called_what_it_is(
    run: dict[str, object], results: dict[str, object] | None, state: str
) -> None:
    assert summary("a", "t", run, results, None).state == state
    assert state in STATES


@pytest.mark.parametrize("nonsense", [None, [], {}, "x", True, -1, 1e400, 1 << 80])
def test_nonsense_in_any_key_is_as_if_missing(nonsense: Any) -> None:
    shown = summary(
        "a",
        "t",
        dict.fromkeys(("name", "seed", "started_wall_ns", "nodes", "node_kind", "aborted", "finished"), nonsense),
        {"verdict": nonsense, "sentence": nonsense, "checkers": nonsense},
        5.0,
    )
    assert shown.state == "not readable"
    assert shown.found == ()
    assert shown.name in ("a", "x")


def test_copied_run_whose_history_seems_older_than_its_start_has_no_duration() -> None:
    assert summary("a", "t", {"started_wall_ns": 10 * 10**9}, None, 5.0).seconds is None
