"""What a leader holds against a transaction that its coordinator does not know of, which nothing would ever end. Pure.

Before a producer's first batch of a transaction is appended, the coordinator has to confirm that the partition is in
the transaction. While the question is under way that transaction may end, and its marker come in: the answer confirms
the guard that was taken before the question, and counts only while that one is held (KAFKA-14402).
Source: VerificationStateEntry, VerificationGuard, ProducerStateManager.maybeCreateVerificationStateEntry; KIP-890.
"""

from __future__ import annotations

from typing import Final

from broker.wire.errors import ErrorCode

_SEQUENCES: Final = 2**31


class Guard:
    """One producer's, from the first question until a batch or marker is appended."""

    __slots__ = ("confirmed", "epoch", "lowest_sequence", "taken_ms")

    def __init__(self, epoch: int, lowest_sequence: int, taken_ms: float) -> None:
        self.confirmed = False
        """The coordinator has said that the partition is in the transaction."""
        self.epoch = epoch
        """Of the newest producer that was asked for, as it says itself; of the one that is confirmed."""
        self.lowest_sequence = lowest_sequence
        """Of the batches that were asked for: none above may be appended before it, or it would never fit again."""
        self.taken_ms = taken_ms

    def confirm(self, epoch: int, first_sequence: int) -> None:
        """The coordinator's word on what was asked for: that is the id's epoch, whatever later one somebody claims."""
        if epoch < self.epoch and not self.confirmed:
            self.epoch, self.lowest_sequence = epoch, first_sequence
        self.confirmed = self.confirmed or epoch == self.epoch


class Guards:
    """By producer id."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[int, Guard] = {}

    def take(self, producer_id: int, epoch: int, first_sequence: int, now_ms: float) -> Guard:
        """The guard that is held, made where there is none. Sequences begin anew with an epoch."""
        guard = self._held.get(producer_id)
        if guard is None:
            guard = self._held[producer_id] = Guard(epoch, first_sequence, now_ms)
        elif epoch > guard.epoch:
            guard.epoch, guard.lowest_sequence, guard.confirmed = epoch, first_sequence, False
        elif epoch == guard.epoch and _comes_before(first_sequence, guard.lowest_sequence):
            guard.lowest_sequence = first_sequence
        return guard

    def check(self, producer_id: int, epoch: int, first_sequence: int) -> ErrorCode:
        """INVALID_TXN_STATE where no guard of this epoch is held that the coordinator has confirmed."""
        guard = self._held.get(producer_id)
        if guard is None or not guard.confirmed or guard.epoch != epoch:
            return ErrorCode.INVALID_TXN_STATE
        if _comes_before(guard.lowest_sequence, first_sequence):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    def holds(self, producer_id: int, guard: Guard) -> bool:
        """Whether this very guard is held still."""
        return self._held.get(producer_id) is guard

    def drop(self, producer_id: int) -> None:
        """A batch of the transaction, or a marker, is appended."""
        self._held.pop(producer_id, None)

    def expire(self, now_ms: float, expiration_ms: float) -> None:
        """Guards whose producers came no more."""
        late = [producer_id for producer_id, guard in self._held.items() if now_ms - guard.taken_ms >= expiration_ms]
        for producer_id in late:
            del self._held[producer_id]

    def clear(self) -> None:
        """The log was cut, or is read anew, or its leader's leadership has begun."""
        self._held.clear()


def _comes_before(sequence: int, other: int) -> bool:
    """Of a producer's batches that are under way together. After 2^31 − 1 comes 0, which Kafka takes for the lowest."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES // 2
