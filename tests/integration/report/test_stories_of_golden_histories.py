"""Every operation of the stored histories has words: no kind of operation, answer or error is left out of a story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.report.diagram import svg
from harness.report.steps import CLIENTS, Step, Subject, of_operation
from tests.support.brokers import ROOT

pytestmark = pytest.mark.guarantee("V6")

HISTORIES = sorted((ROOT / "tests/golden").glob("*/bad*/history.jsonl"))
SUBJECT = Subject(None, None, None, {})


def operations(history: Path) -> list[list[dict[str, Any]]]:
    """An invocation and, where there is one, its completion."""
    found: dict[int, list[dict[str, Any]]] = {}
    for line in map(json.loads, history.read_text(encoding="utf-8").splitlines()):
        if line["kind"] == "client":
            found.setdefault(line.get("invoke", line["index"]), []).append(line)
    return list(found.values())


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_operations_of_a_stored_history_are_told(history: Path) -> None:
    steps: list[Step] = []
    for lines in operations(history):
        told = of_operation(lines, SUBJECT)
        assert told, lines
        steps += told
    for step in steps:
        assert step.text.endswith("."), step
        assert step.text[0].isupper() or step.lanes != (CLIENTS,), step
        assert "None" not in step.text, step
        assert " called " not in step.text, step
    drawn = svg(steps[:40], (CLIENTS,))
    assert drawn.count("<g ") == len(steps[:40])


def test_there_are_stored_histories() -> None:
    assert len(HISTORIES) > 60
