"""Rows of one key to a row of what was found."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.search.keys import search_register

pytestmark = pytest.mark.guarantee("V4")

SHOWN_AND_GONE = [
    (30, "read", 4, 8, 9, "n1", 0),
    (10, "write", 4, 2, 3, "n1", None),
    (12, "write", 3, 4, None, None, None),
    (20, "read", 3, 6, 7, "n1", 0),
]


def test_row_names_what_blocks_and_what_an_order_before_it_ends_with() -> None:
    assert search_register(SHOWN_AND_GONE, -1) == ("not-linearizable", 2, 30, [3], [12, 20], 2, 9)


def test_row_of_what_has_an_order_names_nothing() -> None:
    verdict, completed, blocking, *_ = search_register(SHOWN_AND_GONE[1:], -1)
    assert (verdict, completed, blocking) == ("linearizable", 2, None)


def test_row_of_nothing_shows_the_state_that_it_began_with() -> None:
    assert search_register([], -1) == ("linearizable", 0, None, [-1], [], 0, 0)


def test_search_that_breaks_off_says_how_far_it_came() -> None:
    rows: list[tuple[Any, ...]] = [(n, "write", n % 2, 0, 100, "n1", None) for n in range(12)]
    rows += [(50 + at, "read", at % 2, 2 * at, 2 * at + 1, "n1", 2 * at) for at in range(14)]
    verdict, completed, blocking, *_ = search_register(rows, -1, budget=10)
    assert verdict == "out-of-budget"
    assert blocking is not None
    assert 0 < completed < 14
