"""Logs under transactions, one broker's word at a time: what their leader appended, and how much of it is committed.

A move of the leadership takes what is not committed, or leaves it. Those who wait hear of a commit, of a time-out after
which the record may yet be committed, or of the move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Generic, NamedTuple, TypeVar

from broker.core.producers.guards import Guard
from broker.core.producers.state import ProducerStates
from broker.wire.control_records import EndOfTransaction
from broker.wire.errors import ErrorCode
from broker.wire.records import NewRecord

Done = Callable[[ErrorCode, int], None]
E = TypeVar("E")


class Log(Generic[E]):
    """`leader` appends; the brokers are 1, 2 and 3."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.epoch = 0
        self.entries: list[E] = []
        self.committed = 0
        self.refusing = False
        """The ISR is too small."""
        self._waiting: list[tuple[int, Done]] = []

    def stage(self, entries: Sequence[E], done: Done) -> int:
        """Append; done(NONE, offset of the first) once it is committed. Returns that offset."""
        base = len(self.entries)
        self.entries += entries
        self._waiting.append((len(self.entries), lambda error, _: done(error, base if not error else -1)))
        return base

    def commit(self, end: int) -> None:
        """Everything below end is committed."""
        self.committed = max(self.committed, end)
        while self._waiting and self._waiting[0][0] <= self.committed:
            self._waiting.pop(0)[1](ErrorCode.NONE, 0)

    def time_out(self) -> None:
        """The oldest wait is over; its record stays."""
        if self._waiting:
            self._waiting.pop(0)[1](ErrorCode.REQUEST_TIMED_OUT, -1)

    def move(self, leader: int, rng: Random) -> None:
        """Another broker leads, or the same one anew, with all that is committed and perhaps with more."""
        del self.entries[rng.randint(self.committed, len(self.entries)) :]
        self.leader, self.epoch = leader, self.epoch + 1
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


class StateLog(Log[NewRecord]):
    """`__transaction_state-0`."""


class Written(NamedTuple):
    """A record of a transaction, or a marker. value: what the client calls it."""

    producer_id: int
    epoch: int
    sequence: int
    value: tuple[int, int] | None
    end: EndOfTransaction | None


class DataLog(Log[Written]):
    """A partition that transactions write to, with the rules by which its leader appends."""

    def __init__(self, leader: int) -> None:
        super().__init__(leader)
        self.states = ProducerStates()

    def move(self, leader: int, rng: Random) -> None:
        super().move(leader, rng)
        self.states = ProducerStates()
        for offset, entry in enumerate(self.entries):
            self._take(entry, offset)

    def guard(self, producer_id: int, epoch: int, sequence: int) -> Guard | None:
        """What the coordinator has to confirm first."""
        return self.states.guard(producer_id, epoch, sequence, 0.0)

    def produce(self, producer_id: int, epoch: int, sequence: int, value: tuple[int, int], done: Done) -> None:
        """As `Appender` takes a transaction's batch of one record."""
        error, repeated = self.states.check(producer_id, epoch, sequence, sequence)
        if repeated is None:
            error = self.states.check_guard(producer_id, epoch, sequence) or error
        if error or self.refusing:
            done(error or ErrorCode.NOT_ENOUGH_REPLICAS, -1)
        elif repeated is not None:
            done(ErrorCode.NONE if repeated.last_offset < self.committed else ErrorCode.REQUEST_TIMED_OUT, -1)
        else:
            self._append(Written(producer_id, epoch, sequence, value, None), done)

    def write_marker(self, producer_id: int, epoch: int, end: EndOfTransaction, done: Done) -> None:
        """As `Appender` takes a marker."""
        error = self.states.check_marker(producer_id, epoch, end.coordinator_epoch)
        if error or self.refusing:
            done(error or ErrorCode.NOT_ENOUGH_REPLICAS, -1)
        else:
            self._append(Written(producer_id, epoch, -1, None, end), done)

    def _append(self, entry: Written, done: Done) -> None:
        self._take(entry, self.stage([entry], done))

    def _take(self, entry: Written, offset: int) -> None:
        producer_id, epoch, sequence, _, end = entry
        if end is None:
            self.states.append(producer_id, epoch, sequence, sequence, offset, offset, 0.0)
            self.states.begin_transaction(producer_id, offset, offset)
        else:
            self.states.end_transaction(producer_id, epoch, end.coordinator_epoch, offset, end.committed, 0.0)
