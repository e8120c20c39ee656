"""What a fetch response holds: every partition of a session read within the request's limits, and whether it is enough.

Source: ReplicaManager.readFromLog, DelayedFetch.tryComplete.
"""

from __future__ import annotations

from broker.core.replication.leader import Leader
from broker.model.ids import Offset
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.event_log import EventLog
from broker.runtime.fetch.partition_reader import PartitionReader
from broker.runtime.fetch.sessions import FetchWait, SessionKey, SessionPartition
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.wire.chunks import chunk_length
from broker.wire.errors import ErrorCode
from broker.wire.isolation import READ_COMMITTED
from broker.wire.messages.fetch import FetchPartitionResult
from broker.wire.record_batch import CorruptBatch


class ResponseReader:
    """Reads what waits for a response. Takes replicas offline whose bytes turn out to be damaged."""

    def __init__(self, replicas: Replicas, event_log: EventLog | None, reader: PartitionReader) -> None:
        self._replicas = replicas
        self._event_log = event_log
        self._reader = reader

    def read(self, wait: FetchWait) -> tuple[list[tuple[SessionKey, FetchPartitionResult]], bool]:
        """(what a response would hold now, whether that is enough not to wait)."""
        results: list[tuple[SessionKey, FetchPartitionResult]] = []
        bytes_left = wait.max_bytes
        total = 0
        urgent = False
        read = self._reader.read
        session = wait.session
        for key, part in list((session.partitions if wait.full else session.changed).items()):
            result = read(wait.body, part, wait.full, bytes_left, total == 0, wait.any_replica, wait.rack)
            if result is None:
                if part.at_end:
                    session.changed.pop(key, None)
                continue
            if result.records:
                length = chunk_length(result.records[0])
                total += length
                bytes_left -= length
            elif result.error:
                # A follower that has been sent this error, and names the partition no more, would get responses without
                # end.
                urgent = urgent or session.follower_id < 0 or result.error != part.error_sent
            elif result.diverging_epoch >= 0 or result.preferred_read_replica >= 0:
                urgent = True
            results.append((key, result))
        if not urgent and 0 < total < wait.body.min_bytes:
            urgent = self._more_follows(wait, results)
        return results, urgent or total >= wait.body.min_bytes

    def _more_follows(self, wait: FetchWait, results: list[tuple[SessionKey, FetchPartitionResult]]) -> bool:
        """Whether a read stopped (a segment's end, a size limit) short of what may be read: waiting adds nothing.

        Bytes that are damaged by now become an error among the results, for which no fetch waits either.
        """
        session = wait.session
        for place, (key, result) in enumerate(results):
            part = session.partitions[key]
            replica = part.replica
            if not result.records or replica is None:
                continue
            if session.follower_id >= 0:
                limit = replica.log.log_end_offset
            elif wait.body.isolation_level == READ_COMMITTED:
                limit = result.last_stable_offset
            else:
                limit = result.high_watermark
            end = self._end_of(replica, result)
            if end is None:
                results[place] = (key, self._reader.error(part, ErrorCode.KAFKA_STORAGE_ERROR))
                return True
            if end < limit:
                return True
        return False

    def _end_of(self, replica: Replica, result: FetchPartitionResult) -> Offset | None:
        """Where what was read ends. None, and the replica offline, where its bytes were damaged since."""
        failure: CorruptLog | LogDirFailed
        try:
            end = replica.log.end_offset_of(result.records[0])
            if end > replica.log.log_end_offset:
                raise CorruptBatch(0, f"what follows ends at offset {end}, the log at {replica.log.log_end_offset}")
            return end
        except CorruptBatch as damage:
            failure = CorruptLog(replica.topic_partition, "a read", str(damage))
        except OSError as error:
            failure = replica.log.read_failed(error)
        self._replicas.take_offline(replica, failure)
        return None

    def log_visible(self, part: SessionPartition, result: FetchPartitionResult) -> bool:
        """False where the answer's bytes are damaged."""
        log = self._event_log
        replica = part.replica
        if log is None or replica is None:
            return True
        upto = self._end_of(replica, result)
        if upto is None:
            return False
        log.emit(
            "visible",
            p=replica.event_name,
            le=replica.partition.leader_epoch,
            kind="fetch" if isinstance(replica.partition.role, Leader) else "follower-fetch",
            upto=upto,
            hw=replica.high_watermark,
        )
        return True
