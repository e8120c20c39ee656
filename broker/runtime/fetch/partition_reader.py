"""One partition's part of a fetch response: fenced, checked for divergence, cut off at what the reader may see.

Followers read up to the leader's written end, consumers up to the watermark, or, where they want committed transactions
only, up to the last stable offset. A follower reads for consumers that asked it to, up to its own watermark.
Source: Partition.fetchRecords, readRecords; ReplicaManager.readFromLog.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.replication import epochs
from broker.core.replication.fencing import check_current_leader_epoch
from broker.core.replication.leader import Leader
from broker.core.replication.nearest_replica import nearest
from broker.core.replication.partition import Following
from broker.model.ids import BrokerId
from broker.model.log_errors import CorruptLog, LogDirFailed, NoDescriptorFree, OffsetOutOfRange
from broker.runtime.fetch.sessions import SessionPartition
from broker.runtime.ports import Loop
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.replicas.replication_quotas import ReplicationQuotas
from broker.wire.chunks import Chunk, chunk_length
from broker.wire.errors import ErrorCode
from broker.wire.isolation import READ_COMMITTED
from broker.wire.messages.fetch import AbortedTransaction, FetchPartitionResult, FetchRequest

_BEYOND = ErrorCode.OFFSET_OUT_OF_RANGE
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class PartitionReader:
    """Reads for fetch responses; changes nothing, but takes replicas with broken files offline."""

    def __init__(self, replicas: Replicas, loop: Loop, quotas: ReplicationQuotas) -> None:
        self._replicas = replicas
        self._loop = loop
        self._quotas = quotas

    def replica_of(self, part: SessionPartition) -> Replica | None:
        """The replica that a session's partition means, looked up once."""
        replica = part.replica
        if replica is None:
            replica = part.replica = self._replicas.by_partition.get((part.topic, part.partition))
            if replica is not None and part.topic_id and replica.topic_id != part.topic_id:
                replica = part.replica = None
        return replica

    def read(
        self,
        body: FetchRequest,
        part: SessionPartition,
        full: bool,
        bytes_left: int,
        min_one_batch: bool,
        any_replica: bool = False,
        rack: str = "",
    ) -> FetchPartitionResult | None:
        """None where an incremental response (not full) has nothing new to say. any_replica: for a consumer that may
        read from followers. rack: see FetchWait.
        """
        part.at_end = False
        replica = self.replica_of(part)
        if replica is None:
            return self.error(part, self._unhosted(part))
        if replica.offline:
            return self.error(part, ErrorCode.KAFKA_STORAGE_ERROR)
        error = check_current_leader_epoch(part.leader_epoch, replica.partition.leader_epoch)
        if error is not ErrorCode.NONE:
            return self.error(part, error)
        role = replica.partition.role
        log = replica.log
        if isinstance(role, Leader):
            high_watermark = role.high_watermark
        elif any_replica and isinstance(role, Following):
            high_watermark = replica.high_watermark
        else:
            return self.error(part, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        last_stable = log.last_stable_offset(high_watermark)
        log_start = log.log_start_offset
        offset = part.fetch_offset
        if body.replica_id >= 0:
            assert isinstance(role, Leader), "no follower reads from followers"
            error = role.check_fetch(body.replica_id, body.replica_epoch)
            if error is not ErrorCode.NONE:
                return self.error(part, error)
            limit = log.log_end_offset
            if replica.served.get(body.replica_id) == offset < limit:
                # The follower fetches again what it was sent. Its CRC check may have failed: are these still the bytes
                # that were written?
                del replica.served[body.replica_id]
                log.forget_checked()
        else:
            limit = last_stable if body.isolation_level == READ_COMMITTED else high_watermark
        if not part.checked and part.last_fetched_epoch >= 0:
            diverging = epochs.diverging_epoch(log.end_offset_for_epoch, part.last_fetched_epoch, offset)
            if diverging is not None:
                return self._diverging(part, diverging, high_watermark, last_stable, log_start)
        if offset < log_start or offset > log.staged_end_offset:
            # What a follower has not, or not yet, its leader may have.
            return self.error(part, _BEYOND if isinstance(role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if rack and isinstance(role, Leader):
            replica_there = nearest(role, rack, self._rack_of, offset)
            if replica_there is not None:
                return FetchPartitionResult(
                    part.topic,
                    part.topic_id,
                    part.partition,
                    0,
                    high_watermark,
                    last_stable,
                    log_start,
                    preferred_read_replica=replica_there,
                )
        part.at_end = offset >= limit
        records: Chunk = b""
        aborted: Sequence[AbortedTransaction] = ()
        if body.replica_id >= 0:
            throttle = self._quotas.leader
            if (
                throttle is not None
                and isinstance(role, Leader)
                and body.replica_id not in role.isr.committed
                and throttle.covers(part.topic, part.partition)
                and throttle.exceeded(self._loop.now_ms())
            ):
                limit = offset
        if offset < limit and (bytes_left > 0 or min_one_batch):
            try:
                records = log.read(offset, min(part.max_bytes, max(0, bytes_left)), limit, min_one_batch)
                if body.isolation_level == READ_COMMITTED and chunk_length(records):
                    aborted = [AbortedTransaction(*entry) for entry in log.aborted_transactions(offset, records)]
            except OffsetOutOfRange:
                return self.error(part, ErrorCode.OFFSET_OUT_OF_RANGE)
            except NoDescriptorFree:
                # Clients and followers take this error for one that passes.
                return self.error(part, ErrorCode.KAFKA_STORAGE_ERROR)
            except (LogDirFailed, CorruptLog) as failure:
                self._replicas.take_offline(replica, failure)
                return self.error(part, ErrorCode.KAFKA_STORAGE_ERROR)
        has_records = chunk_length(records) > 0
        if not (has_records or full or part.hw_sent != high_watermark or part.log_start_sent != log_start):
            return None
        return FetchPartitionResult(
            part.topic,
            part.topic_id,
            part.partition,
            0,
            high_watermark,
            last_stable,
            log_start,
            aborted if body.isolation_level == READ_COMMITTED else None,
            -1,
            (records,) if has_records else (),
        )

    def _rack_of(self, broker: BrokerId) -> str | None:
        endpoint = self._replicas.topic_configs.endpoint_of(broker)
        return None if endpoint is None else endpoint[2]

    def _diverging(
        self, part: SessionPartition, end: epochs.EpochEnd, high_watermark: int, last_stable: int, log_start: int
    ) -> FetchPartitionResult:
        if end == epochs.OUT_OF_RANGE or part.fetch_offset < log_start:
            return self.error(part, ErrorCode.OFFSET_OUT_OF_RANGE)
        return FetchPartitionResult(
            part.topic,
            part.topic_id,
            part.partition,
            0,
            high_watermark,
            last_stable,
            log_start,
            diverging_epoch=end.epoch,
            diverging_end_offset=end.end_offset,
        )

    def _unhosted(self, part: SessionPartition) -> ErrorCode:
        if part.topic_id and (not part.topic or (part.topic, part.partition) in self._replicas.by_partition):
            # A replica of that name is another topic's: it was made anew.
            return ErrorCode.UNKNOWN_TOPIC_ID
        return self._replicas.unhosted_error(part.topic, part.partition)

    def error(self, part: SessionPartition, error: ErrorCode) -> FetchPartitionResult:
        """A result without records; where the error says "not the leader" it names the leader, if that is known."""
        leader = (-1, -1)
        if error in _LEADER_ERRORS:
            leader = self._replicas.topic_configs.leader_of(part.topic, part.partition)
        return FetchPartitionResult(
            part.topic,
            part.topic_id,
            part.partition,
            error,
            current_leader_id=leader[0],
            current_leader_epoch=leader[1],
        )
