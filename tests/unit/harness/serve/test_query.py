"""Filters, search and order of the list."""

from __future__ import annotations

import pytest

from harness.serve.query import PAGE, Query, page_of, parse, select
from harness.serve.summary import Summary

pytestmark = pytest.mark.guarantee("V6")

RUNS = [
    Summary("demo", "1", "demo", "valid", seed=7, started_s=100.0, seconds=60.0, sentence="Valid: all read back"),
    Summary("demo", "2", "demo", "invalid", seed=8, started_s=300.0, seconds=50.0, found=("lost-write",)),
    Summary("other", "3", "Other <b>", "not readable", sentence="run.json: not JSON"),
    Summary("other", "4", "Other <b>", "unknown", seed=70, started_s=200.0, seconds=70.0),
]


def _stamps(**values: str) -> str:
    return "".join(run.stamp for run in select(RUNS, parse(values)))


@pytest.mark.parametrize(
    ("values", "stamps"),
    [
        ({}, "2413"),
        ({"verdict": "invalid"}, "2"),
        ({"verdict": "not readable"}, "3"),
        ({"verdict": "fine"}, ""),
        ({"name": "OTHER"}, "43"),
        ({"seed": "7"}, "1"),
        ({"seed": "x"}, ""),
        ({"checker": "lost-write"}, "2"),
        ({"checker": "lost"}, ""),
        ({"q": "demo BACK"}, "1"),
        ({"q": "demo nothing"}, ""),
        ({"sort": "seed", "order": "up"}, "1243"),
        ({"sort": "duration", "order": "down"}, "4123"),
        ({"sort": "none", "order": "sideways", "page": "9"}, "2413"),
    ],
)
def test_query_finds(values: dict[str, str], stamps: str) -> None:
    assert _stamps(**values) == stamps


def test_links_keep_the_filters_and_turn_the_order() -> None:
    query = parse({"verdict": "valid", "q": "a&b"})
    assert query.link_sorted("seed") == "?verdict=valid&q=a%26b&sort=seed&order=up"
    assert parse({"sort": "seed", "order": "up"}).link_sorted("seed") == "?sort=seed"
    assert Query().link_sorted("when") == "?order=up"


def test_links_of_pages_keep_filters_and_order_and_a_new_order_begins_at_the_first() -> None:
    query = parse({"verdict": "valid", "sort": "seed", "page": "3"})
    assert query.link(page=4) == "?verdict=valid&sort=seed&page=4"
    assert query.link(page=1) == "?verdict=valid&sort=seed"
    assert query.link_sorted("name") == "?verdict=valid&sort=name&order=up"


@pytest.mark.parametrize(
    ("asked", "number"), [("1", 1), ("3", 3), ("007", 3), ("0", 1), ("-1", 1), ("two", 1), ("²", 1), ("9" * 30, 1)]
)
def test_list_is_shown_in_pages(asked: str, number: int) -> None:
    runs = [Summary("demo", str(stamp), "demo", "valid", seed=stamp) for stamp in range(2 * PAGE + 1)]
    page = page_of(runs, parse({"page": asked}))
    assert (page.number, page.found, page.last) == (number, 2 * PAGE + 1, 3)
    assert page.runs == runs[page.first - 1 : page.first - 1 + PAGE]
    assert [run.seed for run in page.runs][:1] == [(number - 1) * PAGE]


def test_page_of_an_empty_list_is_the_first() -> None:
    page = page_of([], parse({"page": "5"}))
    assert (page.number, page.last, page.runs, page.near) == (1, 1, [], [1])


@pytest.mark.parametrize(
    ("asked", "near"), [("1", [1, 2, 3, 10]), ("5", [1, 3, 4, 5, 6, 7, 10]), ("10", [1, 8, 9, 10])]
)
def test_pages_to_go_to_are_the_first_the_last_and_those_around(asked: str, near: list[int]) -> None:
    runs = [RUNS[0]] * (10 * PAGE)
    assert page_of(runs, parse({"page": asked})).near == near
