"""Idempotent producers of one partition: is this batch next, a repeat, or out of order? Who has a transaction open?

Per producer the last five batches of its current epoch are kept, so that the response to a repeat has the offset that
the original got. Built from batch headers alone, in log order, so that every replica that has the log has the state.
One batch more is held for cuts: a producer has five in flight at most, so whatever a cut takes of them leaves the one
before. Sequences wrap from 2^31 − 1 to 0. What transactions keep from readers is in `transactions`.
Source: org.apache.kafka.storage.internals.log.ProducerAppendInfo, ProducerStateEntry; KIP-98, KIP-588 (error 47).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.core.producers.guards import Guard, Guards
from broker.core.producers.transactions import EndedTransaction, Transactions
from broker.model.ids import Offset
from broker.wire.errors import ErrorCode

BATCHES_KEPT: Final = 5
_BATCHES_HELD: Final = BATCHES_KEPT + 1
SEQUENCE_MAX = 2**31 - 1
NONE: Final = -1
"""No coordinator epoch, no open transaction: as snapshots have it."""


class KnownBatch(NamedTuple):
    """One appended batch; both ends inclusive."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


def next_sequence(last: int) -> int:
    """After the largest int32 comes 0 again. Source: DefaultRecordBatch.incrementSequence."""
    return 0 if last == SEQUENCE_MAX else last + 1


def last_sequence(first: int, records: int) -> int:
    """Sequence of the last of `records` records, with wrap-around."""
    return (first + records - 1) & SEQUENCE_MAX


