"""The next transaction of a producer, asked for while the end of the last one is being carried out."""

from __future__ import annotations

import pytest

from broker.core.transaction.states import TransactionState
from broker.wire.coordinator_records.transaction_log import TransactionLogValue
from broker.wire.errors import ErrorCode
from broker.wire.records import NewRecord
from tests.support.coordinating import Coordinating
from tests.support.coordinating import here as here
from tests.support.transactional_ids import P0, P1

S = TransactionState


def states_of(stored: list[NewRecord]) -> list[TransactionState]:
    """Of a transactional id, as its records follow each other."""
    return [S(TransactionLogValue.decode(record.value).transaction_status) for record in stored if record.value]


@pytest.mark.parametrize("commit", [True, False])
def test_next_transaction_begins_with_the_completion_of_the_last(here: Coordinating, commit: bool) -> None:
    producer = here.opened(P0)
    here.end(producer, commit)
    here.appends.settle()
    added = here.add(producer, P1, P0)
    assert (added, here.appends.waiting) == ([], []), "it waits for the markers"
    assert here.add(producer, P1) == [ErrorCode.CONCURRENT_TRANSACTIONS], "one waits, no more"
    here.wall_ms += 7
    here.markers.write()
    assert (added, len(here.appends.waiting)) == ([], 1), "both changes are in one batch"
    assert here.verified(producer, [P1]) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    here.appends.settle()
    assert added == [ErrorCode.NONE]
    ended = S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT
    assert states_of(here.appends.stored)[-2:] == [ended, S.ONGOING]
    transaction = here.home.transactions["tx"]
    assert (transaction.state, transaction.partitions, transaction.seen) == (S.ONGOING, {P0, P1}, {P0})
    assert (transaction.start_ms, transaction.pending) == (here.wall_ms, None)
    there = here.successor()
    assert (there.state, there.home.transactions["tx"].partitions) == (S.ONGOING, {P0, P1})
    here.loop.advance(1000)
    assert added == [ErrorCode.NONE], "answered once"


def test_next_transaction_that_comes_while_the_completion_is_stored_begins_behind_it(here: Coordinating) -> None:
    producer = here.opened(P0)
    here.end(producer)
    here.appends.settle()
    here.markers.write()
    added = here.add(producer, P1)
    assert added == []
    here.appends.settle()
    assert (added, here.label) == ([], "CompleteCommit")
    here.appends.settle()
    assert (added, here.state) == ([ErrorCode.NONE], S.ONGOING)
    assert here.home.transactions["tx"].partitions == {P1}


def test_next_transaction_waits_a_tenth_of_a_second_for_the_markers(here: Coordinating) -> None:
    producer = here.opened(P0)
    here.end(producer)
    here.appends.settle()
    added = here.add(producer, P1)
    here.loop.advance(99)
    assert added == []
    here.loop.advance(2)
    assert added == [ErrorCode.CONCURRENT_TRANSACTIONS]
    here.markers.write()
    here.appends.settle()
    assert (added, here.label) == ([ErrorCode.CONCURRENT_TRANSACTIONS], "CompleteCommit")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_next_transaction_is_refused_where_the_completion_is_not_stored(
    here: Coordinating, error: ErrorCode, told: ErrorCode
) -> None:
    producer = here.opened(P0)
    here.end(producer)
    here.appends.settle()
    added = here.add(producer, P1)
    here.markers.write()
    here.appends.settle(error)
    assert (added, here.label) == ([told], "PrepareCommit")
    here.loop.advance(100)
    here.appends.settle()
    assert (here.label, states_of(here.appends.stored)[-1]) == ("CompleteCommit", S.COMPLETE_COMMIT)
    assert here.add(producer, P1) == []
    here.appends.settle()
    assert here.home.transactions["tx"].partitions == {P1}


@pytest.mark.parametrize("staged", [True, False])
def test_next_transaction_is_answered_where_its_coordinator_ends_meanwhile(here: Coordinating, staged: bool) -> None:
    producer = here.opened(P0)
    here.end(producer)
    here.appends.settle()
    added = here.add(producer, P1)
    if staged:
        here.markers.write()
    there = here.successor()
    if staged:
        here.appends.settle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    here.loop.advance(101)
    assert added == [ErrorCode.NOT_COORDINATOR]
    assert there.state is S.PREPARE_COMMIT


def test_fenced_producer_begins_nothing_while_its_transaction_is_aborted(here: Coordinating) -> None:
    old = here.opened()
    here.init()
    here.appends.settle()
    assert here.add(old, P1) == [ErrorCode.PRODUCER_FENCED]
