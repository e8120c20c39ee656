"""The result of an append to a log. Source: org.apache.kafka.storage.internals.log.LogAppendInfo."""

from __future__ import annotations

from typing import NamedTuple

from broker.model.ids import Offset


class AppendInfo(NamedTuple):
    """What one append staged. Offsets are [base_offset, last_offset + 1)."""

    base_offset: Offset
    last_offset: Offset
    max_timestamp: int
    bytes: int
    batches: int
