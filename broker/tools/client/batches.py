"""Records on their way: batches by partition, in order, each sent again until it is acknowledged or given up. No I/O.

Of a partition one batch is on its way at a time, so that another try can neither reorder nor, with a producer id,
double records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from broker.tools.client.admin import TopicPartition
from broker.wire.compression import Compression
from broker.wire.records import Headers, NewRecord, encode_batch

RECORD_OVERHEAD: Final = 20
"""Bytes that a record takes beside key, value and headers, at most a few more."""


class Outgoing(NamedTuple):
    """token: what the sender knows the record by. timestamp: ms."""

    record: NewRecord
    timestamp: int
    token: object


@dataclass(slots=True)
class Batch:
    """created: time.monotonic(). attempts: how often it was sent.

    producer: id and epoch, kept with the sequence from the first try on, (−1, −1) for a producer without an id.
    """

    where: TopicPartition
    created: float
    records: list[Outgoing] = field(default_factory=list)
    size: int = 0
    attempts: int = 0
    producer: tuple[int, int] | None = None
    sequence: int = -1
    not_before: float = 0.0

    def encode(self, compression: Compression) -> bytes:
        """As it goes into a Produce request. Raises CodecMissing."""
        producer_id, epoch = self.producer or (-1, -1)
        return encode_batch(
            [one.record for one in self.records],
            timestamps=[one.timestamp for one in self.records],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self.sequence,
            compression=compression,
        )


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes that it takes in a batch, about."""
    size = RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    return size + sum(len(name) + len(held or b"") + 4 for name, held in headers)


class Accumulator:
    """batch_size: bytes after which a batch takes no further record; linger: seconds that it may wait for some."""

    def __init__(self, batch_size: int, linger: float) -> None:
        self._batch_size = batch_size
        self._linger = linger
        self._queues: dict[TopicPartition, deque[Batch]] = {}
        self._on_their_way: set[TopicPartition] = set()
        self.bytes = 0
        self.count = 0

    def add(self, where: TopicPartition, outgoing: Outgoing, now: float) -> bool:
        """Whether a batch has become full by this."""
        size = record_size(outgoing.record.key, outgoing.record.value, outgoing.record.headers)
        queue = self._queues.setdefault(where, deque())
        full = False
        if not queue or queue[-1].attempts or (queue[-1].records and queue[-1].size + size > self._batch_size):
            full = bool(queue) and not queue[-1].attempts
            queue.append(Batch(where, now))
        batch = queue[-1]
        batch.records.append(outgoing)
        batch.size += size
        self.bytes += size
        self.count += 1
        return full or batch.size >= self._batch_size

    def due(self, now: float, *, flush: bool) -> Iterator[Batch]:
        """The next batch of each partition that has none on its way and need not wait."""
        for where, queue in self._queues.items():
            if queue and where not in self._on_their_way and self._wait(queue, now, flush) <= 0:
                yield queue[0]

    def _wait(self, queue: deque[Batch], now: float, flush: bool) -> float:
        batch = queue[0]
        if batch.attempts or flush or len(queue) > 1 or batch.size >= self._batch_size:
            return batch.not_before - now
        return max(batch.created + self._linger, batch.not_before) - now

    def next_wait(self, now: float, *, flush: bool) -> float | None:
        """Seconds until some batch is due, None while none waits for time."""
        waits = [
            self._wait(queue, now, flush)
            for where, queue in self._queues.items()
            if queue and where not in self._on_their_way
        ]
        return max(min(waits), 0.0) if waits else None

    def sent(self, batches: Iterable[Batch]) -> None:
        """They are on their way."""
        for batch in batches:
            batch.attempts += 1
            self._on_their_way.add(batch.where)

    def back(self, batch: Batch, not_before: float) -> None:
        """It has to be sent again."""
        self._on_their_way.discard(batch.where)
        batch.not_before = not_before

    def done(self, batch: Batch) -> Sequence[Outgoing]:
        """It is acknowledged or given up; returns its records."""
        queue = self._queues[batch.where]
        assert queue[0] is batch
        queue.popleft()
        self._on_their_way.discard(batch.where)
        self.bytes -= batch.size
        self.count -= len(batch.records)
        return batch.records

    @property
    def moving(self) -> int:
        """Batches on their way."""
        return len(self._on_their_way)
