"""Produce: decode, append each partition's batch, respond once all outcomes are known.

What becomes of a batch is decided in `replicas.append`; batches of transactions pass `replicas.transaction_gate` first.
Source: kafka.server.KafkaApis.handleProduceRequest.
"""

from __future__ import annotations

import logging
from typing import Final

from broker.runtime.produce.transactions import check_producers, transactional_header, unverified
from broker.runtime.replicas.append import ACKS_ALL, Appender, AppendOrigin
from broker.runtime.replicas.replica import PendingAppend
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.replicas.transaction_gate import TransactionGate
from broker.runtime.requests.old_clients import without_storage_errors
from broker.runtime.requests.request import Request, give_up, refuse, respond, respond_and_hang_up, respond_nothing
from broker.wire.errors import ErrorCode
from broker.wire.messages.produce import (
    ProducePartitionResult,
    decode_request,
    decode_usual,
    encode_response,
)
from broker.wire.primitives import MalformedFrame

logger = logging.getLogger(__name__)

_ZSTD_FROM: Final = 7
_STORAGE_ERROR_FROM: Final = 4
_ACKS: Final = (0, 1, ACKS_ALL)
_CLIENT: Final = AppendOrigin.CLIENT
_NONE: Final = ErrorCode.NONE  # an enum member costs a slow lookup
_NOTED_MAX = 1000
_NOTED_CLIENT_MAX = 255
_ADMIN_CLIENT_ID: Final = "__admin_client"
_new: Final = tuple.__new__  # a NamedTuple's own constructor costs three times as much


class PendingProduce:
    """One request for several partitions: its results as they come in, and how many are still missing."""

    __slots__ = ("acks", "missing", "request", "results")

    def __init__(self, request: Request, acks: int, results: list[ProducePartitionResult], missing: int) -> None:
        self.request = request
        self.acks = acks
        self.results = results
        self.missing = missing


class PartitionAppend(PendingAppend):
    """One partition's batch of a request. pending: of a request for several, of which it is number `place`."""

    __slots__ = ("handler", "pending", "place", "request")

    def __init__(
        self,
        handler: ProduceHandler,
        request: Request,
        partition: tuple[str, int],
        acks: int,
        timeout_ms: int,
        pending: PendingProduce | None,
        place: int,
    ) -> None:
        super().__init__(partition, acks, timeout_ms, request.slot)
        self.handler = handler
        self.request = request
        self.pending = pending
        self.place = place

    def finish(self) -> None:
        """Respond if this was the last outcome that the request waited for."""
        self.handler.arrived(self)


class TransactionalAppend(PartitionAppend):
    """Of a request with a transactional id."""

    __slots__ = ()
    in_transaction = True


class ProduceHandler:
    """All Produce requests of this broker."""

    def __init__(self, replicas: Replicas, appender: Appender, gate: TransactionGate) -> None:
        self._replicas = replicas
        self._appender = appender
        self._gate = gate
        self._noted: set[tuple[str, ErrorCode]] = set()
        """Clients and kinds of malformed batches that were logged."""

    def handle(self, request: Request) -> None:
        """Stage every batch of the request; the response follows at the end of this turn or later."""
        usual = decode_usual(request.api_version, request.body)
        if usual is None or usual[0] not in _ACKS:
            self._handle_any(request)
            return
        acks, timeout_ms, topic, index, records = usual
        self._append(PartitionAppend(self, request, (topic, index), acks, timeout_ms, None, 0), records)

    def _handle_any(self, request: Request) -> None:
        try:
            body = decode_request(request.api_version, request.body)
        except MalformedFrame as error:
            refuse(request, f"Produce: {error}")
            return
        acks = body.acks
        refused = _NONE
        if acks not in _ACKS:
            refused = ErrorCode.INVALID_REQUIRED_ACKS
        elif body.transactional_id is not None:
            refused = check_producers(body.partitions)
        # What is not refused takes its result's place as it comes in.
        results = [ProducePartitionResult(topic, index, refused) for topic, index, _ in body.partitions]
        if refused is not _NONE or not results:
            self._respond(request, acks, results)
            return
        pending = PendingProduce(request, acks, results, len(results))
        transactional_id = body.transactional_id
        for place, (topic, index, records) in enumerate(body.partitions):
            arguments = (self, request, (topic, index), acks, body.timeout_ms, pending, place)
            if transactional_id is None:
                self._append(PartitionAppend(*arguments), records)
            else:
                self._append_in_transaction(TransactionalAppend(*arguments), records, transactional_id)

    def _append_in_transaction(
        self, append: TransactionalAppend, records: memoryview | None, transactional_id: str
    ) -> None:
        header = transactional_header(records)
        if header is None:
            self._append(append, records)
            return

        def admitted(error: ErrorCode, records: memoryview | None) -> None:
            if error is not _NONE:
                append.refuse(*unverified(error))
                self._appender.take_outcome(append)
                return
            try:
                self._append(append, records)
            except Exception:
                give_up(append.slot)
                raise

        self._gate.admit(
            append.partition,
            transactional_id,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            records,
            admitted,
        )

    def _append(self, append: PartitionAppend, records: memoryview | None) -> None:
        request = append.request
        self._appender.append(
            append,
            records,
            _CLIENT,
            request.client_id == _ADMIN_CLIENT_ID,
            None if request.api_version >= _ZSTD_FROM else _ZSTD_FROM,
        )

    def arrived(self, append: PartitionAppend) -> None:
        """The outcome of one partition's batch is known."""
        topic, index = append.partition
        error = append.error
        if append.malformed:
            self._note_malformed(append.request, append)
        result: ProducePartitionResult = _new(
            ProducePartitionResult,
            (
                topic,
                index,
                0 if error is _NONE else error,
                append.base_offset,
                append.log_append_time,
                append.log_start_offset,
                append.message or None,
            ),
        )
        pending = append.pending
        if pending is None:
            self._respond(append.request, append.acks, [result])
            return
        pending.results[append.place] = result
        pending.missing -= 1
        if not pending.missing:
            self._respond(pending.request, pending.acks, pending.results)

    def _note_malformed(self, request: Request, append: PendingAppend) -> None:
        """For malformed bytes: their sender gets the error each time, the log has it once for each client and kind of
        error.
        """
        noted = (request.client_id[:_NOTED_CLIENT_MAX], append.error)
        if noted in self._noted:
            return
        if len(self._noted) >= _NOTED_MAX:
            self._noted.clear()
        self._noted.add(noted)
        logger.warning(
            "client %r sent a batch to %s-%d that is refused with %s: %s (further ones are not logged)",
            *(noted[0], *append.partition, append.error.name, append.message),
        )

    def _respond(self, request: Request, acks: int, results: list[ProducePartitionResult]) -> None:
        if not acks:
            failed = next((result for result in results if result.error), None)
            if failed is None:
                respond_nothing(request)
            else:
                # There is no response in which to say so.
                code = ErrorCode(failed.error).name
                refuse(request, f"Produce with acks=0 to {failed.topic}-{failed.partition} failed: {code}")
            return
        if request.api_version < _STORAGE_ERROR_FROM:
            results = without_storage_errors(results)
        body = encode_response(request.api_version, results)
        if self._replicas.locally_fenced and any(
            result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER for result in results
        ):
            # This broker's metadata still name it as leader. A client that is connected to no other broker would send
            # here for ever.
            respond_and_hang_up(request, body)
        else:
            respond(request, body)
