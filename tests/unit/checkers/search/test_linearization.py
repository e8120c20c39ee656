"""What an order must respect, by hand; and a search that breaks off."""

from __future__ import annotations

import pytest

from checkers.search.linearization import search
from checkers.search.operations import Operation, Outcome
from checkers.search.register import READ, WRITE, Register, needed

pytestmark = pytest.mark.guarantee("V4")


def write(index: int, value: int, begun: int, over: int | None, session: str | None = None) -> Operation:
    return Operation(index, WRITE, value, begun, over, session)


def read(
    index: int, value: int, begun: int, over: int, session: str | None = None, since: int | None = None
) -> Operation:
    return Operation(index, READ, value, begun, over, session, since)


def searched(*operations: Operation, budget: int = 1000) -> Outcome:
    return search(Register(0), operations, budget)


def test_value_shown_and_then_the_one_before_is_not_explained() -> None:
    outcome = searched(write(0, 1, 0, 1), write(1, 2, 2, None), read(2, 2, 3, 4), read(3, 1, 5, 6))
    assert outcome.verdict == "not-linearizable"
    assert (outcome.completed, outcome.blocking, outcome.states) == (2, 3, (2,))
    assert outcome.order == (0, 1, 2)


def test_value_shown_and_then_the_one_before_is_explained_by_a_second_write_of_it() -> None:
    again = write(4, 1, 2, None)
    outcome = searched(write(0, 1, 0, 1), write(1, 2, 2, None), read(2, 2, 3, 4), read(3, 1, 5, 6), again)
    assert (outcome.verdict, outcome.order) == ("linearizable", (0, 1, 2, 4, 3))


def test_write_without_a_completion_takes_effect_once() -> None:
    reads = [read(2 + at, value, 10 * at, 10 * at + 1) for at, value in enumerate((1, 2, 1))]
    outcome = searched(write(0, 1, 0, None), write(1, 2, 0, None), *reads)
    assert (outcome.verdict, outcome.blocking) == ("not-linearizable", 4)


def test_what_ends_as_another_begins_is_beside_it() -> None:
    assert searched(write(0, 1, 0, 5), read(1, 0, 5, 6)).verdict == "linearizable"
    assert searched(write(0, 1, 0, 5), read(1, 0, 6, 7)).verdict == "not-linearizable"


def test_read_of_an_older_copy_may_stand_before_its_invocation() -> None:
    writes = (write(0, 1, 0, 1), write(1, 2, 2, 3))
    assert searched(*writes, read(2, 1, 10, 11, since=3)).verdict == "linearizable"
    assert searched(*writes, read(2, 1, 10, 11, since=4)).verdict == "not-linearizable"


def test_copy_shows_nothing_older_than_what_it_has_shown_or_written() -> None:
    writes = (write(0, 1, 0, 1), write(1, 2, 2, 3, "a"))
    older = read(3, 1, 12, 13, "a", since=0)
    assert searched(*writes, older).verdict == "not-linearizable"
    assert searched(writes[0], write(1, 2, 2, 3), read(2, 2, 10, 11, "a", since=0), older).blocking == 3
    other = read(2, 2, 10, 11, "b", since=0)
    assert searched(writes[0], write(1, 2, 2, 3), other, older).verdict == "linearizable"
    # Beside it, not after it.
    beside = read(2, 2, 10, 12, "a", since=0)
    assert searched(writes[0], write(1, 2, 2, 3), beside, older).verdict == "linearizable"


def test_copy_shows_nothing_older_than_any_of_what_it_has_shown_at_once() -> None:
    writes = (write(0, 1, 0, 1), write(1, 2, 2, 3))
    newer, older = read(2, 2, 10, 12, "a", since=0), read(3, 1, 10, 13, "a", since=0)
    assert searched(*writes, newer, older, read(4, 2, 14, 15, "a", since=0)).verdict == "linearizable"
    assert searched(*writes, newer, older, read(4, 1, 14, 15, "a", since=0)).blocking == 4


def test_order_that_has_used_up_a_write_stands_for_no_order_that_has_not() -> None:
    """Either write may be what the first read shows; the last one needs the one without an answer."""
    for lost_ns, acked_ns in ((0, 1), (1, 0)):
        writes = (write(0, 1, lost_ns, None), write(1, 1, acked_ns, 7), write(2, 2, 8, 9))
        outcome = searched(*writes, read(3, 1, 2, 6), read(4, 1, 14, 16))
        assert (outcome.verdict, outcome.order) == ("linearizable", (1, 3, 2, 0, 4))


def test_read_that_never_completed_says_nothing() -> None:
    assert searched(Operation(0, READ, 7, 0, None)).verdict == "linearizable"


def test_nothing_is_linearizable() -> None:
    assert searched() == Outcome("linearizable", 0, (), None, (0,), 0)


def test_search_that_takes_too_long_is_no_order() -> None:
    """As many writes beside each other as there are subsets; one read more of a value than there are writes of it."""
    writes = [write(index, 1 + index % 2, 0, 1000) for index in range(12)]
    reads = [read(100 + at, 1 + at % 2, 10 * at, 10 * at + 1) for at in range(14)]
    outcome = searched(*writes, *reads, budget=100)
    assert outcome.verdict == "out-of-budget"
    assert outcome.configurations == 100 + 26
    # What blocks it is not known; up to here there is an order.
    assert outcome.blocking is not None
    assert 0 < outcome.completed < 14
    longer = searched(*writes, *reads, budget=100_000)
    assert (longer.verdict, longer.completed, longer.blocking) == ("not-linearizable", 12, 112)


def test_budget_grows_with_the_history() -> None:
    writes = [write(index, index, 2 * index, 2 * index + 1) for index in range(5000)]
    assert searched(*writes, budget=0).verdict == "linearizable"


def test_operation_that_ends_before_it_begins_is_named() -> None:
    with pytest.raises(ValueError, match="operation 3 is over at 4 ns and begins at 5"):
        searched(write(3, 1, 5, 4))


def test_writes_that_nobody_can_have_read_are_not_needed() -> None:
    unread, read_later = write(0, 1, 0, None), write(1, 2, 0, None)
    read_before = write(2, 3, 9, None)
    acked = write(3, 4, 0, 1)
    reads = (read(4, 2, 5, 6), read(5, 3, 7, 8))
    assert needed([unread, read_later, read_before, acked, *reads]) == [read_later, acked, *reads]