class ProducerEntry:
    """One producer's current epoch and newest batches, oldest first. whole: it had nothing before these.

    No batches: it wrote none since a marker raised its epoch, or nothing but a marker is known of it.
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "seen_ms", "transaction_first_offset", "whole")

    def __init__(self, epoch: int, seen_ms: float, whole: bool) -> None:
        self.epoch = epoch
        self.batches: list[KnownBatch] = []
        self.seen_ms = seen_ms
        self.whole = whole
        self.coordinator_epoch = NONE
        """Of the newest marker."""
        self.transaction_first_offset: Offset = NONE
        """Of the transaction that is open."""


class ProducerStates:
    """All idempotent producers of one partition. `end_offset`: the log is accounted for below it."""

    __slots__ = ("_entries", "_guards", "_transactional_end", "end_offset", "transactions")

    def __init__(self, end_offset: int = 0) -> None:
        self._guards = Guards()
        self._entries: dict[int, ProducerEntry] = {}
        self._transactional_end: Offset = 0
        """No batch of a transaction and no marker lies at or beyond it."""
        self.end_offset = end_offset
        self.transactions = Transactions()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self._entries.items())

    def check(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence_: int
    ) -> tuple[ErrorCode, KnownBatch | None]:
        """(NONE, None): append it. (NONE, batch): a repeat of that batch. (error, None): refuse."""
        entry = self._entries.get(producer_id)
        if entry is None:
            # Known to nobody, or forgotten with the records that retention removed.
            return ErrorCode.NONE, None
        if epoch == entry.epoch:
            batches = entry.batches
            for batch in reversed(batches[-BATCHES_KEPT:]):
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence_:
                    return ErrorCode.NONE, batch
            if first_sequence != (next_sequence(batches[-1].last_sequence) if batches else 0):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None
            return ErrorCode.NONE, None
        if epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, None
        if first_sequence != 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None
        return ErrorCode.NONE, None

    def check_epoch(self, producer_id: int, epoch: int) -> ErrorCode:
        """Whether a coordinator may append a batch that has no sequence."""
        entry = self._entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.NONE

    def in_transaction(self, producer_id: int) -> bool:
        """Whether this producer has a transaction open here."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset != NONE

    def guard(self, producer_id: int, epoch: int, first_sequence: int, now_ms: float) -> Guard | None:
        """Before a batch of a transaction: what the coordinator has to confirm for it. None where one is open here."""
        if self.in_transaction(producer_id):
            return None
        return self._guards.take(producer_id, epoch, first_sequence, now_ms)

    def outlives(self, producer_id: int, guard: Guard) -> bool:
        """Whether what was asked for with this guard may be appended, if the coordinator confirms it: no marker has
        come since, and no cut of the log, or the producer's transaction is open by now.
        """
        return self.in_transaction(producer_id) or self._guards.holds(producer_id, guard)

    def drop_guards(self) -> None:
        """A leadership begins: what was asked for before has to be asked for again."""
        self._guards.clear()

    def check_guard(self, producer_id: int, epoch: int, first_sequence: int) -> ErrorCode:
        """Whether a batch may begin or continue a transaction; first_sequence: −1 of a coordinator's batch."""
        if self.in_transaction(producer_id):
            return ErrorCode.NONE
        return self._guards.check(producer_id, epoch, first_sequence)

    def append(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence_: int,
        base_offset: int,
        last_offset: int,
        now_ms: float,
    ) -> None:
        """A batch is in the log. Replication and recovery take what the leader took, unchecked."""
        entry = self._entries.get(producer_id)
        if entry is None or entry.epoch != epoch:
            if entry is not None and epoch < entry.epoch:
                return
            entry = self._begin_epoch(producer_id, epoch, now_ms)
        batches = entry.batches
        batches.append(KnownBatch(first_sequence, last_sequence_, base_offset, last_offset))
        if len(batches) > _BATCHES_HELD:
            del batches[0]
            entry.whole = False
        entry.seen_ms = now_ms

    def _begin_epoch(self, producer_id: int, epoch: int, now_ms: float) -> ProducerEntry:
        """Its batches are forgotten; an open transaction stays open until its marker."""
        before = self._entries.get(producer_id)
        entry = self._entries[producer_id] = ProducerEntry(epoch, now_ms, before is None)
        if before is not None:
            entry.coordinator_epoch = before.coordinator_epoch
            entry.transaction_first_offset = before.transaction_first_offset
        return entry

    def begin_transaction(self, producer_id: int, first_offset: Offset, last_offset: Offset) -> None:
        """A transactional batch, just appended: its producer's transaction is open, since now or since before."""
        entry = self._entries[producer_id]
        self._guards.drop(producer_id)
        self._transactional_end = last_offset + 1
        if entry.transaction_first_offset == NONE:
            entry.transaction_first_offset = first_offset
            self.transactions.begin(producer_id, first_offset)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> ErrorCode:
        """Whether a leader may write a marker. Source: ProducerAppendInfo.appendEndTxnMarker."""
        entry = self._entries.get(producer_id)
        if entry is None:
            return ErrorCode.NONE
        if epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < entry.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def end_transaction(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: Offset, committed: bool, now_ms: float
    ) -> EndedTransaction | None:
        """A marker is in the log, at offset. None where its producer had no transaction open.

        Replication and recovery take what the leader took, unchecked.
        """
        entry = self._entries.get(producer_id)
        if entry is None or epoch > entry.epoch:
            entry = self._begin_epoch(producer_id, epoch, now_ms)
        self._guards.drop(producer_id)
        self._transactional_end = offset + 1
        first_offset, entry.transaction_first_offset = entry.transaction_first_offset, NONE
        entry.coordinator_epoch = coordinator_epoch
        entry.seen_ms = now_ms
        if first_offset == NONE:
            return None
        return self.transactions.end(producer_id, first_offset, offset, committed)

    def restore(
        self,
        producer_id: int,
        epoch: int,
        newest: KnownBatch | None,
        seen_ms: float,
        coordinator_epoch: int = NONE,
        transaction_first_offset: Offset = NONE,
        snapshot_offset: Offset = 0,
    ) -> None:
        """A producer as the snapshot at snapshot_offset has it: what it had before newest is not known."""
        entry = self._entries[producer_id] = ProducerEntry(epoch, seen_ms, False)
        if newest is not None:
            entry.batches.append(newest)
        entry.coordinator_epoch = coordinator_epoch
        entry.transaction_first_offset = transaction_first_offset
        if transaction_first_offset != NONE:
            self.transactions.begin(producer_id, transaction_first_offset)
        if transaction_first_offset != NONE or coordinator_epoch != NONE:
            self._transactional_end = max(self._transactional_end, snapshot_offset)

    def expire(self, now_ms: float, expiration_ms: float) -> int:
        """Forget producers not seen for expiration_ms of this broker's monotonic time; how many.

        Not those with an open transaction: its end is still to come.
        """
        self._guards.expire(now_ms, expiration_ms)
        late = [
            pid
            for pid, entry in self._entries.items()
            if now_ms - entry.seen_ms >= expiration_ms and entry.transaction_first_offset == NONE
        ]
        for pid in late:
            del self._entries[pid]
        return len(late)

    def cut(self, end_offset: int) -> bool:
        """The log was truncated to this end. False where the state before it is not known: replay the log.

        It is not known of transactions that began or ended since.
        """
        self._guards.clear()
        if end_offset < self._transactional_end:
            return False
        begun_since: list[int] = []
        for producer_id, entry in self._entries.items():
            kept = [batch for batch in entry.batches if batch.last_offset < end_offset]
            if kept or not entry.batches:
                entry.batches = kept
            elif entry.whole and entry.coordinator_epoch == NONE:
                begun_since.append(producer_id)
            else:
                # What it had before that, an older epoch perhaps, is not known any more.
                return False
        for producer_id in begun_since:
            del self._entries[producer_id]
        return True

    def clear(self, end_offset: int) -> None:
        """Start over: the caller replays the log from end_offset."""
        self._entries.clear()
        self._guards.clear()
        self.transactions.clear()
        self._transactional_end = 0
        self.end_offset = end_offset
