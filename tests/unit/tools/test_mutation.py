"""Which functions of the core are changed, and what the score counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutation import Function, draw, functions_in, results, score

ROOT = Path(__file__).resolve().parents[3]
SOURCE = """
def plain(): ...
@decorated
def hidden(): ...
class Leader:
    def advance(self):
        def inner(): ...
    @property
    def end(self): ...
"""
PRINTED = """
    a.x_f__mutmut_1: killed
    a.x_f__mutmut_2: survived
    a.x_f__mutmut_10: no tests
    a.xǁCǁm__mutmut_1: timeout
    b.x_g__mutmut_1: not checked
"""


def test_functions_and_methods_are_named_as_mutmut_names_their_mutants() -> None:
    found = list(functions_in("broker/core/a.py", SOURCE))
    assert found == [Function("broker/core/a.py", "", "plain"), Function("broker/core/a.py", "Leader", "advance")]
    assert [one.pattern for one in found] == [
        "broker.core.a.x_plain__mutmut_*",
        "broker.core.a.xǁLeaderǁadvance__mutmut_*",
    ]


def test_same_seed_draws_the_same_functions_and_another_seed_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    first = draw(1, 6)
    assert len(first) == 6
    assert draw(1, 6) == first
    assert draw(2, 6) != first
    assert set(draw(1, 7)) > set(first)
    assert len(draw(1, 0)) > 100


def test_score_counts_what_no_test_noticed_or_ran_and_leaves_out_what_was_not_checked() -> None:
    statuses = results(PRINTED)
    assert list(statuses.values()) == ["killed", "survived", "no tests", "timeout"]
    assert score(statuses) == 50
    assert score({}) == 0
