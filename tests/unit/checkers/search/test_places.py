"""Where records without a known offset may stand, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.search.keys import search_log
from checkers.search.operations import Operation
from checkers.search.places import APPEND, NOWHERE, places

pytestmark = pytest.mark.guarantee("V2")


def append(index: int, offset: int | None, begun: int, over: int) -> tuple[Any, ...]:
    return (index, APPEND, offset, begun, over, None, None)


FIRST, LAST = append(0, 0, 0, 1), append(9, 3, 10, 11)


@pytest.mark.parametrize(
    ("passed_over", "floating"),
    [
        # Two places between them, and any number behind.
        ([], [append(1, None, 2, 3), append(2, None, 4, 5)]),
        ([], [append(1, None, 2, 3), append(2, None, 4, 5), append(3, None, 6, 10)]),
        ([(0, 2)], [append(1, None, 2, 3)]),
        ([(0, 4)], [append(1, None, 2, 10)]),
    ],
)
def test_records_with_a_place_each_prove_nothing(passed_over: list[Any], floating: list[Any]) -> None:
    assert search_log([FIRST, *floating, LAST], passed_over) is None


@pytest.mark.parametrize(
    ("passed_over", "floating", "found"),
    [
        ([(0, 4)], [append(1, None, 2, 3)], (1, 9)),
        ([(1, 2)], [append(1, None, 2, 3), append(2, None, 4, 5)], (2, 9)),
        ([(1, 2), (2, 3)], [append(1, None, 2, 3)], (1, 9)),
        ([], [append(n, None, 2, 3) for n in (1, 2, 3)], (3, 9)),
        ([(0, 1)], [append(1, None, -3, -1)], (1, 0)),
    ],
)
def test_record_without_a_place_is_named_with_what_shows_it(
    passed_over: list[Any], floating: list[Any], found: tuple[int, int]
) -> None:
    unplaced = search_log([FIRST, *floating, LAST], passed_over)
    assert unplaced is not None
    assert unplaced[:2] == found
    begun = next(one[3] for one in floating if one[0] == found[0])
    assert unplaced[2:] == (begun, 11 if found[1] == 9 else 1)


def test_what_is_wrong_without_them_is_left_to_others() -> None:
    floating = append(1, None, 2, 3)
    assert search_log([LAST, append(0, 4, 0, 1), floating], [(0, 9)]) is None
    assert search_log([FIRST, append(2, 0, 20, 21), floating], [(0, 9)]) is None


def test_search_for_places_that_breaks_off_proves_nothing() -> None:
    rows = [append(n, None, 0, 100) for n in range(12)]
    rows += [append(20 + n, 10 * n, 20 * n, 20 * n + 1) for n in range(4)]
    late = append(30, 31, 200, 201)
    assert search_log([*rows, late], [(0, 31)], budget=1) is None


def test_lowest_free_offset_is_behind_what_was_passed_over() -> None:
    log = places([4, 0], [(1, 3), (2, 4), (7, 8)])
    floating = Operation(0, APPEND, None, 0, 1)
    assert [log.after(state, floating) for state in (NOWHERE, 0, 3, 4, 5, 6, 7)] == [5, 5, 5, 5, 6, 8, 8]
    at_four = Operation(1, APPEND, 4, 0, 1)
    assert [log.allows(state, at_four) for state in (NOWHERE, 0, 3, 4, 5)] == [False, True, True, False, False]
