"""DeleteRecords: the leader's log start offset rises at once, the response waits until every live replica's has.

Followers learn it from their fetch responses and send their own with the next fetch. Waits end with the low watermark,
the time-out, or the role. Whole segments below go with the next retention check.
Source: ReplicaManager.deleteRecords, DelayedDeleteRecords, Partition.deleteRecordsOnLeader; KIP-107.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.core.admin import topic_names
from broker.core.replication.leader import Leader
from broker.model.ids import Offset
from broker.runtime.ports import LogStore, Loop
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.requests.deadlines import Deadlines
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, give_up, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.delete_records import (
    NO_LOW_WATERMARK,
    TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

logger = logging.getLogger(__name__)

# A crash within this time brings deleted records back where the replica is elected before it has fetched, as the only
# one of a partition always is; Kafka leaves it at the next checkpoint.
_CHECKPOINT_DELAY_MS = 1000.0


class _Pending:
    """One request. `waits`: what it still waits for. `complete`: all its partitions were looked at."""

    __slots__ = ("complete", "done", "request", "timeout_ms", "topics", "waits")

    def __init__(self, request: Request, timeout_ms: int) -> None:
        self.request = request
        self.timeout_ms = float(max(0, timeout_ms))
        self.topics: list[DeleteRecordsTopicResult] = []
        self.waits: set[int] = set()
        self.complete = False
        self.done = False


class _Wait:
    """One partition of a request, until the low watermark has reached `required`."""

    __slots__ = ("pending", "required", "result")

    def __init__(self, pending: _Pending, required: Offset, result: DeleteRecordsPartitionResult) -> None:
        self.pending = pending
        self.required = required
        self.result = result


class DeleteRecordsHandler:
    """All DeleteRecords requests of this broker, and what becomes of a risen log start."""

    def __init__(
        self, replicas: Replicas, loop: Loop, log_store: LogStore, on_log_start: Callable[[Replica], None]
    ) -> None:
        """on_log_start: called with each replica whose log begins later than before."""
        self._replicas = replicas
        self._loop = loop
        self._log_store = log_store
        self._on_log_start = on_log_start
        self._waits: dict[Replica, list[_Wait]] = {}
        self._deadlines: Deadlines[_Pending] = Deadlines(loop, self._time_out)
        self._checkpoint_due = False

    def handle(self, request: Request) -> None:
        """Raise log starts where that is allowed; the response follows when all replicas have, or the time is over."""
        body = decode_or_refuse(request, DeleteRecordsRequest)
        if body is None:
            return
        pending = _Pending(request, body.timeout_ms)
        for topic in body.topics:
            results = [self._raise(pending, topic.name, partition) for partition in topic.partitions]
            pending.topics.append(DeleteRecordsTopicResult(topic.name, results))
        pending.complete = True
        if pending.waits:
            self._deadlines.add(pending, pending.timeout_ms)
        else:
            self._respond(pending)

    def _raise(self, pending: _Pending, topic: str, requested: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        result = DeleteRecordsPartitionResult(requested.partition_index, NO_LOW_WATERMARK, ErrorCode.NONE)
        replica = self._replicas.by_partition.get((topic, requested.partition_index))
        role = replica.leader if replica is not None else None
        result.error_code = self._refusal(topic, requested, replica, role)
        if result.error_code or replica is None or role is None:
            return result
        required = role.high_watermark if requested.offset == TO_HIGH_WATERMARK else requested.offset
        if not 0 <= required <= role.high_watermark:
            result.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return result
        if replica.log.maybe_raise_log_start(required):
            logger.info("%s: records below %d are deleted on request", replica.name, required)
            self.on_raised(replica)
            if replica.leader is not role:
                # The reads that answered its followers' fetches found that the log has failed.
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                return result
        low = role.low_watermark(replica.log.log_start_offset)
        if low >= required:
            result.low_watermark = low
        else:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            self._waits.setdefault(replica, []).append(_Wait(pending, required, result))
            pending.waits.add(id(result))
        return result

    def _refusal(
        self, topic: str, requested: DeleteRecordsPartition, replica: Replica | None, role: Leader | None
    ) -> ErrorCode:
        if topic in topic_names.INTERNAL:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if replica is None:
            return self._replicas.unhosted_error(topic, requested.partition_index)
        if replica.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if role is None or self._replicas.fenced_now():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not replica.deletes_records:
            return ErrorCode.POLICY_VIOLATION
        return ErrorCode.NONE

    def on_raised(self, replica: Replica) -> None:
        """This replica's log begins later than before, by request or because its leader's does."""
        self._on_log_start(replica)
        if not self._checkpoint_due:
            self._checkpoint_due = True
            self._loop.call_later(_CHECKPOINT_DELAY_MS, self._checkpoint)

    def _checkpoint(self) -> None:
        self._checkpoint_due = False
        if not self._replicas.stopped:
            self._log_store.checkpoint_log_start_offsets()

    def on_follower(self, replica: Replica, role: Leader) -> None:
        """A follower has sent its log start, or a broker is gone: end the waits that this fulfils."""
        waits = self._waits.get(replica)
        if waits is None:
            return
        low = role.low_watermark(replica.log.log_start_offset)
        reached = [wait for wait in waits if wait.required <= low]
        self._keep(replica, [wait for wait in waits if wait.required > low])
        for wait in reached:
            self._settle(wait, ErrorCode.NONE, low)

    def fail_waits(self, replica: Replica, error: ErrorCode) -> None:
        """This replica leads no more, or its log dir is gone. What was deleted stays deleted here."""
        for wait in self._waits.pop(replica, ()):
            self._settle(wait, error, NO_LOW_WATERMARK)

    def _settle(self, wait: _Wait, error: ErrorCode, low_watermark: Offset) -> None:
        pending = wait.pending
        if pending.done:
            return
        wait.result.error_code = error
        wait.result.low_watermark = low_watermark
        pending.waits.discard(id(wait.result))
        if pending.complete and not pending.waits:
            self._deadlines.remove(pending, pending.timeout_ms)
            self._respond(pending)

    def _time_out(self, pending: _Pending) -> None:
        for replica, waits in list(self._waits.items()):
            self._keep(replica, [wait for wait in waits if wait.pending is not pending])
        self._respond(pending)

    def _keep(self, replica: Replica, waits: list[_Wait]) -> None:
        if waits:
            self._waits[replica] = waits
        else:
            self._waits.pop(replica, None)

    def _respond(self, pending: _Pending) -> None:
        pending.done = True
        version = pending.request.api_version
        try:
            respond(pending.request, DeleteRecordsResponse(0, pending.topics).encode(version))
        except Exception:
            # A follower's fetch, or the end of a role, may have called.
            logger.exception("DeleteRecords of %r failed", pending.request.client_id)
            give_up(pending.request.slot)
