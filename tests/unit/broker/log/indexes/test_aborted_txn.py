"""The bytes of `.txnindex`, and what cannot be such bytes."""

from __future__ import annotations

import struct

import pytest

from broker.log.indexes.aborted_txn import AbortedTxn, TransactionIndexDamaged, decode, encode


def test_entries_are_those_of_kafkas_format() -> None:
    data = encode([AbortedTxn(7, 10, 20, 8), AbortedTxn(8, 8, 31, 32)])
    assert data == struct.pack(">hqqqqhqqqq", 0, 7, 10, 20, 8, 0, 8, 8, 31, 32)
    assert list(decode(10, data)) == [(7, 10, 20, 8), (8, 8, 31, 32)]
    assert list(decode(10, b"")) == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ((1, 7, 10, 20, 8), "version 1 of an entry, only 0 is known"),
        ((0, 7, 10, 9, 8), "from 10 to 9, stable up to 8"),
        ((0, 7, 10, 10, 8), "from 10 to 10"),
        ((0, 7, -1, 20, 8), "from -1 to 20"),
        ((0, 7, 10, 20, -1), "stable up to -1"),
        ((0, 7, 3, 4, 5), "behind a marker at 4"),
    ],
)
def test_entry_that_no_broker_wrote_is_refused(fields: tuple[int, ...], reason: str) -> None:
    with pytest.raises(TransactionIndexDamaged, match=reason) as caught:
        list(decode(5, struct.pack(">hqqqq", *fields)))
    assert caught.value.base == 5


def test_markers_of_entries_rise() -> None:
    with pytest.raises(TransactionIndexDamaged, match="behind a marker at 20"):
        list(decode(0, encode([AbortedTxn(7, 10, 20, 8), AbortedTxn(8, 11, 20, 9)])))


def test_half_an_entry_is_refused() -> None:
    with pytest.raises(TransactionIndexDamaged, match="33 bytes are no whole number of entries of 34 bytes"):
        list(decode(0, encode([AbortedTxn(7, 10, 20, 8)])[:-1]))
