"""Filters, search and order of the list."""

from __future__ import annotations

import pytest

from harness.serve.query import Query, parse, select
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
