"""A number that grows: what may be counted when, and what a search makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.search.counts import COUNT, GROW, REFUSED, Growing
from checkers.search.keys import search_count
from checkers.search.operations import Operation

pytestmark = pytest.mark.guarantee("V4")


@pytest.mark.parametrize(
    ("f", "value", "allowed"),
    [
        (GROW, 7, False),
        (GROW, 8, True),
        (REFUSED, 7, True),
        (REFUSED, 8, False),
        # Grown from 4 to 7: the new ones may come one after the other.
        (COUNT, 4, False),
        (COUNT, 5, True),
        (COUNT, 7, True),
        (COUNT, 8, False),
    ],
)
def test_what_a_state_allows(f: str, value: int, allowed: bool) -> None:
    spec = Growing(2)
    state = spec.after(spec.after(spec.initial, Operation(0, GROW, 4, 0, 1)), Operation(1, GROW, 7, 2, 3))
    assert spec.allows(state, Operation(2, f, value, 4, 5)) is allowed


def test_row_names_the_count_that_no_order_explains_and_how_many_there_were() -> None:
    rows: list[tuple[Any, ...]] = [
        (10, GROW, 4, 2, 3, "n1/main/0", None),
        (20, COUNT, 4, 6, 7, "n1/main/0", 0),
        (30, COUNT, 5, 8, 9, "n2/main/0", 0),
    ]
    assert search_count(rows, 2) == ("not-linearizable", 2, 30, [4], [10, 20], 2, 9)
    assert search_count(rows[:2], 2)[0] == "linearizable"


def test_other_reader_may_lag_and_the_same_one_may_not() -> None:
    grown = (10, GROW, 4, 2, 3, "n1/main/0", None)
    assert search_count([grown, (20, COUNT, 2, 6, 7, "n2/main/0", 0)], 2)[0] == "linearizable"
    assert search_count([grown, (20, COUNT, 2, 6, 7, "n1/main/0", 0)], 2)[0] == "not-linearizable"
