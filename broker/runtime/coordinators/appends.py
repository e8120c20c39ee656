"""A coordinator's records on their way into its partition's log.

Records of one turn that go to one partition become one batch, which is written and replicated once, however many
requests they came from. A batch that carries a producer's id stands alone. What is added to a partition lands in its
log in that order. `done` is called once everything of that batch is committed (acks=all), or will not be confirmed.
Source: GroupMetadataManager.appendForGroup; CoordinatorRuntime (appends that linger).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker.model.ids import Offset
from broker.runtime.ports import Loop
from broker.runtime.replicas.append import ACKS_ALL, Appender, AppendOrigin
from broker.runtime.replicas.replica import PendingAppend
from broker.runtime.replicas.replicas import Replicas
from broker.wire.compression import Compression
from broker.wire.coordinator_records.batches import TransactionalProducer, coordinator_batch
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import HEADER_SIZE
from broker.wire.records import NewRecord

Done = Callable[[ErrorCode, Offset], None]
"""done(error, offset of the first record): NONE once the records are committed. Otherwise they may be in the log all
the same, with REQUEST_TIMED_OUT and NOT_LEADER_OR_FOLLOWER; the offset is −1 then.
"""

logger = logging.getLogger(__name__)

_RECORD_OVERHEAD_MAX: Final = 24
"""Lengths, deltas and attributes of one record."""


def _begin_a_turn() -> None:
    """Does nothing: the loop only has to wake up, and end a turn."""


def _size(record: NewRecord) -> int:
    """Bytes in a batch, at most."""
    return len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD_MAX


@dataclass(slots=True)
class _Batch:
    """Records that will lie in one batch. parts: whose they are, as (index of the first record, done)."""

    records: list[NewRecord] = field(default_factory=list)
    parts: list[tuple[int, Done]] = field(default_factory=list)
    size: int = HEADER_SIZE
    producer: TransactionalProducer | None = None
    """Whose transaction the records belong to."""


class CoordinatorAppends:
    """Of one internal topic. `flush`, a before-send hook of the loop, comes before the replicas' end of turn."""

    def __init__(
        self,
        topic: str,
        appender: Appender,
        replicas: Replicas,
        loop: Loop,
        timeout_ms: int,
        compression: Compression = Compression.NONE,
    ) -> None:
        """timeout_ms: how long a batch may wait for its replication."""
        self._topic = topic
        self._appender = appender
        self._replicas = replicas
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._compression = compression
        self._staged: dict[int, list[_Batch]] = {}

    def add(self, partition: int, records: Sequence[NewRecord], done: Done) -> None:
        """Append the records (at least one) at the end of this turn, in one batch."""
        self._add(partition, records, done, None)

    def add_transactional(
        self, partition: int, records: Sequence[NewRecord], producer: TransactionalProducer, done: Done
    ) -> None:
        """As `add`, for records that count once the producer's transaction is committed."""
        self._add(partition, records, done, producer)

    def _add(
        self, partition: int, records: Sequence[NewRecord], done: Done, producer: TransactionalProducer | None
    ) -> None:
        size = sum(map(_size, records))
        if not self._staged:
            # The call may come from the end of a turn; then another turn has to follow.
            self._loop.call_soon(_begin_a_turn)
        batches = self._staged.setdefault(partition, [])
        last = batches[-1] if batches else None
        if last is None or producer is not None or last.producer is not None or last.size + size > self._max(partition):
            last = _Batch(producer=producer)
            batches.append(last)
        last.parts.append((len(last.records), done))
        last.records.extend(records)
        last.size += size

    def in_batches(self, partition: int, records: Sequence[NewRecord]) -> list[Sequence[NewRecord]]:
        """These records (at least one) in groups that a batch of the partition can hold, each to be added by itself."""
        bytes_max = self._max(partition)
        begins, size = [0], HEADER_SIZE
        for index, record in enumerate(records):
            size += _size(record)
            if size > bytes_max and index > begins[-1]:
                begins.append(index)
                size = HEADER_SIZE + _size(record)
        return [records[begin:end] for begin, end in zip(begins, [*begins[1:], len(records)], strict=True)]

    def _max(self, partition: int) -> int:
        replica = self._replicas.by_partition.get((self._topic, partition))
        return 0 if replica is None else replica.max_batch_bytes

    def flush(self) -> None:
        """Hand what this turn added to the logs."""
        if not self._staged:
            return
        staged, self._staged = self._staged, {}
        for partition, batches in staged.items():
            for batch in batches:
                try:
                    self._append(partition, batch)
                except Exception:
                    # This runs at the end of a turn, where an error would end the broker.
                    logger.exception("%s-%d: a batch cannot be appended", self._topic, partition)
                    self._tell(partition, batch, ErrorCode.UNKNOWN_SERVER_ERROR, -1)

    def _append(self, partition: int, batch: _Batch) -> None:
        encoded = coordinator_batch(
            batch.records,
            self._appender.wall_ms(),
            compression=self._compression,
            transaction=batch.producer,
        )

        def done(append: PendingAppend) -> None:
            self._tell(partition, batch, append.error, append.base_offset)

        self._appender.append_records(
            (self._topic, partition),
            memoryview(bytearray(encoded)),
            ACKS_ALL,
            AppendOrigin.COORDINATOR,
            done,
            self._timeout_ms,
            internal_topics=True,
        )

    def _tell(self, partition: int, batch: _Batch, error: ErrorCode, base_offset: Offset) -> None:
        committed = error is ErrorCode.NONE
        for index, part_done in batch.parts:
            try:
                part_done(error, base_offset + index if committed else -1)
            except Exception:
                # As above: for the sake of one group.
                logger.exception("%s-%d: what waited for a record failed", self._topic, partition)
