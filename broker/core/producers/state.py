"""Idempotent producers of one partition: is this batch next, a repeat, or out of order?

Per producer the last five batches of its current epoch are kept, so that the response to a repeat has the offset that
the original got. Built from batch headers alone, in log order, so that every replica that has the log has the state.
One batch more is held for cuts: a producer has five in flight at most, so whatever a cut takes of them leaves the one
before. Sequences wrap from 2^31 − 1 to 0. Transactions are refused before they get here.
Source: org.apache.kafka.storage.internals.log.ProducerAppendInfo, ProducerStateEntry; KIP-98, KIP-588 (error 47).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.wire.errors import ErrorCode

BATCHES_KEPT: Final = 5
_BATCHES_HELD: Final = BATCHES_KEPT + 1
SEQUENCE_MAX = 2**31 - 1


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
    """One producer's current epoch and newest batches, oldest first. whole: it had nothing before these."""

    __slots__ = ("batches", "epoch", "seen_ms", "whole")

    def __init__(self, epoch: int, seen_ms: float, whole: bool) -> None:
        self.epoch = epoch
        self.batches: list[KnownBatch] = []
        self.seen_ms = seen_ms
        self.whole = whole


class ProducerStates:
    """All idempotent producers of one partition. `end_offset`: the log is accounted for below it."""

    __slots__ = ("_entries", "end_offset")

    def __init__(self, end_offset: int = 0) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self.end_offset = end_offset

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
            if batches and first_sequence != next_sequence(batches[-1].last_sequence):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None
            return ErrorCode.NONE, None
        if epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, None
        if first_sequence != 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None
        return ErrorCode.NONE, None

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
            entry = self._entries[producer_id] = ProducerEntry(epoch, now_ms, entry is None)
        batches = entry.batches
        batches.append(KnownBatch(first_sequence, last_sequence_, base_offset, last_offset))
        if len(batches) > _BATCHES_HELD:
            del batches[0]
            entry.whole = False
        entry.seen_ms = now_ms

    def restore(self, producer_id: int, epoch: int, newest: KnownBatch, seen_ms: float) -> None:
        """A producer as a snapshot has it: what it had before this batch is not known."""
        entry = self._entries[producer_id] = ProducerEntry(epoch, seen_ms, False)
        entry.batches.append(newest)

    def expire(self, now_ms: float, expiration_ms: float) -> int:
        """Forget producers not seen for expiration_ms of this broker's monotonic time; how many."""
        late = [pid for pid, entry in self._entries.items() if now_ms - entry.seen_ms >= expiration_ms]
        for pid in late:
            del self._entries[pid]
        return len(late)

    def cut(self, end_offset: int) -> bool:
        """The log was truncated to this end. False where the state before it is not known: replay the log."""
        begun_since: list[int] = []
        for producer_id, entry in self._entries.items():
            kept = [batch for batch in entry.batches if batch.last_offset < end_offset]
            if kept:
                entry.batches = kept
            elif entry.whole:
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
        self.end_offset = end_offset
