"""One replica on this broker: its log, its role, its producers, and what waits for it.

Glue without rules: the rules are in `broker.core`. Knows no sockets and no other replica.
Source: kafka.cluster.Partition, UnifiedLog.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from broker.core.producers import snapshot as producer_snapshot
from broker.core.producers.state import ProducerStates
from broker.core.replication.leader import Leader
from broker.core.replication.partition import Following, Partition
from broker.core.replication.purgatory import OffsetWaiters
from broker.model.ids import Epoch, Offset, TopicPartition
from broker.model.log_errors import CorruptLog, NoDescriptorFree, ProducersUnread
from broker.runtime.ports import Log, ResponseSlot
from broker.runtime.replicas.append_policy import AppendPolicy
from broker.runtime.replicas.ports import SnapshotLog
from broker.wire.chunks import FileSlice
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import (
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    BatchHeader,
    CorruptBatch,
    iter_batches,
    read_header,
)

_REPLAY_BYTES = 1 << 20
_LOOK_BYTES = 4096
_NONE: Final = ErrorCode.NONE


class EpochRun(NamedTuple):
    """Neighbouring appended batches of one leader epoch; last is inclusive."""

    epoch: Epoch
    base: Offset
    last: Offset


class PendingAppend:
    """One batch from the call that appends it until its outcome is known: `finish` is called then, once.

    error: NONE where the batch is in the log; message says more of a refusal, and malformed that the bytes are no batch
    that a producer may send. base_offset, log_start_offset and log_append_time are −1 where there is none to tell.
    """

    __slots__ = (
        "acks",
        "base_offset",
        "error",
        "finished",
        "in_turn",
        "last_offset",
        "log_append_time",
        "log_start_offset",
        "malformed",
        "message",
        "partition",
        "replica",
        "slot",
        "timeout_ms",
        "waits",
    )

    def __init__(self, partition: tuple[str, int], acks: int, timeout_ms: int, slot: ResponseSlot | None) -> None:
        """slot: of the client that waits for the outcome, None where none does."""
        self.partition = partition
        self.acks = acks
        self.timeout_ms = max(0, timeout_ms)
        self.slot = slot
        self.replica: Replica | None = None
        """Where the batch is, None when it was refused."""
        self.error = _NONE
        self.message = ""
        self.malformed = False
        self.base_offset: Offset = -1
        self.last_offset: Offset = -1
        self.log_start_offset: Offset = -1
        self.log_append_time = -1
        self.waits = False
        """For the watermark, by acks=all."""
        self.in_turn = True
        """The turn in which it was appended has not ended."""
        self.finished = False

    def finish(self) -> None:
        """The outcome is known. Subclasses hand it to who appended."""
        raise NotImplementedError

    def refuse(self, error: ErrorCode, message: str) -> None:
        """The batch is not appended."""
        self.error = error
        self.message = message

    def refuse_malformed(self, error: ErrorCode, message: str) -> None:
        """The bytes are no batch that a producer may send."""
        self.malformed = True
        self.refuse(error, message)

    def fail(self, error: ErrorCode) -> None:
        """The batch was staged, and this replica will not confirm it."""
        self.error = error
        self.base_offset = self.log_start_offset = -1


class Replica:
    """One partition's replica. `topic_partition` is also the key by which requests find it."""

    __slots__ = (
        "ack_waits",
        "append_policy",
        "compacted",
        "damaged",
        "deletes_records",
        "dirty",
        "group_commit",
        "log",
        "max_batch_bytes",
        "min_insync_replicas",
        "name",
        "offline",
        "partition",
        "producers",
        "served",
        "topic_partition",
        "unclean",
    )

    def __init__(self, broker_id: int, log: Log, high_watermark: Offset) -> None:
        """high_watermark: as checkpointed; what lies outside the log is clamped into it."""
        self.topic_partition: TopicPartition = log.topic_partition
        self.name = str(log.topic_partition)
        self.log = log
        clamped = max(log.log_start_offset, min(high_watermark, log.leo))
        self.partition = Partition(broker_id, clamped, log.latest_epoch)
        self.producers = ProducerStates()
        self.ack_waits: OffsetWaiters[PendingAppend] = OffsetWaiters()
        self.dirty = False
        self.offline = False
        self.damaged = False
        """Offline because of its own bytes; its log dir works."""
        self.served: dict[int, Offset] = {}
        """Where the last records began that each follower got."""
        self.min_insync_replicas = 1
        self.max_batch_bytes = 1 << 20
        self.unclean = False
        self.append_policy: AppendPolicy | None = None
        """What is done to produced batches that are not stored as they were sent."""
        self.compacted = False
        """Records need keys: cleanup.policy names compact."""
        self.deletes_records = True
        """cleanup.policy names delete."""
        self.group_commit = False
        """Only what is on disk counts as replicated."""

    @property
    def topic_id(self) -> str:
        return self.log.topic_id

    @property
    def leader(self) -> Leader | None:
        """The leader role, if this replica has it."""
        role = self.partition.role
        return role if isinstance(role, Leader) else None

    @property
    def following(self) -> Following | None:
        """The role of a follower, None in any other."""
        role = self.partition.role
        return role if isinstance(role, Following) else None

    @property
    def high_watermark(self) -> Offset:
        return self.partition.high_watermark

    @property
    def replicated_leo(self) -> Offset:
        """The end that counts for others: what a follower reports and a leader takes for its own part of HW.

        Written; with group commit, flushed.
        """
        return self.log.recovery_point if self.group_commit else self.log.written_leo

    @property
    def last_stable_offset(self) -> Offset:
        """HW: no transaction is ever open, they are refused."""
        return self.partition.high_watermark

    def take_producers(self, headers: Iterable[BatchHeader], now_ms: float) -> list[EpochRun]:
        """Note the idempotent producers of replicated batches; the runs of epochs, for the event log."""
        runs: list[EpochRun] = []
        producers = self.producers
        epoch: Epoch | None = None
        base = last = 0
        for header in headers:
            if header.producer_id >= 0 and not header.is_control:
                producers.append(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_sequence,
                    header.base_offset,
                    header.last_offset,
                    now_ms,
                )
            if header.partition_leader_epoch != epoch:
                if epoch is not None:
                    runs.append(EpochRun(epoch, base, last))
                epoch = header.partition_leader_epoch
                base = header.base_offset
            last = header.base_offset + header.last_offset_delta
        if epoch is not None:
            runs.append(EpochRun(epoch, base, last))
        return runs

    def cut_producers(self, now_ms: float) -> None:
        """The log was cut: forget what went. Reading the log for it would stand everything else still."""
        if not self.producers.cut(self.log.written_leo):
            self.restore_producers(now_ms)

    def restore_producers(self, now_ms: float) -> None:
        """Rebuild the producers' state: newest snapshot that is not damaged, then batch headers.

        Raises LogDirFailed, CorruptLog, ProducersUnread: the state is in part then, and the replica has to go offline.
        """
        try:
            self._replay_producers(now_ms)
        except CorruptBatch as damage:
            raise CorruptLog(self.topic_partition, "reading its producers", str(damage)) from damage
        except NoDescriptorFree as error:
            raise ProducersUnread(self.topic_partition, "reading its producers", str(error)) from error

    def _replay_producers(self, now_ms: float) -> None:
        log = self.log
        position = log.log_start_offset
        self.producers.clear(position)
        if isinstance(log, SnapshotLog):
            kept = log.latest_producer_snapshot(log.written_leo)
            while kept is not None and kept[0] >= position:
                entries = producer_snapshot.decode(kept[1])
                if entries is not None:
                    position = kept[0]
                    wall_ms = _wall_ms()
                    for known in entries:
                        seen_ms = now_ms - max(0, wall_ms - known.seen_ms)
                        self.producers.restore(known.producer_id, known.epoch, known.batch, seen_ms)
                    break
                kept = log.latest_producer_snapshot(kept[0] - 1)
        end = log.written_leo
        while position < end:
            view = log.read_bytes(position, _REPLAY_BYTES, end, True)
            if not view:
                break
            runs = self.take_producers([header for _, header in iter_batches(view, verify_crc=False)], now_ms)
            if not runs or runs[-1].last < position:
                break
            position = runs[-1].last + 1

    def watch_rolls(self, now_ms: Callable[[], float]) -> None:
        """Leave a snapshot where each segment ends."""
        if isinstance(self.log, SnapshotLog):
            self.log.snapshot_at_roll = lambda _: self._snapshot(now_ms())

    def snapshot_producers(self, now_ms: float) -> None:
        """Leave a snapshot at the log's end, for a quick start. Raises LogDirFailed."""
        log = self.log
        if isinstance(log, SnapshotLog):
            content = self._snapshot(now_ms)
            if content is not None:
                log.write_producer_snapshot(log.written_leo, content)

    def _snapshot(self, now_ms: float) -> bytes | None:
        # An empty one is worth writing too: it says that nothing before this offset has to be read.
        return producer_snapshot.encode(self.producers, _wall_ms(), now_ms)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def end_offset_of(chunk: bytes | bytearray | memoryview | FileSlice) -> Offset:
    """Next offset after the last batch of a non-empty chunk of whole batches. Of a file little but headers is read.

    Raises CorruptBatch where these are no batches, one behind the other, any more; OSError.
    """
    if isinstance(chunk, FileSlice):
        return _end_offset_in_file(*chunk)
    view = memoryview(chunk)
    position, end = 0, -1
    while position < len(view):
        header = read_header(view, position)
        end = header.last_offset + 1
        position += header.size
    return end


def _end_offset_in_file(fd: int, start: int, length: int) -> Offset:
    position, stop, end = start, start + length, -1
    block, block_at = b"", start
    while position < stop:
        if position + HEADER_SIZE > block_at + len(block):
            block, block_at = os.pread(fd, min(_LOOK_BYTES, stop - position), position), position
            if len(block) < HEADER_SIZE:
                raise CorruptBatch(position - start, f"{len(block)} bytes of the file are left")
        values = HEADER.unpack_from(block, position - block_at)
        base, size, delta = values[0], values[1] + LENGTH_PREFIX_SIZE, values[6]
        if size < HEADER_SIZE or position + size > stop or delta < 0 or base < max(end, 0):
            raise CorruptBatch(position - start, f"base offset {base}, {delta} more, {size} bytes: no such batch")
        end = base + delta + 1
        position += size
    return end
