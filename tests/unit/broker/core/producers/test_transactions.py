"""Transactions of a partition: what is open, what is ended, and how far readers may go."""

from __future__ import annotations

import pytest

from broker.core.producers import snapshot
from broker.core.producers.state import KnownBatch, ProducerStates
from broker.core.producers.transactions import EndedTransaction
from broker.wire.errors import ErrorCode


def write(states: ProducerStates, producer: int, offset: int, sequence: int, epoch: int = 0) -> None:
    states.append(producer, epoch, sequence, sequence, offset, offset, 0.0)
    states.begin_transaction(producer, offset, offset)


def end(
    states: ProducerStates, producer: int, offset: int, committed: bool = True, epoch: int = 0, coordinator: int = 0
) -> EndedTransaction | None:
    return states.end_transaction(producer, epoch, coordinator, offset, committed, 0.0)


def test_nothing_from_an_open_transaction_on_is_stable() -> None:
    states = ProducerStates()
    write(states, 1, 10, 0)
    write(states, 2, 11, 0)
    write(states, 1, 12, 1)
    assert states.transactions.last_stable_offset(9) == 9
    assert states.transactions.last_stable_offset(13) == 10
    end(states, 1, 13)
    assert states.transactions.last_stable_offset(14) == 11
    end(states, 2, 14)
    assert states.transactions.last_stable_offset(15) == 15
    assert not states.transactions


def test_ended_transaction_is_not_stable_before_its_marker_is_replicated() -> None:
    states = ProducerStates()
    write(states, 1, 10, 0)
    end(states, 1, 12)
    assert states.transactions.last_stable_offset(12) == 10
    assert states.transactions.last_stable_offset(13) == 13


def test_ended_transaction_is_described_as_kafkas_index_has_it() -> None:
    states = ProducerStates()
    write(states, 1, 10, 0)
    write(states, 2, 11, 0)
    assert end(states, 2, 12, committed=False) == EndedTransaction(2, 11, 12, 10, False)
    assert end(states, 1, 13) == EndedTransaction(1, 10, 13, 14, True)


def test_marker_without_a_transaction_ends_none_and_raises_epochs() -> None:
    states = ProducerStates()
    assert end(states, 1, 10, epoch=3, coordinator=5) is None
    assert not states.transactions
    assert states.check(1, 2, 0, 0)[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check(1, 3, 4, 4)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(1, 3, 0, 0) == (ErrorCode.NONE, None)


def test_marker_of_a_newer_epoch_ends_the_transaction_of_the_older_one() -> None:
    """A coordinator fences a producer so: it raises the epoch and aborts."""
    states = ProducerStates()
    write(states, 1, 10, 0, epoch=0)
    assert end(states, 1, 11, committed=False, epoch=1) == EndedTransaction(1, 10, 11, 12, False)
    assert states.check(1, 0, 1, 1)[0] is ErrorCode.INVALID_PRODUCER_EPOCH


def test_epoch_raised_by_a_batch_leaves_the_transaction_open() -> None:
    states = ProducerStates()
    write(states, 1, 10, 0, epoch=0)
    write(states, 1, 11, 0, epoch=1)
    assert states.transactions.last_stable_offset(12) == 10
    assert end(states, 1, 12, epoch=1) == EndedTransaction(1, 10, 12, 13, True)


def test_marker_of_a_fenced_producer_or_coordinator_is_refused() -> None:
    states = ProducerStates()
    assert states.check_marker(1, 0, 0) is ErrorCode.NONE
    end(states, 1, 10, epoch=3, coordinator=5)
    assert states.check_marker(1, 2, 5) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check_marker(1, 3, 4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert states.check_marker(1, 3, 5) is ErrorCode.NONE
    states.append(1, 4, 0, 0, 11, 11, 0.0)
    assert states.check_marker(1, 4, 4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED, "a new epoch does not forget it"


def test_producer_with_an_open_transaction_is_not_forgotten() -> None:
    states = ProducerStates()
    write(states, 1, 10, 0)
    assert states.expire(1000.0, 500.0) == 0
    end(states, 1, 11)
    assert states.expire(1000.0, 500.0) == 1


@pytest.mark.parametrize(("end_offset", "known"), [(13, True), (12, False), (11, False), (10, False)])
def test_cut_of_a_marker_or_a_transactional_batch_is_left_to_the_log(end_offset: int, known: bool) -> None:
    states = ProducerStates()
    write(states, 1, 10, 0)
    write(states, 1, 11, 1)
    end(states, 1, 12)
    states.append(1, 0, 2, 2, 13, 13, 0.0)
    assert states.cut(end_offset) is known


def test_cut_behind_a_marker_leaves_what_it_said() -> None:
    states = ProducerStates()
    end(states, 1, 10, epoch=3, coordinator=5)
    assert states.cut(11)
    assert states.check_marker(1, 3, 4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    states.append(1, 3, 0, 0, 11, 11, 0.0)
    assert not states.cut(11), "its batches are gone, the marker is not"


def test_cut_below_a_snapshot_that_knows_of_transactions_is_left_to_the_log() -> None:
    states = ProducerStates()
    states.restore(1, 0, KnownBatch(0, 0, 3, 3), 0.0, 5, -1, 20)
    assert states.cut(20)
    assert not states.cut(19)


def test_snapshot_round_trip_keeps_coordinator_epochs_and_open_transactions() -> None:
    states = ProducerStates()
    write(states, 2, 11, 0)
    write(states, 1, 12, 0)
    end(states, 3, 13, epoch=3, coordinator=5)
    data = snapshot.encode(states, wall_ms=50_000, now_ms=0.0)
    found = snapshot.decode(data)
    assert found is not None
    assert [tuple(known) for known in found] == [
        (2, 0, (0, 0, 11, 11), 50_000, -1, 11),
        (1, 0, (0, 0, 12, 12), 50_000, -1, 12),
        (3, 3, None, 50_000, 5, -1),
    ]
    again = ProducerStates()
    for known in reversed(found):
        again.restore(
            known.producer_id,
            known.epoch,
            known.batch,
            0.0,
            known.coordinator_epoch,
            known.transaction_first_offset,
            14,
        )
    assert again.transactions.last_stable_offset(14) == 11
    assert end(again, 2, 14) == EndedTransaction(2, 11, 14, 12, True)
    assert again.check_marker(3, 3, 4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    row = snapshot.read_rows(data)[2]
    assert (row.last_sequence, row.last_offset, row.offset_delta) == (-1, -1, 0), "as Kafka writes it"


def test_state_that_is_cleared_has_no_transactions() -> None:
    states = ProducerStates()
    write(states, 1, 10, 0)
    write(states, 2, 11, 0)
    end(states, 1, 12)
    states.clear(5)
    assert not states.transactions
    assert states.cut(6)
