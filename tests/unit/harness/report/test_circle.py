"""A cycle of transactions: its dependencies in words, and its drawing."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from harness.commands.explain import told
from harness.report.build import build
from harness.report.circle import circle, lanes
from harness.report.diagram import svg
from harness.report.story import findings
from tests.support.sample_run import OPERATIONS, RESULTS, RUN, SERIES, write_sample_run

pytestmark = pytest.mark.guarantee("V6")

EDGES: list[dict[str, Any]] = [
    {"from": "transaction 5", "to": "poll 7", "edge": "wr", "partition": "hw-0", "offset": 2, "at_ns": 1_000_000_000}
    | {"text": "value 17 of transaction 5, at hw-0 offset 2, was returned to poll 7"},
    {"from": "poll 7", "to": "transaction 5", "edge": "rw", "partition": "hw-1", "offset": 4, "at_ns": 1_200_000_000}
    | {"text": "poll 7 read hw-1 to offset 3, and value 18 of transaction 5, at offset 4, was not <yet>"},
]
WITNESS: dict[str, Any] = {
    "summary": "transaction 5 → poll 7 → transaction 5",
    "kind": "allowed",
    "partition": "hw-0",
    "offset": None,
    "value": None,
    "from_ns": 1_000_000_000,
    "to_ns": 1_200_000_000,
    "faults": [],
    "operations": OPERATIONS,
    "evidence": [],
    "cycle": EDGES,
}


def results() -> dict[str, Any]:
    checker = {**RESULTS["checkers"]["lost-write"], "title": "Intermediate read (G1b)", "witnesses": [WITNESS] * 2}
    return {**RESULTS, "checkers": {"g1b": checker}}


def test_each_dependency_is_an_arrow_to_the_next_and_the_last_one_leads_back() -> None:
    steps = circle(EDGES)
    assert lanes(steps) == ("T5", "poll 7")
    assert [(step.lanes[0], step.label, step.to) for step in steps] == [
        ("T5", "wr", "poll 7"),
        ("poll 7", "rw", "T5"),
    ]
    assert steps[0].text.startswith("Transaction 5 was read by poll 7: value 17")
    there, back = list(ElementTree.fromstring(svg(steps, lanes(steps))).iter("line"))[-2:]
    assert float(there.attrib["x1"]) < float(there.attrib["x2"])
    assert float(back.attrib["x1"]) > float(back.attrib["x2"])


def test_every_cycle_is_a_finding_of_its_own_with_its_operations() -> None:
    first, second = findings(RUN, results(), SERIES)
    assert first.circle == second.circle == circle(EDGES)
    assert {"send", "read"} <= {step.kind for step in first.steps}


def test_finding_without_a_cycle_has_none() -> None:
    assert all(not one.circle for one in findings(RUN, RESULTS, SERIES))


def test_terminal_tells_the_dependencies() -> None:
    lines = list(told(results(), findings(RUN, results(), SERIES), 1, 200))
    assert any("T5 –wr→ poll 7" in line for line in lines)
    assert any("poll 7 –rw→ T5" in line for line in lines)


def test_page_draws_the_cycle_and_says_it_in_words(tmp_path: Path) -> None:
    page = build(write_sample_run(tmp_path, **results())).read_text(encoding="utf-8")
    assert page.count("<h4>The cycle</h4>") == 2
    assert page.count('<g class="step cycle">') == 4
    assert "was not &lt;yet&gt;" in page
