"""`append_records`: a leader takes a batch into its log, and says when it is as safe as `acks` asks for.

Produce requests append through this, and so do coordinators, which have no request. A batch is validated
(`append_validation`), checked against its producer's sequence and staged; nothing is confirmed before the turn's log
writes are done (`finish_turn`). acks=all waits in the partition until the watermark has passed the batch.
Source: ReplicaManager.appendRecords, DelayedProduce; UnifiedLog.append, analyzeAndValidateProducerState.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Final

from broker.core.admin import topic_names
from broker.core.replication.leader import Leader
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.event_log import EventLog
from broker.runtime.ports import Loop, ResponseSlot
from broker.runtime.replicas.append_validation import coordinators_header, validated
from broker.runtime.replicas.replica import PendingAppend, Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.requests.deadlines import Deadlines
from broker.runtime.requests.request import give_up
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    InvalidBatch,
    read_header,
)

logger = logging.getLogger(__name__)

ACKS_ALL: Final = -1


class AppendOrigin(Enum):
    """Who appends. What a follower replicates does not come this way: `follower.response_processor` appends it."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """A coordinator's records, or its markers; they have no sequence that could repeat."""


_TRANSACTION_BITS: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_CLIENT: Final = AppendOrigin.CLIENT
_NONE: Final = ErrorCode.NONE  # an enum member costs a slow lookup


class _CalledBack(PendingAppend):
    """Hands its outcome to a function."""

    __slots__ = ("_done",)

    def __init__(
        self,
        partition: tuple[str, int],
        acks: int,
        timeout_ms: int,
        slot: ResponseSlot | None,
        done: Callable[[PendingAppend], None],
    ) -> None:
        super().__init__(partition, acks, timeout_ms, slot)
        self._done = done

    def finish(self) -> None:
        self._done(self)


