"""The role of a processor: consume, transform, produce. What it reads of one partition of the topic it sends, as new
values, to the output topic, and commits how far it read in the same transaction.

Decides positions and what is sent. Whoever has a partition's transactional id processes it: to take the id fences the
last one, and committed offsets are looked up after that. So each input is reflected once, however often a partition
changes hands. Must not know connections or the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.clients.transactions import TopicPartition
from harness.operations.generator import Op
from harness.workloads.transactions.client import Settings
from harness.workloads.transactions.producer import gone, moves
from harness.workloads.transactions.reads import Reader, fetch_offsets_request, poll_request
from harness.workloads.transactions.requests import Request
from harness.workloads.transactions.session import (
    Session,
    Transaction,
    add_offsets_request,
    add_request,
    end_request,
    init_request,
    send_request,
    txn_offsets_request,
)

INPUTS_MAX = 64
"""What one transaction takes in, of what it polls."""
OUTPUTS_MAX = 2
"""Sends of one transaction."""
POLL_BYTES = 8 * 1024
ABORT = 0.1
MOVE = 0.05
"""How often a processor goes on with another partition after a transaction."""


@dataclass(slots=True)
class _Intent:
    """What is left to do in a transaction. sends: output partition and the inputs that go there. tried: requests for
    the offsets that were sent; a zombie sends each once.
    """

    sends: list[tuple[TopicPartition, list[int]]]
    offset: int
    commit: bool
    abandon: int | None
    tried: set[str] = field(default_factory=set)


class ProcessorRole:
    """Implements `client.Role`."""

    def __init__(self, settings: Settings, process: int, rng: Random, last_id: str | None) -> None:
        self.session: Session | None = None
        self._settings = settings
        self._process = process
        self._rng = rng
        self._last_id = last_id
        self._partition = 0
        self._position: int | None = None
        self._intent: _Intent | None = None

    @property
    def _home(self) -> TopicPartition:
        return self._settings.topic, self._partition

    def next(self, op: Op) -> Request:
        """InitProducerId, OffsetFetch, a poll, AddPartitionsToTxn, sends, AddOffsetsToTxn, TxnOffsetCommit, EndTxn."""
        session, options = self.session, self._settings.options
        if session is None or gone(session, self._rng, options.zombie) or moves(session, self._rng, MOVE):
            session = self._choose()
        if session.producer is None:
            return init_request(session, options.timeout_ms)
        if session.transaction is not None and self._intent is not None:
            return self._step(op, session, session.transaction, self._intent)
        if self._position is None:
            return fetch_offsets_request(self._settings.group, [self._home], self._resume)
        return self._poll(op, session)

    def _choose(self) -> Session:
        ids = [self._settings.processor_id(partition) for partition in range(self._settings.partitions)]
        last, self._last_id = self._last_id, None
        self._partition = ids.index(last) if last in ids else self._rng.randrange(len(ids))
        self._position, self._intent = None, None
        self.session = Session(ids[self._partition])
        return self.session

    def _resume(self, found: Mapping[str, Any] | None, _error: str | None) -> None:
        if found is not None:
            (committed,) = found["offsets"]
            self._position = max(0, committed["offset"])

    def _poll(self, op: Op, session: Session) -> Request:
        """The transaction begins with what it reads; a poll without records begins none."""
        position, number = self._position, op.values[0]
        assert position is not None

        def got(polled: Mapping[str, Any] | None, error: str | None) -> None:
            if polled is None:
                if error == "OFFSET_OUT_OF_RANGE":
                    self._position = None
                return
            records = polled["records"]
            inputs = [record for record in records if record["value"] is not None][:INPUTS_MAX]
            if not inputs:
                self._position = polled["next_position"]
                return
            end = polled["next_position"] if len(inputs) == len(records) else inputs[-1]["offset"] + 1
            session.transaction = Transaction(number)
            self._intent = self._draw([record["value"] for record in inputs], end)

        reader = Reader(f"g{self._process}", number, self._settings.group)
        return poll_request(reader, self._home, position, POLL_BYTES, got)

    def _draw(self, inputs: list[int], offset: int) -> _Intent:
        rng, settings = self._rng, self._settings
        parts = rng.randint(1, OUTPUTS_MAX)
        size = -(-len(inputs) // parts)
        chunks = [inputs[at : at + size] for at in range(0, len(inputs), size)]
        sends = [((settings.out, rng.randrange(settings.partitions)), chunk) for chunk in chunks]
        abandon = rng.randint(1, 4) if rng.random() < settings.options.abandon else None
        return _Intent(sends, offset, rng.random() >= ABORT, abandon)

    def _step(self, op: Op, session: Session, transaction: Transaction, intent: _Intent) -> Request:
        settings = self._settings
        if intent.abandon is not None and transaction.begun:
            if intent.abandon == 0:
                return init_request(self._choose(), settings.options.timeout_ms)
            intent.abandon -= 1
        if transaction.failed and not session.fenced:
            return self._end(session, transaction, commit=False)
        if intent.sends:
            home, inputs = intent.sends[0]
            if home not in transaction.added and not session.fenced:
                new = sorted({home for home, _ in intent.sends} - transaction.added)
                return add_request(session, transaction, new)
            intent.sends.pop(0)
            return send_request(
                session,
                transaction,
                home,
                op.values[: len(inputs)],
                record_bytes=settings.record_bytes,
                timeout_ms=settings.request_timeout_ms,
                sources=inputs,
            )
        if not transaction.offsets_added and not (session.fenced and "add" in intent.tried):
            intent.tried.add("add")
            return add_offsets_request(session, transaction, settings.group)
        if not transaction.offsets_sent and not (session.fenced and "send" in intent.tried):
            intent.tried.add("send")
            return txn_offsets_request(session, transaction, settings.group, {self._home: intent.offset})
        return self._end(session, transaction, commit=intent.commit)

    def _end(self, session: Session, transaction: Transaction, *, commit: bool) -> Request:
        # What comes next is read from what is committed then.
        self._position = None
        return end_request(session, transaction, commit)
