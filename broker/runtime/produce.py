"""Produce: check, stage, wait for what acks asks for, answer.

A batch is checked once (header, CRC, sequence) and stays opaque. Appends are staged; nothing is answered before the
turn's log writes are done (`finish_turn`). acks=all waits in the partition until the watermark has passed the batch.
Source: ReplicaManager.appendRecords, DelayedProduce; UnifiedLog.analyzeAndValidateProducerState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.leader import Leader
from broker.runtime.deadlines import Deadlines
from broker.runtime.keyless_records import refuse_keyless
from broker.runtime.ports import LogDirFailed, Offset
from broker.runtime.replica import Replica
from broker.runtime.request import Request, refuse, respond, respond_nothing
from broker.wire.compression import Compression
from broker.wire.errors import ErrorCode
from broker.wire.messages.produce import (
    ProducePartition,
    ProducePartitionResult,
    decode_request,
    encode_response,
)
from broker.wire.primitives import MalformedFrame
from broker.wire.record_batch import (
    CorruptBatch,
    UnsupportedMagic,
    check_crc,
    read_header,
    validate_produced,
)

if TYPE_CHECKING:
    from broker.runtime.replica_manager import ReplicaManager

ACKS_ALL = -1
_ZSTD_FROM = 7


class PendingProduce:
    """One request: its results as they come in. `open` holds the places that still wait for the watermark."""

    __slots__ = ("acks", "done", "in_turn", "open", "request", "results", "timeout_ms", "unconfirmed")

    def __init__(self, request: Request, acks: int, timeout_ms: int) -> None:
        self.request = request
        self.acks = acks
        self.timeout_ms = float(max(0, timeout_ms))
        self.results: list[ProducePartitionResult] = []
        self.unconfirmed: list[AckWait] = []
        self.open: set[int] = set()
        self.in_turn = True
        self.done = False


class AckWait(NamedTuple):
    """One appended (or repeated) batch of a request: the one at `place` in its results. Offsets are inclusive."""

    pending: PendingProduce
    place: int
    replica: Replica
    base_offset: Offset
    last_offset: Offset


class ProduceHandler:
    """All Produce requests of this broker."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager
        self._turn: list[PendingProduce] = []
        self._deadlines: Deadlines[PendingProduce] = Deadlines(manager.loop, self._time_out)

    def handle(self, request: Request) -> None:
        """Stage every batch of the request; the answer follows at the end of this turn or later."""
        try:
            body = decode_request(request.api_version, request.body)
        except MalformedFrame as error:
            refuse(request, f"Produce: {error}")
            return
        acks = body.acks
        pending = PendingProduce(request, acks, body.timeout_ms)
        refused = ErrorCode.NONE
        if acks not in (0, 1, ACKS_ALL):
            refused = ErrorCode.INVALID_REQUIRED_ACKS
        elif body.transactional_id is not None:
            refused = ErrorCode.INVALID_TXN_STATE
        results = pending.results
        for index, part in enumerate(body.partitions):
            if refused is ErrorCode.NONE:
                result = self._append(pending, index, part)
            else:
                result = _failed(part, refused, "")
            results.append(result)
        if acks == 0:
            failed = next((result for result in results if result.error), None)
            if failed is None:
                respond_nothing(request)
            else:
                # There is no answer in which to say so.
                code = ErrorCode(failed.error).name
                refuse(request, f"Produce with acks=0 to {failed.topic}-{failed.partition} failed: {code}")
            return
        self._turn.append(pending)

    def _append(self, pending: PendingProduce, index: int, part: ProducePartition) -> ProducePartitionResult:
        manager = self._manager
        replica = manager.replicas.get((part.topic, part.partition))
        if replica is None:
            return _failed(part, manager.unhosted_error(part.topic, part.partition), "")
        role = replica.partition.role
        if replica.offline:
            return _failed(part, ErrorCode.KAFKA_STORAGE_ERROR, "")
        if not isinstance(role, Leader) or manager.frozen:
            return _failed(part, ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        acks = pending.acks
        error = role.check_append(acks)
        if error is not ErrorCode.NONE:
            return _failed(
                part,
                error,
                f"ISR {sorted(role.isr.committed)} of {replica.name} is below min.insync.replicas {role.min_isr}",
            )
        records = part.records
        if not records:
            return _failed(part, ErrorCode.INVALID_RECORD, "a Produce request must carry exactly one batch")
        try:
            header = read_header(records, 0)
            if header.size != len(records):
                return _failed(part, ErrorCode.INVALID_RECORD, "a Produce request must carry exactly one batch")
            if header.size > replica.max_batch_bytes:
                return _failed(
                    part,
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a batch of {header.size} bytes, max.message.bytes is {replica.max_batch_bytes}",
                )
            check_crc(records, 0, header)
        except UnsupportedMagic as magic:
            return _failed(part, ErrorCode.INVALID_RECORD, str(magic))
        except CorruptBatch as corrupt:
            return _failed(part, ErrorCode.CORRUPT_MESSAGE, str(corrupt))
        invalid = validate_produced(header)
        if invalid is not None:
            return _failed(part, invalid.error, invalid.reason)
        if pending.request.api_version < _ZSTD_FROM and header.compression == Compression.ZSTD:
            text = f"zstd needs a Produce request of version {_ZSTD_FROM} at least"
            return _failed(part, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
        if header.is_transactional:
            return _failed(part, ErrorCode.INVALID_TXN_STATE, "transactions are not served")
        if replica.compacted:
            invalid = refuse_keyless(header, records, replica.name)
            if invalid is not None:
                return _failed(part, invalid.error, invalid.reason)
        if header.producer_id >= 0:
            error, repeated = replica.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
            )
            if error is not ErrorCode.NONE:
                return _failed(
                    part,
                    error,
                    f"producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}",
                )
            if repeated is not None:
                self._expect(AckWait(pending, index, replica, repeated.base_offset, repeated.last_offset))
                return _appended(part, replica, repeated.base_offset)
        try:
            info = replica.log.append_as_leader(records, role.leader_epoch)
        except LogDirFailed as failure:
            manager.take_offline(replica, failure)
            return _failed(part, ErrorCode.KAFKA_STORAGE_ERROR, "")
        if header.producer_id >= 0:
            replica.producers.append(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.last_sequence,
                info.base_offset,
                info.last_offset,
                manager.loop.now_ms(),
            )
        if not replica.dirty:
            replica.dirty = True
            manager.dirty.append(replica)
        if acks:
            self._expect(AckWait(pending, index, replica, info.base_offset, info.last_offset))
        return _appended(part, replica, info.base_offset)

    def _expect(self, wait: AckWait) -> None:
        pending = wait.pending
        if pending.acks == ACKS_ALL:
            pending.open.add(wait.place)
            wait.replica.ack_waits.add(wait.last_offset + 1, wait)
            self._manager.settle_later(wait.replica)
        elif pending.acks == 1:
            pending.unconfirmed.append(wait)

    def finish_turn(self) -> None:
        """After the log writes: answer what waits for nothing more, arm the time-outs of the rest."""
        if not self._turn:
            return
        turn, self._turn = self._turn, []
        for pending in turn:
            if pending.done:
                continue
            for wait in pending.unconfirmed:
                if wait.replica.offline:
                    self._fail(wait, ErrorCode.KAFKA_STORAGE_ERROR)
                else:
                    self._log_ack(wait)
            pending.in_turn = False
            if pending.open:
                self._deadlines.add(pending, pending.timeout_ms)
            else:
                self._answer(pending)

    def on_committed(self, replica: Replica, role: Leader) -> None:
        """The watermark rose, or new waits came in: answer those that it has passed."""
        for wait in replica.ack_waits.reach(role.high_watermark):
            if wait.pending.done:
                continue
            error = role.check_committed(wait.last_offset + 1)
            if error is ErrorCode.NONE:
                self._log_ack(wait)
            elif error is not None:
                self._fail(wait, error)
            self._arrived(wait)

    def fail_waits(self, replica: Replica, error: ErrorCode) -> None:
        """This replica leads no more, or its log dir is gone: nothing it staged will be confirmed by it."""
        for wait in replica.ack_waits.take_all():
            if not wait.pending.done:
                self._fail(wait, error)
                self._arrived(wait)

    def _arrived(self, wait: AckWait) -> None:
        pending = wait.pending
        pending.open.discard(wait.place)
        if not pending.open and not pending.in_turn:
            self._deadlines.remove(pending, pending.timeout_ms)
            self._answer(pending)

    def _time_out(self, pending: PendingProduce) -> None:
        """What has not been committed by now is answered as timed out; it stays in the log and may yet commit."""
        if pending.done:
            return
        for index in pending.open:
            result = pending.results[index]
            pending.results[index] = result._replace(error=ErrorCode.REQUEST_TIMED_OUT, base_offset=-1)
        self._answer(pending)

    def _fail(self, wait: AckWait, error: ErrorCode) -> None:
        result = wait.pending.results[wait.place]
        wait.pending.results[wait.place] = result._replace(error=error, base_offset=-1, log_start_offset=-1)

    def _log_ack(self, wait: AckWait) -> None:
        log = self._manager.event_log
        role = wait.replica.partition.role
        if log is not None and isinstance(role, Leader):
            log.emit(
                "ack",
                p=wait.replica.name,
                le=role.leader_epoch,
                base=wait.base_offset,
                last=wait.last_offset,
                acks=wait.pending.acks,
                hw=role.high_watermark,
                isr=sorted(role.isr.committed),
                min_isr=role.min_isr,
            )

    def _answer(self, pending: PendingProduce) -> None:
        pending.done = True
        respond(pending.request, encode_response(pending.request.api_version, pending.results))


def _appended(part: ProducePartition, replica: Replica, base_offset: Offset) -> ProducePartitionResult:
    return ProducePartitionResult(part.topic, part.partition, 0, base_offset, -1, replica.log.log_start_offset, None)


def _failed(part: ProducePartition, error: ErrorCode, message: str) -> ProducePartitionResult:
    return ProducePartitionResult(part.topic, part.partition, error, error_message=message or None)
