"""ListOffsets and OffsetForLeaderEpoch: where a log begins, ends, was at a time, and where an epoch ended.

For a consumer the end is the watermark, or the last stable offset where it wants committed transactions only, and an
error while a new leader's watermark has not reached the start of its epoch: an end given then could lie below one given
before. For a follower the end is the LEO.
Source: Partition.fetchOffsetForTimestamp, lastOffsetForLeaderEpoch; KIP-207 (error 78), KIP-320.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.core.replication.fencing import check_current_leader_epoch
from broker.core.replication.leader import Leader
from broker.model.ids import Offset
from broker.model.log_errors import CorruptLog, LogDirFailed, NoDescriptorFree
from broker.runtime.event_log import EventLog
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.isolation import READ_COMMITTED
from broker.wire.list_offsets_timestamps import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from broker.wire.record_batch import HEADER_SIZE, CorruptBatch, read_header

_EPOCH_FROM = 4
_OFFSET_NOT_AVAILABLE_FROM = 5
_TIMESTAMPS_FROM = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""Timestamps with a meaning of their own, and the first version in which they have it."""


class _Led(NamedTuple):
    """Error, or a replica that this broker leads and its role."""

    error: ErrorCode
    replica: Replica | None = None
    role: Leader | None = None


def _behind_gap(replica: Replica, end_offset: Offset) -> Offset:
    """Where the next epoch's records begin: for a consumer whose position is in the gap before them nothing was
    truncated.
    """
    log = replica.log
    if not log.log_start_offset <= end_offset < log.log_end_offset:
        return end_offset
    try:
        view = log.read_bytes(end_offset, HEADER_SIZE, log.log_end_offset, True)
        return max(end_offset, read_header(view).base_offset) if view else end_offset
    except CorruptBatch as damage:
        raise CorruptLog(replica.topic_partition, "reading where an epoch ends", str(damage)) from damage


