"""Produce: check, stage, wait for what acks asks for, answer.

A batch is checked once (header, CRC, sequence) and stays opaque, unless its topic has an `append_policy`. Appends are
staged; nothing is answered before the turn's log writes are done (`finish_turn`). acks=all waits in the partition until
the watermark has passed the batch.
Source: ReplicaManager.appendRecords, DelayedProduce; UnifiedLog.analyzeAndValidateProducerState.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.core.admin import topic_names
from broker.core.replication.leader import Leader
from broker.model.ids import Offset
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.produce.keyless_records import refuse_keyless
from broker.runtime.replicas.replica import Replica
from broker.runtime.requests.deadlines import Deadlines
from broker.runtime.requests.old_clients import without_storage_errors
from broker.runtime.requests.request import Request, refuse, respond, respond_and_hang_up, respond_nothing
from broker.wire.compression import Compression
from broker.wire.errors import ErrorCode
from broker.wire.messages.produce import (
    ProducePartitionResult,
    decode_request,
    decode_usual,
    encode_response,
)
from broker.wire.primitives import MalformedFrame
from broker.wire.record_batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    InvalidBatch,
    UnsupportedMagic,
    check_crc,
    read_header,
    validate_produced,
)

if TYPE_CHECKING:
    from broker.runtime.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

ACKS_ALL = -1
_ZSTD = int(Compression.ZSTD)
_ZSTD_FROM = 7
_STORAGE_ERROR_FROM = 4
_ACKS = (0, 1, ACKS_ALL)
_REFUSED_BITS = TRANSACTIONAL_BIT | TIMESTAMP_TYPE_BIT
_ONE_BATCH = "a Produce request must carry exactly one batch"
_NONE = ErrorCode.NONE  # an enum member costs a slow lookup
_TOLD_MAX = 1000
_TOLD_CLIENT_MAX = 255
_ADMIN_CLIENT_ID = "__admin_client"
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much


class PendingProduce:
    """One request: its results as they come in. `open` holds the places that still wait for the watermark."""

    __slots__ = ("acks", "done", "in_turn", "open", "request", "results", "timeout_ms", "unconfirmed")

    def __init__(self, request: Request, acks: int, timeout_ms: int) -> None:
        self.request = request
        self.acks = acks
        self.timeout_ms = max(0, timeout_ms)
        self.results: list[ProducePartitionResult] = []
        self.unconfirmed: list[AckWait] | None = None
        self.open: set[int] = set()
        self.in_turn = True
        self.done = False


AckWait = tuple[PendingProduce, int, Replica, Offset, Offset]
"""One appended (or repeated) batch of a request: (request, its place in the results, replica, base and last offset)."""


class ProduceHandler:
    """All Produce requests of this broker."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager
        self._turn: list[PendingProduce] = []
        self._told: set[tuple[str, ErrorCode]] = set()
        self._deadlines: Deadlines[PendingProduce] = Deadlines(manager.loop, self._time_out)

    def handle(self, request: Request) -> None:
        """Stage every batch of the request; the answer follows at the end of this turn or later."""
        usual = decode_usual(request.api_version, request.body)
        if usual is None or usual[0] not in _ACKS:
            self._handle_any(request)
            return
        acks, timeout_ms, topic, index, records = usual
        pending = PendingProduce(request, acks, timeout_ms)
        pending.results.append(self._append(pending, 0, topic, index, records))
        self._staged(pending)

    def _handle_any(self, request: Request) -> None:
        try:
            body = decode_request(request.api_version, request.body)
        except MalformedFrame as error:
            refuse(request, f"Produce: {error}")
            return
        acks = body.acks
        pending = PendingProduce(request, acks, body.timeout_ms)
        refused = _NONE
        if acks not in _ACKS:
            refused = ErrorCode.INVALID_REQUIRED_ACKS
        elif body.transactional_id is not None:
            refused = ErrorCode.INVALID_TXN_STATE
        for place, (topic, index, records) in enumerate(body.partitions):
            if refused is _NONE:
                result = self._append(pending, place, topic, index, records)
            else:
                result = _failed(topic, index, refused, "")
            pending.results.append(result)
        self._staged(pending)

    def _staged(self, pending: PendingProduce) -> None:
        if pending.acks:
            self._turn.append(pending)
            return
        request = pending.request
        failed = next((result for result in pending.results if result.error), None)
        if failed is None:
            respond_nothing(request)
        else:
            # There is no answer in which to say so.
            code = ErrorCode(failed.error).name
            refuse(request, f"Produce with acks=0 to {failed.topic}-{failed.partition} failed: {code}")

    def _append(
        self, pending: PendingProduce, place: int, topic: str, index: int, records: memoryview | None
    ) -> ProducePartitionResult:
        manager = self._manager
        replica = manager.replicas.get((topic, index))
        if replica is None:
            return _failed(topic, index, manager.unhosted_error(topic, index), "")
        if topic in topic_names.INTERNAL and pending.request.client_id != _ADMIN_CLIENT_ID:
            text = f"{topic} is written by coordinators only"
            return _failed(topic, index, ErrorCode.INVALID_TOPIC_EXCEPTION, text)
        role = replica.partition.role
        if replica.offline:
            return _failed(topic, index, ErrorCode.KAFKA_STORAGE_ERROR, "")
        if not isinstance(role, Leader) or manager.stands_still:
            return _failed(topic, index, ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        error = role.check_append(pending.acks)
        if error is not _NONE:
            return _failed(
                topic,
                index,
                error,
                f"ISR {sorted(role.isr.committed)} of {replica.name} is below min.insync.replicas {role.min_isr}",
            )
        if not records:
            return self._refused(pending, topic, index, ErrorCode.INVALID_RECORD, _ONE_BATCH)
        try:
            header = read_header(records, 0)
            size = header.batch_length + LENGTH_PREFIX_SIZE
            if size != len(records):
                return self._refused(pending, topic, index, ErrorCode.INVALID_RECORD, _ONE_BATCH)
            if size > replica.max_batch_bytes:
                return _failed(
                    topic,
                    index,
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a batch of {size} bytes, max.message.bytes is {replica.max_batch_bytes}",
                )
            check_crc(records, 0, header)
        except UnsupportedMagic as magic:
            return self._refused(pending, topic, index, ErrorCode.INVALID_RECORD, str(magic))
        except CorruptBatch as corrupt:
            return self._refused(pending, topic, index, ErrorCode.CORRUPT_MESSAGE, str(corrupt))
        invalid = validate_produced(header)
        if invalid is not None:
            return self._refused(pending, topic, index, invalid.error, invalid.reason)
        if header.attributes & COMPRESSION_MASK == _ZSTD and pending.request.api_version < _ZSTD_FROM:
            text = f"zstd needs a Produce request of version {_ZSTD_FROM} at least"
            return _failed(topic, index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
        if header.attributes & _REFUSED_BITS:
            if header.attributes & TRANSACTIONAL_BIT:
                return _failed(topic, index, ErrorCode.INVALID_TXN_STATE, "transactions are not served")
            text = "a producer should not set the timestamp type to LogAppendTime"
            return _failed(topic, index, ErrorCode.INVALID_TIMESTAMP, text)
        if replica.compacted:
            invalid = refuse_keyless(header, records, replica.name)
            if invalid is not None:
                return _failed(topic, index, invalid.error, invalid.reason)
        producer_id = header.producer_id
        if producer_id >= 0:
            error, repeated = replica.producers.check(
                producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
            )
            if error is not _NONE:
                return _failed(
                    topic,
                    index,
                    error,
                    f"producer {producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}",
                )
            if repeated is not None:
                self._expect((pending, place, replica, repeated.base_offset, repeated.last_offset))
                # It may be committed already: no rise of the watermark will tell.
                manager.settle_later(replica)
                result = _appended(topic, index, replica, repeated.base_offset)
                return result if replica.append_policy is None else _with_append_time_of(result, replica)
        policy = replica.append_policy
        if policy is not None:
            accepted = policy.apply(header, records, replica.max_batch_bytes, manager.wall_ms())
            if isinstance(accepted, InvalidBatch):
                return _failed(topic, index, accepted.error, accepted.reason)
            header, records = accepted
        try:
            base, last, _, _, _ = replica.log.append_as_leader(records, role.leader_epoch, header)
        except LogDirFailed as failure:
            manager.take_offline(replica, failure)
            return _failed(topic, index, ErrorCode.KAFKA_STORAGE_ERROR, "")
        if producer_id >= 0:
            replica.producers.append(
                producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.last_sequence,
                base,
                last,
                manager.loop.now_ms(),
            )
        if not replica.dirty:
            replica.dirty = True
            manager.dirty.append(replica)
        self._expect((pending, place, replica, base, last))
        result = _appended(topic, index, replica, base)
        return result if policy is None else result._replace(log_append_time=_append_time(header))

    def _refused(
        self, pending: PendingProduce, topic: str, index: int, error: ErrorCode, reason: str
    ) -> ProducePartitionResult:
        """For a batch that is none: its sender hears it each time, the log once for each client and kind of error."""
        told = (pending.request.client_id[:_TOLD_CLIENT_MAX], error)
        if told not in self._told:
            if len(self._told) >= _TOLD_MAX:
                self._told.clear()
            self._told.add(told)
            logger.warning(
                "client %r sent a batch to %s-%d that is refused with %s: %s (further ones are not logged)",
                *(told[0], topic, index, error.name, reason),
            )
        return _failed(topic, index, error, reason)

    def _expect(self, wait: AckWait) -> None:
        pending, place, replica, _, last_offset = wait
        if pending.acks == ACKS_ALL:
            pending.open.add(place)
            replica.ack_waits.add(last_offset + 1, wait)
        elif pending.acks == 1:
            if pending.unconfirmed is None:
                pending.unconfirmed = []
            pending.unconfirmed.append(wait)

    def finish_turn(self) -> None:
        """After the log writes: answer what waits for nothing more, arm the time-outs of the rest."""
        if not self._turn:
            return
        turn, self._turn = self._turn, []
        add_deadline = self._deadlines.add
        now_ms = self._manager.loop.now_ms()
        for pending in turn:
            if pending.done:
                continue
            if pending.unconfirmed is not None:
                self._confirm(pending.unconfirmed)
                pending.unconfirmed = None  # they refer to each other: without this they were left to the collector
            pending.in_turn = False
            if pending.open:
                add_deadline(pending, pending.timeout_ms, now_ms)
            else:
                self._answer(pending)

    def _confirm(self, waits: list[AckWait]) -> None:
        for wait in waits:
            if wait[2].offline:
                self._fail(wait, ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                self._log_ack(wait)

    def on_committed(self, replica: Replica, role: Leader) -> None:
        """The watermark rose, or new waits came in: answer those that it has passed."""
        reached = replica.ack_waits.reach(role.high_watermark)
        if not reached:
            return
        # What holds for the watermark holds for all that it has passed.
        error = role.check_committed(role.high_watermark)
        assert error is not None
        logs = self._manager.event_log is not None
        for wait in reached:
            if wait[0].done:
                continue
            if error is not _NONE:
                self._fail(wait, error)
            elif logs:
                self._log_ack(wait)
            self._arrived(wait)

    def fail_waits(self, replica: Replica, error: ErrorCode) -> None:
        """This replica leads no more, or its log dir is gone: nothing it staged will be confirmed by it."""
        for wait in replica.ack_waits.take_all():
            if not wait[0].done:
                self._fail(wait, error)
                self._arrived(wait)

    def _arrived(self, wait: AckWait) -> None:
        pending = wait[0]
        still_open = pending.open
        still_open.discard(wait[1])
        if not still_open and not pending.in_turn:
            self._deadlines.remove(pending, pending.timeout_ms)
            self._answer(pending)

    def _time_out(self, pending: PendingProduce) -> None:
        """What has not been committed by now is answered as timed out; it stays in the log and may yet commit."""
        if pending.done:
            return
        for place in pending.open:
            result = pending.results[place]
            pending.results[place] = result._replace(error=ErrorCode.REQUEST_TIMED_OUT, base_offset=-1)
        self._answer(pending)

    def drop_gone(self) -> None:
        """Forget the time-outs of producers that are gone. What they sent stays, and commits as it may."""
        for pending in self._deadlines.items():
            if not pending.request.open:
                pending.done = True
                self._deadlines.remove(pending, pending.timeout_ms)

    def _fail(self, wait: AckWait, error: ErrorCode) -> None:
        results, place = wait[0].results, wait[1]
        results[place] = results[place]._replace(error=error, base_offset=-1, log_start_offset=-1)

    def _log_ack(self, wait: AckWait) -> None:
        log = self._manager.event_log
        if log is None:
            return
        pending, _, replica, base_offset, last_offset = wait
        role = replica.partition.role
        if isinstance(role, Leader):
            log.emit(
                "ack",
                p=replica.name,
                le=role.leader_epoch,
                base=base_offset,
                last=last_offset,
                acks=pending.acks,
                hw=role.high_watermark,
                isr=sorted(role.isr.committed),
                min_isr=role.min_isr,
            )

    def _answer(self, pending: PendingProduce) -> None:
        pending.done = True
        request = pending.request
        if request.api_version < _STORAGE_ERROR_FROM:
            pending.results = without_storage_errors(pending.results)
        body = encode_response(request.api_version, pending.results)
        if self._manager.frozen and any(result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER for result in pending.results):
            # Our metadata still names us. A client that is connected to nobody else would ask us for ever.
            respond_and_hang_up(request, body)
        else:
            respond(request, body)


def _appended(topic: str, index: int, replica: Replica, base_offset: Offset) -> ProducePartitionResult:
    return _new(ProducePartitionResult, (topic, index, 0, base_offset, -1, replica.log.log_start_offset, None))


def _append_time(header: BatchHeader) -> int:
    """What an answer says of an appended batch: −1 where its records have their producer's times."""
    return header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else -1


def _with_append_time_of(result: ProducePartitionResult, replica: Replica) -> ProducePartitionResult:
    """A repeat gets the time that the original got, read back from the log; none while that is not written."""
    log = replica.log
    base = result.base_offset
    if not log.log_start_offset <= base < log.written_leo:
        return result
    try:
        view = log.read_bytes(base, HEADER_SIZE, log.written_leo, True)
        return result._replace(log_append_time=_append_time(read_header(view))) if view else result
    except (LogDirFailed, CorruptLog, CorruptBatch, OSError):
        return result  # whoever reads it next reports that; the batch is in the log all the same


def _failed(topic: str, index: int, error: ErrorCode, message: str) -> ProducePartitionResult:
    return ProducePartitionResult(topic, index, error, error_message=message or None)
