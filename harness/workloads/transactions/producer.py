"""The role of a producer: transaction after transaction over several partitions, under ids that many share.

Decides what a transaction writes and reads, and how it ends: committed, aborted, or left open until the coordinator
ends it; when a producer takes an id, which fences whoever has it; and whether one that was fenced goes on all the same.
Must not know connections or the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.clients.transactions import TopicPartition
from harness.operations.generator import Op
from harness.workloads.transactions.client import Settings
from harness.workloads.transactions.reads import Reader, poll_request
from harness.workloads.transactions.requests import Request
from harness.workloads.transactions.session import (
    Session,
    Transaction,
    add_request,
    end_request,
    init_request,
    send_request,
)

SENDS_MAX = 4
TAKE_OVER = 0.7
"""How often a process takes its predecessor's id."""
READ_OWN = 0.1
READ = 0.4
"""How many transactions read what others wrote, before, between and after their sends."""
READS_MAX = 3
POLL_BYTES = 16 * 1024


@dataclass(slots=True)
class _Intent:
    """What is left to do in a transaction. abandon: leave it after so many more requests; None: end it."""

    sends: list[TopicPartition]
    reads: list[TopicPartition]
    commit: bool
    abandon: int | None
    read_own: bool
    at_once: bool


class ProducerRole:
    """Implements `client.Role`."""

    def __init__(self, settings: Settings, process: int, rng: Random, last_id: str | None) -> None:
        self.session: Session | None = None
        self._settings = settings
        self._process = process
        self._rng = rng
        self._last_id = last_id
        self._intent: _Intent | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._placed: Mapping[TopicPartition, int] = {}

    def next(self, op: Op) -> Request:
        """InitProducerId, AddPartitionsToTxn, a send, a poll, or EndTxn."""
        session, options = self.session, self._settings.options
        if session is None or gone(session, self._rng, options.zombie) or moves(session, self._rng, options.switch):
            session = self._choose()
        if session.producer is None:
            return init_request(session, options.timeout_ms)
        if session.transaction is None:
            self._go_on_behind_own_sends()
            session.transaction = Transaction(op.values[0])
            self._placed = session.transaction.placed
            self._intent = self._draw()
        return self._step(op, session, session.transaction)

    def _choose(self, other_than: str | None = None) -> Session:
        last, self._last_id = self._last_id, None
        ids = [one for one in self._settings.ids if one != other_than] or list(self._settings.ids)
        chosen = last if last is not None and self._rng.random() < TAKE_OVER else self._rng.choice(ids)
        self.session = Session(chosen)
        return self.session

    def _draw(self) -> _Intent:
        rng, options = self._rng, self._settings.options
        sends = [
            (self._settings.topic, rng.randrange(self._settings.partitions)) for _ in range(rng.randint(1, SENDS_MAX))
        ]
        numbers = rng.sample(range(self._settings.partitions), min(READS_MAX, self._settings.partitions))
        reads = [(self._settings.topic, number) for number in numbers[: rng.randint(1, READS_MAX)]]
        return _Intent(
            sends,
            reads if rng.random() < READ else [],
            rng.random() >= options.abort,
            rng.randint(1, 3) if rng.random() < options.abandon else None,
            rng.random() < READ_OWN,
            rng.random() < 0.7,
        )

    def _step(self, op: Op, session: Session, transaction: Transaction) -> Request:
        intent = self._intent
        assert intent is not None
        if intent.abandon is not None and transaction.begun:
            if intent.abandon == 0:
                return init_request(self._choose(session.transactional_id), self._settings.options.timeout_ms)
            intent.abandon -= 1
        if transaction.failed and not session.fenced:
            return end_request(session, transaction, commit=False)
        if intent.reads and self._rng.random() < len(intent.reads) / (len(intent.reads) + len(intent.sends)):
            return self._read_on(transaction, intent.reads.pop())
        if intent.sends:
            home = intent.sends[0]
            if home not in transaction.added and not session.fenced:
                new = sorted(set(intent.sends) - transaction.added) if intent.at_once else [home]
                return add_request(session, transaction, new)
            intent.sends.pop(0)
            return self._send(session, transaction, home, op.values)
        if intent.read_own and transaction.placed:
            intent.read_own = False
            return self._read(transaction)
        return end_request(session, transaction, intent.commit)

    def _send(self, session: Session, transaction: Transaction, home: TopicPartition, values: Sequence[int]) -> Request:
        settings = self._settings
        return send_request(
            session,
            transaction,
            home,
            values[: self._rng.randint(1, 3)],
            record_bytes=settings.record_bytes,
            timeout_ms=settings.request_timeout_ms,
        )

    def _go_on_behind_own_sends(self) -> None:
        """A process that reads from the beginning would not come near the end in a run."""
        for home, base_offset in self._placed.items():
            self._positions[home] = max(self._positions.get(home, 0), base_offset)

    def _read_on(self, transaction: Transaction, home: TopicPartition) -> Request:
        """What came to that partition since this process read it last."""

        def got(polled: Mapping[str, Any] | None, error: str | None) -> None:
            if polled is not None:
                self._positions[home] = polled["next_position"]
            elif error == "OFFSET_OUT_OF_RANGE":
                self._positions.pop(home, None)

        reader = Reader(f"t{self._process}", transaction.number)
        return poll_request(reader, home, self._positions.get(home, 0), POLL_BYTES, got)

    def _read(self, transaction: Transaction) -> Request:
        home, position = self._rng.choice(sorted(transaction.placed.items()))
        reader = Reader(f"t{self._process}", transaction.number)
        return poll_request(reader, home, position, POLL_BYTES, _nothing)


def gone(session: Session, rng: Random, zombie: float) -> bool:
    """Whether the process leaves this producer: it is of no use, or was fenced and does not go on."""
    if session.fenced and session.zombie is None:
        session.zombie = rng.random() < zombie
    # A zombie goes on with the transaction that it has, and begins none.
    return session.lost or (session.fenced and not (session.zombie and session.transaction is not None))


def moves(session: Session, rng: Random, share: float) -> bool:
    """Whether the process takes another id, between two transactions."""
    return session.transaction is None and session.producer is not None and rng.random() < share


def _nothing(_found: Mapping[str, object] | None, _error: str | None) -> None:
    """What a transaction reads of its own is for the checkers."""
