"""Batches of transactions and markers that end them, as a leader appends or a follower fetches them."""

from __future__ import annotations

from typing import Any

from broker.wire.control_records import EndOfTransaction, marker
from broker.wire.records import NewRecord, encode_batch


def transactional(
    value: str, producer: int, sequence: int = 0, epoch: int = 0, key: bytes = b"k", **fields: Any
) -> memoryview:
    """A writable batch of one record."""
    fields = {"timestamps": 1000, "transactional": True, **fields}
    record = NewRecord(key, value.encode())
    data = encode_batch([record], producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **fields)
    return memoryview(bytearray(data))


def end_marker(
    producer: int, committed: bool = True, epoch: int = 0, coordinator_epoch: int = 0, **fields: Any
) -> memoryview:
    """A writable control batch."""
    fields = {"timestamps": 1000, **fields}
    new = [marker(EndOfTransaction(committed, coordinator_epoch))]
    data = encode_batch(new, producer_id=producer, producer_epoch=epoch, transactional=True, control=True, **fields)
    return memoryview(bytearray(data))
