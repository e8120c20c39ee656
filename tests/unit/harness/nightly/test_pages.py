from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from harness.nightly.history import NightRow
from harness.nightly.jobs import Job, Result
from harness.nightly.outputs import Row
from harness.nightly.pages import Shown, as_json, badge, grid, html, markdown, spark
from harness.nightly.trends import NightOfRuns, Trend

HOSTILE = "<b>|`*\nx"


def shown(*rows: Row, exit_code: int = 0, notes: tuple[str, ...] = (), trends: tuple[Trend, ...] = ()) -> Shown:
    counts = {name: sum(row.counts_as == name for row in rows) for name in ("valid", "invalid", "unknown", "crash")}
    night = NightRow(3, "nightly", "2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00+00:00", 1, 1, exit_code, 0)
    return Shown(night, counts, notes, rows, trends, ())


def row(name: str, code: int = 0, sentence: str = "", cell: dict[str, str] | None = None) -> Row:
    word = {0: "valid", 1: "invalid", 2: "unknown"}.get(code, "crash")
    job = Job(f"{name}.toml", name, "d", 1, "valid", cell=cell or {})
    return Row(job, Result(code, 1.0, sentence, None), word, None)


GOOD, BAD = row("a"), row("b", 1, HOSTILE)


def test_markdown_tells_what_is_not_as_it_should_be_and_nothing_else() -> None:
    text = markdown(shown(BAD, GOOD, exit_code=1, notes=("flaky: a",)))
    assert text.splitlines() == [
        "### highwater nightly: invalid",
        "",
        "2 runs: 1 valid, 1 invalid, 0 unknown, 0 crash",
        "",
        "- flaky: a",
        "",
        "| run | seed | came out | what was found |",
        "|---|---|---|---|",
        r"| b | 1 | invalid | \<b\>\|\`\* x |",
    ]
    assert "|" not in markdown(shown(GOOD))


def test_markdown_of_many_failures_ends_with_how_many_more_there_are() -> None:
    text = markdown(shown(*[BAD] * 25, exit_code=1))
    assert text.count("| b | 1 |") == 20
    assert text.endswith("and 5 more: summary.html\n")


@pytest.mark.parametrize(
    ("rows", "exit_code", "label"),
    [
        ((GOOD,), 0, "nightly: 1 valid (valid)"),
        ((GOOD, BAD), 1, "nightly: 1 of 2 valid (invalid)"),
        ((), 2, "nightly: 0 of 0 valid (unknown)"),
        ((row("c", 255),), 255, "nightly: 0 of 1 valid (crash)"),
    ],
)
def test_badge_is_a_picture_that_says_its_verdict_in_words(rows: tuple[Row, ...], exit_code: int, label: str) -> None:
    picture = ElementTree.fromstring(badge(shown(*rows, exit_code=exit_code)))
    assert picture.get("aria-label") == label


def test_json_names_the_runs_that_failed() -> None:
    posted = as_json(shown(BAD, GOOD, exit_code=1))
    assert posted["verdict"] == "invalid"
    assert [run["name"] for run in posted["runs"]] == ["b"]  # type: ignore[attr-defined]


def test_grid_has_a_row_for_each_value_of_the_first_axis() -> None:
    cells = [
        row("x", cell={"load": "light", "faults": "none", "nodes": "local"}),
        row("y", 1, cell={"load": "heavy", "faults": "none", "nodes": "local"}),
        row("z", cell={"load": "heavy", "faults": "all", "nodes": "local"}),
    ]
    assert grid(cells) == {
        "heavy": {"all": {"valid": 1}, "none": {"invalid": 1}},
        "light": {"all": {}, "none": {"valid": 1}},
    }
    assert grid([*cells[:1], GOOD]) == {}


def test_sparkline_goes_from_left_to_right_and_up_to_the_largest() -> None:
    assert spark([5, 10, 0]) == "0.0,12.0 60.0,0.0 120.0,24.0"
    assert spark([0, 0]) == "0.0,24.0 120.0,24.0"
    assert spark([1]) == ""


def test_page_shows_hostile_text_as_text_and_every_night() -> None:
    nights = [NightOfRuns(n, f"night {n}", {"valid": 1, "invalid": n}, {"per_s": 10.0 * n}) for n in (1, 2)]
    page = html(shown(BAD, GOOD, exit_code=1, notes=("<i>",), trends=(Trend("b", nights),)))
    assert "<b>" not in page
    assert "<i>" not in page
    assert page.count('class="night invalid"') == 2
    assert 'points="0.0,12.0 120.0,0.0"' in page
    assert "not measured" in page
