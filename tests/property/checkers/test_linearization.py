"""The search for an order against the plain one, which tries them all: of registers, on long lives too, and of logs."""

from __future__ import annotations

from dataclasses import astuple
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.search.keys import search_log
from checkers.search.linearization import search
from checkers.search.operations import Operation, Outcome
from checkers.search.register import READ, WRITE, Register, needed
from tests.support.examples import examples
from tests.support.order_twins import (
    has_order,
    has_places,
    random_appends,
    random_operations,
    register_life,
    with_older_read,
)

pytestmark = pytest.mark.guarantee("V4")

BUDGET = 100_000
SEEDS = st.integers(0, 2**32)


def searched(operations: list[Operation]) -> Outcome:
    return search(Register(0), operations, BUDGET)


@examples(1500)
@given(SEEDS)
def test_search_finds_an_order_where_there_is_one(seed: int) -> None:
    operations = random_operations(Random(seed), 6)
    expected = "linearizable" if has_order(operations, 0) else "not-linearizable"
    assert searched(operations).verdict == expected
    # Writes that nobody can have read, and that never completed, change nothing.
    assert searched(needed(operations)).verdict == expected


@examples(500)
@given(SEEDS)
def test_longest_prefix_is_the_last_one_that_has_an_order(seed: int) -> None:
    operations = random_operations(Random(seed), 6)
    outcome = searched(operations)
    if outcome.blocking is None:
        return
    over = next(op.complete_ns for op in operations if op.index == outcome.blocking)
    assert over is not None
    ends = sorted((op.complete_ns, op.index) for op in operations if op.complete_ns is not None)
    at_that_time = [index for end, index in ends if end == over]
    before = sum(end < over for end, _ in ends)
    assert before <= outcome.completed < before + len(at_that_time)
    assert has_order(_until(operations, over - 1), 0)
    assert not has_order(_until(operations, over), 0)


def _until(operations: list[Operation], end_ns: int) -> list[Operation]:
    """As the history was at the end of that moment: what was not over by then has no completion."""
    return [
        Operation(
            op.index,
            op.f,
            op.value,
            op.invoke_ns,
            op.complete_ns if op.complete_ns is not None and op.complete_ns <= end_ns else None,
            op.session,
            op.since_ns,
        )
        for op in operations
        if op.open_ns <= end_ns
    ]


@examples(300)
@given(SEEDS)
def test_order_that_is_found_explains_what_was_returned(seed: int) -> None:
    operations = register_life(Random(seed), 60)
    outcome = searched(operations)
    assert outcome.verdict == "linearizable"
    by_index = {op.index: op for op in operations}
    state = 0
    for index in outcome.order:
        if by_index[index].f == WRITE:
            state = by_index[index].value
        assert state == by_index[index].value
    assert set(outcome.order) >= {op.index for op in operations if op.complete_ns is not None}


@examples(60)
@given(SEEDS)
def test_life_of_a_register_is_accepted_and_one_wrong_read_in_it_is_not(seed: int) -> None:
    rng = Random(seed)
    life = register_life(rng, 400)
    assert searched(life).verdict == "linearizable"
    planted = with_older_read(rng, life)
    assert planted is not None
    (wrong,) = [op for op, was in zip(planted, life, strict=True) if op is not was]
    outcome = searched(planted)
    assert outcome.verdict == "not-linearizable"
    # Until then it is the life that it was.
    assert outcome.blocking == wrong.index


@examples(100)
@given(SEEDS)
def test_search_needs_little_where_nobody_reads_what_was_lost(seed: int) -> None:
    rng = Random(seed)
    life = [op for op in register_life(rng, 200) if op.since_ns is None]
    read = {op.value for op in life if op.f == READ}
    never_read = [op for op in life if op.complete_ns is None and op.value not in read]
    assert never_read
    outcome, without = searched(life), searched([op for op in life if op not in never_read])
    assert outcome.verdict == without.verdict == "linearizable"
    assert outcome.configurations == without.configurations


@examples(2000)
@given(SEEDS)
def test_records_without_an_offset_have_places_where_there_are_some(seed: int) -> None:
    appends, passed_over = random_appends(Random(seed), 6)
    found = search_log([astuple(op) for op in appends], passed_over)
    known = [op for op in appends if op.value is not None]
    # What is known by itself may have no order: others say so.
    expected = has_places(appends, passed_over) or not has_places(known, passed_over)
    assert (found is None) == expected
    if found is not None:
        assert appends[found[0]].value is None
