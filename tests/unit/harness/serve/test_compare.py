"""Two runs side by side: only real settings that differ, every verdict, every figure."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.serve.compare import Judged, Row, as_text, compare
from tests.support.sample_run import RESULTS, RUN

pytestmark = pytest.mark.guarantee("V6")


def _other() -> Judged:
    run, results = copy.deepcopy(RUN), copy.deepcopy(RESULTS)
    run |= {"seed": 8, "origin_wall_ns": 5, "command": ["x"], "finished": False}
    run["system"]["settings"] = {"replica.lag.time.max.ms": 5000, "extra": True}
    run["nodes"][0]["address"] = "10.0.0.9"
    results["verdict"] = "valid"
    results["checkers"]["lost-write"] |= {"verdict": "valid", "counts": {"acknowledged": 99_999, "lost": 0}}
    del results["checkers"]["availability"]
    return Judged(run, results)


def test_what_differs_is_shown_and_what_names_one_run_is_not() -> None:
    found = compare(Judged(RUN, RESULTS), _other())
    assert found.settings == (
        Row("seed", "7", "8"),
        Row("system.settings.extra", "", "true"),
        Row("system.settings.replica.lag.time.max.ms", "3000", "5000"),
    )
    assert found.verdicts == (
        Row("run", "invalid", "valid"),
        Row("availability", "valid", ""),
        Row("leader-completeness", "invalid", "invalid"),
        Row("lost-write", "invalid", "valid"),
    )
    assert Row("lost-write: acknowledged", "1,234", "99,999") in found.figures
    assert Row("acknowledged", "1,234", "1,234") in found.figures


def test_run_is_as_itself() -> None:
    found = compare(Judged(RUN, RESULTS), Judged(RUN, RESULTS))
    assert found.settings == ()
    assert not any(row.differs for row in (*found.verdicts, *found.figures))


@pytest.mark.parametrize("nonsense", [None, 3, [], "x", {"figures": [1]}])
def test_nonsense_is_compared_without_complaint(nonsense: Any) -> None:
    odd = Judged({"nodes": nonsense}, {"verdict": nonsense, "checkers": nonsense, "coverage": nonsense})
    assert compare(odd, Judged({}, {})).figures == ()


def test_text_has_columns_and_no_control_characters() -> None:
    text = as_text(compare(Judged({"seed": "\x1b[31m7"}, {}), Judged({}, {})), ("a", "bb"))
    assert "  seed  \\x1b[31m7  -\n" in text
    assert "\x1b" not in text
    assert "figures\n      a  bb\n" not in text
    assert text.endswith("figures\n    a  bb\n  none\n")
