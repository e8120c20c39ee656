"""Filters of ListTransactions."""

from __future__ import annotations

from broker.core.transaction.listing import filter_of
from broker.core.transaction.states import TransactionState
from tests.support.transactional_ids import PRODUCER, known

S = TransactionState


def test_filter_without_anything_takes_all_but_the_dead() -> None:
    everything = filter_of([], [])
    assert all(everything.takes(known(state), 5) is (state is not S.DEAD) for state in S)


def test_filter_by_producer_and_state() -> None:
    assert filter_of([PRODUCER, 1], []).takes(known(S.EMPTY), 5)
    assert not filter_of([1], []).takes(known(S.EMPTY), 5)
    ongoing = filter_of([], ["Ongoing", "PrepareAbort"])
    assert ongoing.takes(known(S.ONGOING), 5)
    assert not ongoing.takes(known(S.EMPTY), 5)


def test_filter_names_states_that_it_does_not_know() -> None:
    unknown = filter_of([], ["Ongoin", "Empty"])
    assert unknown.unknown == ("Ongoin",)
    assert not unknown.takes(known(S.ONGOING), 5)
    assert not filter_of([], ["Ongoin"]).takes(known(S.ONGOING), 5)


def test_filter_by_duration() -> None:
    longer = filter_of([], [], 100)
    assert not longer.takes(known(S.ONGOING, start_ms=50), 150)
    assert longer.takes(known(S.ONGOING, start_ms=50), 151)
