"""Guards of transactions that a coordinator has to confirm."""

from __future__ import annotations

import pytest

from broker.core.producers.guards import Guard
from broker.core.producers.state import ProducerStates
from broker.wire.errors import ErrorCode

OK, UNKNOWN = ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE
PRODUCER = 7


@pytest.fixture
def states() -> ProducerStates:
    return ProducerStates()


def taken(states: ProducerStates, epoch: int = 0, sequence: int = 0) -> Guard:
    guard = states.guard(PRODUCER, epoch, sequence, 0.0)
    assert guard is not None
    return guard


def begin(states: ProducerStates, offset: int = 0, sequence: int = 0) -> None:
    states.append(PRODUCER, 0, sequence, sequence, offset, offset, 0.0)
    states.begin_transaction(PRODUCER, offset, offset)


def test_guard_lets_a_batch_in_once_it_is_confirmed(states: ProducerStates) -> None:
    assert states.check_guard(PRODUCER, 0, 0) is UNKNOWN
    guard = taken(states)
    assert states.check_guard(PRODUCER, 0, 0) is UNKNOWN
    guard.confirmed = True
    assert states.check_guard(PRODUCER, 0, 0) is OK
    assert states.check_guard(PRODUCER, 1, 0) is UNKNOWN, "the answer was of another epoch"


def test_guard_is_not_needed_in_an_open_transaction(states: ProducerStates) -> None:
    taken(states).confirmed = True
    begin(states)
    assert states.guard(PRODUCER, 0, 1, 0.0) is None
    assert states.check_guard(PRODUCER, 0, 1) is OK


def test_guard_of_before_a_marker_is_void(states: ProducerStates) -> None:
    guard = taken(states)
    states.end_transaction(PRODUCER, 0, 0, 5, False, 0.0)
    guard.confirmed = True
    assert states.check_guard(PRODUCER, 0, 0) is UNKNOWN
    again = taken(states)
    assert again is not guard
    assert states.check_guard(PRODUCER, 0, 0) is UNKNOWN, "the late answer was of the transaction before"


def test_guard_is_void_after_a_transaction(states: ProducerStates) -> None:
    taken(states).confirmed = True
    begin(states)
    states.end_transaction(PRODUCER, 0, 0, 1, True, 0.0)
    assert states.check_guard(PRODUCER, 0, 1) is UNKNOWN


def test_guard_keeps_a_later_batch_from_overtaking_one_that_was_not_confirmed(states: ProducerStates) -> None:
    first = taken(states, sequence=0)
    assert taken(states, sequence=3) is first
    first.confirmed = True
    assert states.check_guard(PRODUCER, 0, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check_guard(PRODUCER, 0, 0) is OK
    assert states.check_guard(PRODUCER, 0, -1) is OK, "a coordinator's batch has no sequence"


def test_guard_learns_of_an_earlier_batch(states: ProducerStates) -> None:
    guard = taken(states, sequence=3)
    assert taken(states, sequence=0) is guard
    guard.confirmed = True
    assert states.check_guard(PRODUCER, 0, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("order", [(2**31 - 2, 0), (0, 2**31 - 2)])
def test_guard_knows_that_sequences_wrap(states: ProducerStates, order: tuple[int, int]) -> None:
    for sequence in order:
        guard = taken(states, sequence=sequence)
    guard.confirmed = True
    assert states.check_guard(PRODUCER, 0, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check_guard(PRODUCER, 0, 2**31 - 2) is OK


def test_later_epoch_needs_a_word_of_its_own(states: ProducerStates) -> None:
    taken(states, epoch=0, sequence=5).confirm(0, 5)
    guard = taken(states, epoch=1)
    assert [states.check_guard(PRODUCER, epoch, 0) for epoch in (0, 1)] == [UNKNOWN, UNKNOWN]
    guard.confirm(1, 0)
    assert [states.check_guard(PRODUCER, epoch, 0) for epoch in (0, 1)] == [UNKNOWN, OK]
    assert taken(states, epoch=0) is guard, "a zombie takes no guard of its own"
    guard.confirm(0, 0)
    assert states.check_guard(PRODUCER, 0, 0) is UNKNOWN


def test_who_claims_a_later_epoch_does_not_bar_the_producer_that_the_coordinator_knows(states: ProducerStates) -> None:
    guard = taken(states, epoch=3, sequence=7)
    assert taken(states, epoch=4) is guard
    guard.confirm(3, 7)
    assert states.check_guard(PRODUCER, 3, 7) is OK
    assert states.check_guard(PRODUCER, 3, 8) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check_guard(PRODUCER, 4, 0) is UNKNOWN


def test_guard_goes_when_its_producer_comes_no_more(states: ProducerStates) -> None:
    guard = taken(states)
    states.expire(99.0, 100.0)
    assert taken(states) is guard
    states.expire(100.0, 100.0)
    assert taken(states) is not guard


def test_guard_goes_with_a_cut_of_the_log(states: ProducerStates) -> None:
    taken(states).confirmed = True
    states.cut(10)
    assert states.check_guard(PRODUCER, 0, 0) is UNKNOWN
    taken(states).confirmed = True
    states.clear(0)
    assert states.check_guard(PRODUCER, 0, 0) is UNKNOWN