class OffsetsHandler:
    """Both APIs, answered at once."""

    def __init__(self, replicas: Replicas, event_log: EventLog | None) -> None:
        self._replicas = replicas
        self._event_log = event_log

    def handle_list_offsets(self, request: Request) -> None:
        """Respond at once: per partition an offset by timestamp, LATEST or EARLIEST, or an error."""
        body = decode_or_refuse(request, ListOffsetsRequest)
        if body is None:
            return
        follower = body.replica_id >= 0
        committed = body.isolation_level == READ_COMMITTED
        topics = [
            ListOffsetsTopicResponse(
                topic.name,
                [self._list_one(request.api_version, topic.name, one, follower, committed) for one in topic.partitions],
            )
            for topic in body.topics
        ]
        if request.api_version < _EPOCH_FROM:
            # Older answers have no room for it.
            for topic in topics:
                for one in topic.partitions:
                    one.leader_epoch = -1
        respond(request, ListOffsetsResponse(0, topics).encode(request.api_version))

    def _list_one(
        self, version: int, topic: str, requested: ListOffsetsPartition, follower: bool, committed: bool
    ) -> ListOffsetsPartitionResponse:
        index = requested.partition_index
        error, replica, role = self._led(topic, index, requested.current_leader_epoch)
        if replica is None or role is None:
            return ListOffsetsPartitionResponse(index, error)
        log = replica.log
        not_available = ListOffsetsPartitionResponse(
            index,
            ErrorCode.OFFSET_NOT_AVAILABLE if version >= _OFFSET_NOT_AVAILABLE_FROM else ErrorCode.LEADER_NOT_AVAILABLE,
        )
        epoch = role.leader_epoch
        if follower:
            limit = log.log_end_offset
        else:
            limit = replica.last_stable_offset if committed else role.high_watermark
        if requested.timestamp == LATEST:
            if not follower:
                if not role.offsets_available:
                    return not_available
                self._log_visible(replica, role, limit)
            return ListOffsetsPartitionResponse(index, 0, -1, limit, epoch)
        if requested.timestamp < 0 and version < _TIMESTAMPS_FROM.get(requested.timestamp, version + 1):
            return ListOffsetsPartitionResponse(index, ErrorCode.UNSUPPORTED_VERSION)
        if requested.timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = log.log_start_offset
            return ListOffsetsPartitionResponse(index, 0, -1, start, log.epoch_at(start))
        if requested.timestamp == LATEST_TIERED:  # nothing is in remote storage
            return ListOffsetsPartitionResponse(index, 0, -1, -1, -1)
        newest = requested.timestamp == MAX_TIMESTAMP
        try:
            found = log.offset_for_timestamp(log.newest_timestamp() if newest else requested.timestamp, limit)
        except NoDescriptorFree:
            return ListOffsetsPartitionResponse(index, ErrorCode.KAFKA_STORAGE_ERROR)
        except (LogDirFailed, CorruptLog) as failure:
            self._replicas.take_offline(replica, failure)
            return ListOffsetsPartitionResponse(index, ErrorCode.KAFKA_STORAGE_ERROR)
        if found is None:
            if not follower and not role.offsets_available:
                return not_available
            return ListOffsetsPartitionResponse(index, 0, -1, -1, -1)
        timestamp, offset, found_epoch = found
        if not follower:
            self._log_visible(replica, role, offset + 1)
        return ListOffsetsPartitionResponse(index, 0, timestamp, offset, found_epoch)

    def handle_offset_for_leader_epoch(self, request: Request) -> None:
        """Respond at once: per partition (epoch, end offset), −1 and −1 where undefined (KIP-320)."""
        body = decode_or_refuse(request, OffsetForLeaderEpochRequest)
        if body is None:
            return
        topics = [
            OffsetForLeaderTopicResult(
                topic.topic, [self._epoch_end(topic.topic, one, body.replica_id >= 0) for one in topic.partitions]
            )
            for topic in body.topics
        ]
        respond(request, OffsetForLeaderEpochResponse(0, topics).encode(request.api_version))

    def _epoch_end(self, topic: str, requested: OffsetForLeaderPartition, follower: bool) -> EpochEndOffset:
        error, replica, _ = self._led(topic, requested.partition, requested.current_leader_epoch)
        if replica is None:
            return EpochEndOffset(error, requested.partition)
        epoch, end_offset = replica.log.end_offset_for_epoch(requested.leader_epoch)
        if replica.compacted and not follower:
            try:
                end_offset = _behind_gap(replica, end_offset)
            except NoDescriptorFree:
                return EpochEndOffset(ErrorCode.KAFKA_STORAGE_ERROR, requested.partition)
            except (LogDirFailed, CorruptLog) as failure:
                self._replicas.take_offline(replica, failure)
                return EpochEndOffset(ErrorCode.KAFKA_STORAGE_ERROR, requested.partition)
        return EpochEndOffset(0, requested.partition, epoch, end_offset)

    def _led(self, topic: str, partition: int, current_leader_epoch: int) -> _Led:
        replica = self._replicas.by_partition.get((topic, partition))
        if replica is None:
            return _Led(self._replicas.unhosted_error(topic, partition))
        if replica.offline:
            return _Led(ErrorCode.KAFKA_STORAGE_ERROR)
        error = check_current_leader_epoch(current_leader_epoch, replica.partition.leader_epoch)
        if error is not ErrorCode.NONE:
            return _Led(error)
        role = replica.leader
        if role is None:
            return _Led(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return _Led(ErrorCode.NONE, replica, role)

    def _log_visible(self, replica: Replica, role: Leader, upto: int) -> None:
        log = self._event_log
        if log is not None:
            log.emit(
                "visible",
                p=replica.event_name,
                le=role.leader_epoch,
                kind="list_offsets",
                upto=upto,
                hw=role.high_watermark,
            )
