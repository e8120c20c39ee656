"""One replica on this broker: its log, its role, and what waits for it.

Glue without rules: the rules are in `broker.core`. Knows no sockets and no other replica.
Source: kafka.cluster.Partition, UnifiedLog.
"""

from __future__ import annotations

from typing import Final

from broker.core.replication.leader import Leader
from broker.core.replication.partition import Following, Partition
from broker.core.replication.purgatory import OffsetWaiters
from broker.model.ids import Offset, TopicPartition
from broker.model.log_errors import LogUnread
from broker.runtime.ports import Log, ResponseSlot
from broker.runtime.replicas.append_policy import AppendPolicy
from broker.wire.errors import ErrorCode

_NONE: Final = ErrorCode.NONE


class PendingAppend:
    """One batch from the call that appends it until its outcome is known: `finish` is called then, once.

    error: NONE where the batch is in the log; message says more of a refusal, and malformed that the bytes are no batch
    that a producer may send. base_offset, log_start_offset and log_append_time are −1 where there is none to tell.
    """

    in_transaction = False
    """The request names a transactional id: its batches may be part of a transaction."""

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
        "event_name",
        "group_commit",
        "log",
        "max_batch_bytes",
        "min_insync_replicas",
        "name",
        "offline",
        "partition",
        "served",
        "topic_partition",
        "unclean",
        "unread",
    )

    def __init__(self, broker_id: int, log: Log, high_watermark: Offset) -> None:
        """high_watermark: as checkpointed; what lies outside the log is clamped into it."""
        self.topic_partition: TopicPartition = log.topic_partition
        self.name = str(log.topic_partition)
        self.event_name = self.name
        """What lines of the event log call it (EventLog.partition_name)."""
        self.log = log
        clamped = max(log.log_start_offset, min(high_watermark, log.staged_end_offset))
        self.partition = Partition(broker_id, clamped, log.latest_epoch)
        self.ack_waits: OffsetWaiters[PendingAppend] = OffsetWaiters()
        self.dirty = False
        self.offline = False
        self.damaged = False
        """Offline because of its own bytes; its log dir works."""
        self.unread: tuple[LogUnread, float] | None = None
        """Why it is offline where its log, as far as anybody knows, is sound, and since when, by the loop's clock."""
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
        return self.log.recovery_point if self.group_commit else self.log.log_end_offset

    @property
    def last_stable_offset(self) -> Offset:
        return self.log.last_stable_offset(self.partition.high_watermark)
