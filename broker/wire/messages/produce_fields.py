"""The fields of Produce requests and responses.

Apart from their codec, which `make compiled` compiles: mypyc makes a NamedTuple with a `memoryview` among its fields
that cannot be imported.
Source: ProduceRequest.json, ProduceResponse.json.
"""

from __future__ import annotations

from typing import NamedTuple


class ProducePartition(NamedTuple):
    """records: whole batches, a view into the request's frame; None when the client sent null."""

    topic: str
    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    """acks: 0, 1 or −1 for all, unchecked."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[ProducePartition]


class ProducePartitionResult(NamedTuple):
    """error_message is dropped before v8, log_start_offset before v5."""

    topic: str
    partition: int
    error: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


class ProduceResponse(NamedTuple):
    """results: in the order of the request's partitions."""

    results: list[ProducePartitionResult]
    throttle_time_ms: int = 0


class UsualProduce(NamedTuple):
    """A request with one batch for one partition, outside of transactions: what nearly all are."""

    acks: int
    timeout_ms: int
    topic: str
    partition: int
    records: memoryview
