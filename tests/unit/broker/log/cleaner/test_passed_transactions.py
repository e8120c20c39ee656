"""What a cleaning says of batches of transactions, and of markers, as it passes over them in order."""

from __future__ import annotations

import pytest

from broker.log.cleaner.passed_transactions import PassedMarker, PassedTransactions, UnknownAbort
from broker.log.indexes.aborted_txn import AbortedTxn
from broker.wire.control_records import EndOfTransaction
from broker.wire.record_batch import BatchHeader, read_header
from tests.support.transactions import end_marker, transactional

pytestmark = pytest.mark.guarantee("L3", "K2")

COMMIT, ABORT = EndOfTransaction(True, 0), EndOfTransaction(False, 0)


def data(producer: int, offset: int) -> BatchHeader:
    return read_header(transactional("v", producer))._replace(base_offset=offset)


def control(producer: int, offset: int) -> BatchHeader:
    return read_header(end_marker(producer))._replace(base_offset=offset)


def aborted(producer: int, first: int, last: int) -> AbortedTxn:
    return AbortedTxn(producer, first, last, last + 1)


def test_only_what_lies_in_the_producers_aborted_transaction_is_aborted() -> None:
    passed = PassedTransactions([aborted(8, 6, 9), aborted(7, 1, 3)])
    found = [passed.aborts(data(producer, offset)) for producer, offset in ((7, 0), (7, 1), (8, 2), (7, 4), (8, 6))]
    assert found == [False, True, False, False, True]


def test_pass_that_begins_behind_an_aborted_transaction_does_not_take_the_next_for_it() -> None:
    passed = PassedTransactions([aborted(7, 1, 3)])
    assert not passed.aborts(data(7, 10))
    assert passed.end(control(7, 11), COMMIT) == PassedMarker(False)


@pytest.mark.parametrize("said", [COMMIT, ABORT])
def test_marker_is_removable_once_no_batch_of_its_transaction_was_passed(said: EndOfTransaction) -> None:
    entry = aborted(7, 4, 6)
    passed = PassedTransactions([] if said.committed else [entry])
    assert passed.end(control(7, 2), said) == PassedMarker(True)
    passed.aborts(data(7, 4))
    assert passed.end(control(7, 6), said) == PassedMarker(False, None if said.committed else entry)
    assert passed.end(control(7, 8), said) == PassedMarker(True)


def test_index_loses_the_entry_of_a_transaction_that_is_gone() -> None:
    passed = PassedTransactions([aborted(7, 4, 6)])
    assert passed.end(control(7, 6), ABORT) == PassedMarker(True, None)


def test_abort_of_batches_that_no_index_calls_aborted_is_an_error() -> None:
    passed = PassedTransactions([])
    passed.aborts(data(7, 4))
    with pytest.raises(UnknownAbort, match="marker at 6 aborts a transaction of producer 7"):
        passed.end(control(7, 6), ABORT)


def test_empty_control_batch_is_removable_and_one_of_another_kind_is_not() -> None:
    passed = PassedTransactions([])
    assert passed.end(control(7, 2)._replace(record_count=0), None) == PassedMarker(True)
    assert passed.end(control(7, 3), None) == PassedMarker(False)
