"""How a story is printed on a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from harness.commands.explain import told
from harness.report.story import findings
from tests.support.sample_run import RESULTS, RUN, SERIES, witness

pytestmark = pytest.mark.guarantee("V6")


def printed(width: int = 100, most: int = 5, **said: Any) -> list[str]:
    results = {**RESULTS, **said}
    return list(told(results, findings(RUN, results, SERIES), most, width))


def test_story_is_told_step_by_step() -> None:
    lines = printed()
    assert lines[0] == RESULTS["sentence"]
    assert "1. m2 (value 17) at offset 2 of hw-0" in lines
    sent = next(nth for nth, line in enumerate(lines) if "Client 3 sent m2" in line)
    gone = next(
        nth for nth, line in enumerate(lines) if "at offset 2 value 99, not m2" in " ".join(lines[nth : nth + 2])
    )
    assert sent < gone
    assert lines[sent].startswith("       1.000 s  clients")
    assert lines[-1].strip().startswith("n2 holds value 99") or "byte 140" in lines[-1]


@pytest.mark.parametrize("width", [40, 72, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, printed(width))) <= width


def test_findings_that_are_not_told_are_counted() -> None:
    checker = RESULTS["checkers"]["lost-write"]
    many = {"lost-write": {**checker, "witnesses": [witness("gone", offset=nth) for nth in range(7)]}}
    lines = printed(most=2, checkers=many)
    assert "5 more findings: --most 7 tells all; so does report.html." in lines
    assert not [line for line in lines if line.startswith("3. ")]


def test_valid_run_has_no_story() -> None:
    lines = printed(checkers={}, sentence="Valid: 3 records.")
    assert lines == ["Valid: 3 records.", "", "No checker found anything to tell a story of."]


def test_recorded_text_does_not_move_the_cursor() -> None:
    assert "\x1b" not in "".join(printed(sentence="Invalid: \x1b[2J gone."))
