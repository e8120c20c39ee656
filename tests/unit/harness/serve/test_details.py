"""Checkers on the page of a run: the worst first, nonsense left out."""

from __future__ import annotations

from typing import Any

import pytest

from harness.serve.details import checkers
from tests.support.sample_run import RESULTS

_MEASURES = RESULTS["checkers"]["availability"]["measures"]

pytestmark = pytest.mark.guarantee("V6")


def test_worst_comes_first_with_its_reasons_and_figures() -> None:
    shown = checkers(RESULTS)
    assert [(one.name, one.verdict) for one in shown] == [
        ("leader-completeness", "invalid"),
        ("lost-write", "invalid"),
        ("availability", "valid"),
    ]
    assert shown[1].reasons == ("1 of 3 acknowledged records is gone.",)
    assert shown[2].figures.keys() == {*RESULTS["checkers"]["availability"]["counts"], *_MEASURES}


@pytest.mark.parametrize("nonsense", [None, 3, [], "x", {"a": 1, "b": None}, {"a": {"verdict": 3}}])
def test_nonsense_is_no_checker(nonsense: Any) -> None:
    assert checkers({"checkers": nonsense}) == []


def test_checker_without_anything_else_has_its_name() -> None:
    (only,) = checkers({"checkers": {"a": {"verdict": "odd", "title": 3, "reasons": "x", "counts": {"n": True}}}})
    assert (only.title, only.reasons, only.figures) == ("a", (), {})