class Appender:
    """All appends of this broker's leaders."""

    def __init__(self, replicas: Replicas, loop: Loop, event_log: EventLog | None, wall_ms: Callable[[], int]) -> None:
        """wall_ms: ms since 1970, for timestamps of records and nothing else."""
        self._replicas = replicas
        self._loop = loop
        self._event_log = event_log
        self.wall_ms = wall_ms
        self.verifies_transactions = True
        """Whether the first batch of a transaction has to pass `transaction_gate`."""
        self._turn: list[PendingAppend] = []
        self._ending: list[PendingAppend] = []
        """Appends of the turn whose end is under way."""
        self._deadlines: Deadlines[PendingAppend] = Deadlines(loop, self._time_out)

    def append_records(
        self,
        partition: tuple[str, int],
        records: memoryview | None,
        acks: int,
        origin: AppendOrigin,
        done: Callable[[PendingAppend], None],
        timeout_ms: int,
        slot: ResponseSlot | None = None,
        internal_topics: bool = False,
        zstd_from: int | None = None,
    ) -> None:
        """Stage one batch. `done` is called once: with acks=0 from within, else from the end of this turn on.

        records: writable, and the log's until the end of this turn: base offset and leader epoch are stamped into it.
        What `done` appends while a turn ends belongs to the next turn, which follows at once.
        acks: 0, 1 (written by the leader) or −1 (replicated by the ISR, which must not be below the minimum).
        timeout_ms: how long acks=all may wait; `done` gets REQUEST_TIMED_OUT then, and the batch may yet commit.
        slot: of the client that waits; once it is closed, `drop_gone` forgets the wait without a call of `done`.
        internal_topics: a client may write to them. zstd_from: the client's request is older than the version from
        which on it may use zstd, which is named here.
        """
        append = _CalledBack(partition, acks, timeout_ms, slot, done)
        self.append(append, records, origin, internal_topics, zstd_from)

    def append(
        self,
        append: PendingAppend,
        records: memoryview | None,
        origin: AppendOrigin,
        internal_topics: bool,
        zstd_from: int | None,
    ) -> None:
        """`append_records` for a caller with a PendingAppend of its own: `finish` is called in place of `done`."""
        partition = append.partition
        replica = self._replicas.by_partition.get(partition)
        if replica is None:
            append.refuse(self._replicas.unhosted_error(*partition), "")
        elif origin is _CLIENT and not internal_topics and partition[0] in topic_names.INTERNAL:
            text = f"{partition[0]} is written by coordinators only"
            append.refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
        else:
            self._append(append, replica, records, origin, zstd_from)
        self.take_outcome(append)

    def take_outcome(self, append: PendingAppend) -> None:
        """Of an append that is staged or refused: handed out when the turn ends or later; with acks=0 at once."""
        if append.acks:
            self._turn.append(append)
        else:
            _hand_out(append)

    def _append(
        self,
        append: PendingAppend,
        replica: Replica,
        records: memoryview | None,
        origin: AppendOrigin,
        zstd_from: int | None,
    ) -> None:
        """Take the batch, or note in `append` why not."""
        role = replica.partition.role
        if replica.offline:
            append.refuse(ErrorCode.KAFKA_STORAGE_ERROR, "")
            return
        if not isinstance(role, Leader) or self._replicas.fenced_now():
            append.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
            return
        error = role.check_append(append.acks)
        if error is not _NONE:
            isr = sorted(role.isr.committed)
            append.refuse(error, f"ISR {isr} of {replica.name} is below min.insync.replicas {role.min_isr}")
            return
        if origin is not _CLIENT:
            header = coordinators_header(append, replica, records)
            if header is None or records is None or self._unguarded(append, replica, header, -1):
                return
            self._stage(append, replica, role, header, records)
            return
        header = validated(append, replica, records, zstd_from)
        if header is None or records is None:
            return
        if header.producer_id >= 0 and self._settled_by_sequence(append, replica, header):
            return
        self._stage(append, replica, role, header, records)

    def _settled_by_sequence(self, append: PendingAppend, replica: Replica, header: BatchHeader) -> bool:
        """True where the producer's sequence refuses the batch, or shows that the log has it already."""
        producers = replica.log.producers
        error, repeated = producers.check(
            header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
        )
        if header.attributes & TRANSACTIONAL_BIT:
            if repeated is None and self._unguarded(append, replica, header, header.base_sequence):
                return True
        elif producers.transactions and producers.in_transaction(header.producer_id):
            append.refuse(ErrorCode.INVALID_TXN_STATE, f"producer {header.producer_id} has a transaction open here")
            return True
        if error is not _NONE:
            append.refuse(
                error, f"producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}"
            )
            return True
        if repeated is None:
            return False
        self._expect(append, replica, repeated.base_offset, repeated.last_offset)
        # It may be committed already: no rise of the watermark will tell.
        self._replicas.settle_later(replica)
        if replica.append_policy is not None:
            append.log_append_time = _stored_append_time(replica, repeated.base_offset)
        return True

    def _unguarded(self, append: PendingAppend, replica: Replica, header: BatchHeader, first_sequence: int) -> bool:
        """True where the transaction's coordinator may not know that this partition is in it; `append` says so then."""
        if not self.verifies_transactions or header.attributes & _TRANSACTION_BITS != TRANSACTIONAL_BIT:
            return False
        error = replica.log.producers.check_guard(header.producer_id, header.producer_epoch, first_sequence)
        if error is not _NONE:
            append.refuse(error, "Record was not part of an ongoing transaction")
        return error is not _NONE

    def _stage(
        self, append: PendingAppend, replica: Replica, role: Leader, header: BatchHeader, records: memoryview
    ) -> None:
        policy = replica.append_policy
        if policy is not None:
            accepted = policy.apply(header, records, replica.max_batch_bytes, self.wall_ms())
            if isinstance(accepted, InvalidBatch):
                append.refuse(accepted.error, accepted.reason)
                return
            header, records = accepted
            append.log_append_time = _append_time(header)
        try:
            base, last, _, _, _ = replica.log.append_as_leader(records, role.leader_epoch, header)
        except LogDirFailed as failure:
            self._replicas.take_offline(replica, failure)
            append.log_append_time = -1
            append.refuse(ErrorCode.KAFKA_STORAGE_ERROR, "")
            return
        if not replica.dirty:
            replica.dirty = True
            self._replicas.dirty.append(replica)
        self._expect(append, replica, base, last)

    def _expect(self, append: PendingAppend, replica: Replica, base_offset: int, last_offset: int) -> None:
        """The batch is in the log: what is left is the wait for what acks asks for."""
        append.replica = replica
        append.base_offset = base_offset
        append.last_offset = last_offset
        append.log_start_offset = replica.log.log_start_offset
        if append.acks == ACKS_ALL:
            append.waits = True
            replica.ack_waits.add(last_offset + 1, append)

    # -- outcomes --------------------------------------------------------------------------------------------------

    @property
    def staged(self) -> bool:
        """Whether this turn appended anything."""
        return bool(self._turn)

    def close_turn(self) -> None:
        """Before the log writes: an append from here on, by a `done` that is called, may come after its log's write."""
        if self._turn:
            self._ending, self._turn = self._turn, []

    def finish_turn(self) -> None:
        """After the log writes: hand out what waits for nothing more, arm the time-outs of the rest."""
        if not self._ending:
            return
        turn, self._ending = self._ending, []
        add_deadline = self._deadlines.add
        now_ms = self._loop.now_ms()
        for append in turn:
            append.in_turn = False
            if append.acks == 1:
                self._confirm_written(append)
            if append.waits:
                add_deadline(append, append.timeout_ms, now_ms)
            else:
                _hand_out(append)

    def _confirm_written(self, append: PendingAppend) -> None:
        replica = append.replica
        if replica is None:
            return
        if replica.offline:
            append.fail(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self._log_ack(append, replica)

    def on_committed(self, replica: Replica, role: Leader) -> None:
        """The watermark rose, or new waits came in: those that it has passed are over."""
        reached = replica.ack_waits.reach(role.high_watermark)
        if not reached:
            return
        # What holds for the watermark holds for all that it has passed.
        error = role.check_committed(role.high_watermark)
        assert error is not None
        for append in reached:
            if append.finished:
                continue
            if error is not _NONE:
                append.fail(error)
            else:
                self._log_ack(append, replica)
            self._arrived(append)

    def fail_waits(self, replica: Replica, error: ErrorCode) -> None:
        """This replica leads no more, or its log dir is gone: nothing it staged will be confirmed by it."""
        for append in replica.ack_waits.take_all():
            if not append.finished:
                append.fail(error)
                self._arrived(append)

    def _arrived(self, append: PendingAppend) -> None:
        append.waits = False
        if not append.in_turn:
            self._deadlines.remove(append, append.timeout_ms)
            _hand_out(append)

    def _time_out(self, append: PendingAppend) -> None:
        """Appends that are not committed by now have timed out; they stay in the log and may yet commit."""
        if append.finished:
            return
        append.error = ErrorCode.REQUEST_TIMED_OUT
        append.base_offset = -1
        _hand_out(append)

    def drop_gone(self) -> None:
        """Forget the time-outs of clients that are gone. What they sent stays, and commits as it may."""
        for append in self._deadlines.items():
            if append.slot is not None and not append.slot.open:
                append.finished = True
                self._deadlines.remove(append, append.timeout_ms)

    def _log_ack(self, append: PendingAppend, replica: Replica) -> None:
        log = self._event_log
        if log is None:
            return
        role = replica.partition.role
        if isinstance(role, Leader):
            log.emit(
                "ack",
                p=replica.event_name,
                le=role.leader_epoch,
                base=append.base_offset,
                last=append.last_offset,
                acks=append.acks,
                hw=role.high_watermark,
                isr=sorted(role.isr.committed),
                min_isr=role.min_isr,
            )


def _hand_out(append: PendingAppend) -> None:
    """What goes wrong from here on concerns who waits for this outcome: others that share the turn get theirs, and the
    broker goes on. All that the outcome says holds already.
    """
    append.finished = True
    try:
        append.finish()
    except Exception:
        logger.exception("%s-%d: what waited for an append failed", *append.partition)
        give_up(append.slot)


def _append_time(header: BatchHeader) -> int:
    """The time that the response gives for an appended batch: −1 where its records have their producer's times."""
    return header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else -1


def _stored_append_time(replica: Replica, base_offset: int) -> int:
    """A repeat gets the time that the original got, read back from the log; −1 while that is not written."""
    log = replica.log
    if not log.log_start_offset <= base_offset < log.log_end_offset:
        return -1
    try:
        view = log.read_bytes(base_offset, HEADER_SIZE, log.log_end_offset, True)
        return _append_time(read_header(view)) if view else -1
    except (LogDirFailed, CorruptLog, CorruptBatch, OSError):
        return -1  # the next read of the log reports the failure; the batch is in the log all the same
