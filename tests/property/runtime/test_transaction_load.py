"""A coordinator of transactions reads the last record of an id alone, and knows what each record by itself says."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.transaction.metadata import TransactionMetadata
from broker.core.transaction.states import TransactionState
from broker.runtime.transaction.state import TransactionPartition, metadata_of
from broker.wire.control_records import EndOfTransaction, marker
from broker.wire.coordinator_records.scan import CONTROL, PLAIN, Found
from broker.wire.coordinator_records.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from broker.wire.coordinator_records.versioned import UnknownRecordVersion
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("transactions")

IDS = ("a", "ä", "another transactional id")


def _record(rng: Random, offset: int) -> Found:
    if rng.random() < 0.1:
        end = marker(EndOfTransaction(True, 0))
        return offset, CONTROL, 1, end.key, end.value
    key = TransactionLogKey(rng.choice(IDS)).encode()
    if rng.random() < 0.1:
        key = rng.choice((key + b"behind", b"\0\7" + key[2:]))
    if rng.random() < 0.15:
        return offset, PLAIN, -1, key, None
    partitions = [TransactionPartitions("t", [rng.randrange(3)])] if rng.random() < 0.5 else None
    status = rng.choice((TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_COMMIT))
    value = TransactionLogValue(rng.randrange(9), rng.randrange(3), 1000, int(status), partitions, offset, offset)
    data = value.encode(rng.choice((0, 0, 0, 1)))
    if rng.random() < 0.1:
        data = b"\0\7" + data[2:]
    return offset, PLAIN, -1, key, data


def _plain(records: list[Found]) -> dict[str, tuple[object, ...]]:
    """What each record by itself says, one after the other."""
    known: dict[str, tuple[object, ...]] = {}
    for _, kind, _, key, value in records:
        if kind & CONTROL:
            continue
        try:
            id_ = TransactionLogKey.decode(key or b"").transactional_id
            if value is None:
                known.pop(id_, None)
            else:
                known[id_] = _facts(metadata_of(id_, TransactionLogValue.decode(value)))
        except UnknownRecordVersion:
            continue
    return known


def _facts(known: TransactionMetadata) -> tuple[object, ...]:
    return known.producer_id, known.epoch, known.state, sorted(known.partitions), known.update_ms, known.start_ms


def _bring_up(home: TransactionPartition) -> None:
    while not home.bring_up():
        pass


@examples(300)
@given(st.integers(0, 2**32))
def test_what_is_known_is_what_each_record_says(seed: int) -> None:
    """Also where records come once some were read."""
    rng = Random(seed)
    records = [_record(rng, offset) for offset in range(rng.randrange(40))]
    home = TransactionPartition(0, lambda loaded: None)
    cut = rng.randrange(len(records) + 1)
    home.take(records[:cut])
    if rng.random() < 0.5:
        _bring_up(home)
    home.take(records[cut:])
    _bring_up(home)
    assert {id_: _facts(known) for id_, known in home.transactions.items()} == _plain(records)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (TransactionLogKey("b").encode(), b"\0\0\1"),
        (TransactionLogKey("b").encode(), b""),
        (TransactionLogKey("b").encode(), TransactionLogValue(1, 0, 1000, 99, None, 5, 5).encode()),
        (b"\0\0\0\5b", TransactionLogValue(1, 0, 1000, 0, None, 5, 5).encode()),
        (b"", None),
    ],
)
def test_a_record_that_cannot_be_read_keeps_no_other_from_being_known(key: bytes, value: bytes | None) -> None:
    """No coordinator wrote it. Every replica has it: taken for damage it would take the partition off all of them."""
    good = TransactionLogKey("a").encode(), TransactionLogValue(1, 0, 1000, 0, None, 5, 5).encode()
    home = TransactionPartition(0, lambda loaded: None)
    home.take([(6, PLAIN, -1, *good), (7, PLAIN, -1, key, value)])
    _bring_up(home)
    assert list(home.transactions) == ["a"]


def test_many_ids_are_read_in_turns() -> None:
    value = TransactionLogValue(1, 0, 1000, int(TransactionState.EMPTY), None, 5, 5).encode()
    home = TransactionPartition(0, lambda loaded: None)
    home.take((n, PLAIN, -1, TransactionLogKey(str(n)).encode(), value) for n in range(1200))
    assert [home.bring_up(), home.bring_up(), home.bring_up()] == [False, False, True]
    assert len(home.transactions) == 1200
