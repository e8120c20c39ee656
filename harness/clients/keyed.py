"""Records with keys, and tombstones: one produce request of them (docs/history-format.md).

Decides their bytes. Must not know routing or the history.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from broker.wire.records import NewRecord, encode_batch
from harness.clients.connection import Connection
from harness.clients.requests import Produced, produce_batch
from harness.clients.values import IDENTITY, encode_key, encode_value


class KeyedRecord(NamedTuple):
    """value: unique in the run, of a tombstone too."""

    key: int
    value: int
    tombstone: bool = False


def produce_keyed(
    connection: Connection,
    topic: str,
    partition: int,
    records: Sequence[KeyedRecord],
    *,
    record_bytes: int,
    timeout_ms: int,
    deadline_ns: int,
) -> Produced:
    """One batch with keys, acks=all."""
    new = [_keyed(record, topic, partition, record_bytes) for record in records]
    batch = encode_batch(new, timestamps=time.time_ns() // 1_000_000)
    return produce_batch(connection, topic, partition, batch, acks=-1, timeout_ms=timeout_ms, deadline_ns=deadline_ns)


def _keyed(record: KeyedRecord, topic: str, partition: int, record_bytes: int) -> NewRecord:
    key = encode_key(record.key)
    body = encode_value(record.value, topic, partition, record_bytes, key)
    return NewRecord(key, None, ((IDENTITY, body),)) if record.tombstone else NewRecord(key, body)
