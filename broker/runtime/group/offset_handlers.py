"""OffsetCommit, OffsetFetch, TxnOffsetCommit and OffsetDelete, from request to reply. Loop thread.

A commit is replied to when its records are committed. Source: KafkaApis.handleOffsetCommitRequest and its like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from broker.core.coordination import OFFSETS_TOPIC
from broker.core.group.offsets import CommittedOffset, Partition
from broker.runtime.group.coordinator import GroupCoordinator
from broker.runtime.group.hosted_group import HostedGroup
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, give_up, respond
from broker.wire.coordinator_records.batches import TransactionalProducer
from broker.wire.errors import ErrorCode
from broker.wire.messages import offset_commit, offset_delete, txn_offset_commit

_NO_RETENTION: Final = -1
_ABORTABLE_FROM: Final = 4
"""Of TxnOffsetCommit: from then on clients know TRANSACTION_ABORTABLE (KIP-890)."""
_LOADING_FROM: Final = 2
"""Of TxnOffsetCommit: older producers may break off upon COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
_INT64_MAX: Final = 2**63 - 1
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

Errors = dict[Partition, ErrorCode]
R = TypeVar("R")


class TransactionVerifier(Protocol):
    """Knows whether a partition belongs to a producer's open transaction (KIP-890)."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: tuple[str, int],
        then: Callable[[ErrorCode], None],
    ) -> None:
        """then(NONE) where data of that transaction may be appended to the partition.

        TRANSACTION_ABORTABLE where the partition is not in it.
        """
        ...


class _Offset(Protocol):
    """One partition's offset in a request, whichever API's."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class _Indexed(Protocol):
    partition_index: int


class _Topic(Protocol):
    """A topic in a request, whichever API's."""

    name: str

    @property
    def partitions(self) -> Sequence[_Indexed]: ...


class OffsetHandlers:
    """See the module. OffsetFetch is in `offset_fetch`."""

    def __init__(self, coordinator: GroupCoordinator, wall_ms: Callable[[], int], verifier: TransactionVerifier | None):
        """wall_ms: ms since 1970. verifier: None where transactions are not verified."""
        self._coordinator = coordinator
        self._cache = coordinator.cache
        self._wall_ms = wall_ms
        self._verifier = verifier

    # -- OffsetCommit ----------------------------------------------------------------------------------------------

    def handle_commit(self, request: Request) -> None:
        """Respond for each partition once what can be committed is."""
        body = decode_or_refuse(request, offset_commit.OffsetCommitRequest)
        if body is None:
            return

        def reply(errors: Errors) -> None:
            topics = [
                offset_commit.OffsetCommitResponseTopic(
                    topic.name, _results(topic, errors, offset_commit.OffsetCommitResponsePartition)
                )
                for topic in body.topics
            ]
            respond(request, offset_commit.OffsetCommitResponse(topics=topics).encode(request.api_version))

        now_ms = self._wall_ms()
        expire_ms = (
            None if body.retention_time_ms == _NO_RETENTION else min(now_ms + body.retention_time_ms, _INT64_MAX)
        )
        wanted = _by_partition((topic.name, topic.partitions) for topic in body.topics)
        errors, offsets = self._sorted_out(body.group_id, wanted, now_ms, expire_ms)
        if not wanted:
            reply(errors)
            return
        generation = body.generation_id_or_member_epoch
        hosted = self._coordinator.find(body.group_id)
        if hosted is None:
            # Without generation the group only keeps offsets here; with one it is a member of a group that is gone.
            hosted = ErrorCode.ILLEGAL_GENERATION if generation >= 0 else self._coordinator.find_or_make(body.group_id)
        error = (
            hosted
            if isinstance(hosted, ErrorCode)
            else hosted.check_commit(body.member_id, generation, body.group_instance_id)
        )
        self._store(hosted, error, errors, offsets, reply, None)

    def _sorted_out(
        self, group_id: str, wanted: Mapping[Partition, _Offset], now_ms: int, expire_ms: int | None
    ) -> tuple[Errors, dict[Partition, CommittedOffset]]:
        """What is refused for its own sake, and what may be stored."""
        errors: Errors = {}
        offsets: dict[Partition, CommittedOffset] = {}
        metadata_max = self._coordinator.settings.offset_metadata_max
        being_cleared = self._coordinator.being_cleared(group_id)
        for partition, entry in wanted.items():
            metadata = entry.committed_metadata or ""
            if not self._cache.has_partition(*partition):
                errors[partition] = _UNKNOWN
            elif partition[0] in being_cleared:
                errors[partition] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            elif _utf16_units(metadata) > metadata_max:
                errors[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                offsets[partition] = CommittedOffset(
                    entry.committed_offset, entry.committed_leader_epoch, metadata, now_ms, expire_ms
                )
        return errors, offsets

    def _store(
        self,
        hosted: HostedGroup | ErrorCode,
        error: ErrorCode,
        errors: Errors,
        offsets: dict[Partition, CommittedOffset],
        reply: Callable[[Errors], None],
        producer: TransactionalProducer | None,
    ) -> None:
        """producer: whose transaction the offsets are part of."""

        def done(outcome: ErrorCode) -> None:
            reply({**errors, **dict.fromkeys(offsets, outcome)})

        if error is not ErrorCode.NONE or isinstance(hosted, ErrorCode) or not offsets:
            done(error)
            if not isinstance(hosted, ErrorCode):
                self._coordinator.forget_if_new(hosted)
        elif producer is None:
            hosted.commit(offsets, done)
        else:
            hosted.commit_transactional(producer, offsets, partial(self._in_transaction, hosted, producer, done))

    def _in_transaction(
        self,
        hosted: HostedGroup,
        producer: TransactionalProducer,
        done: Callable[[ErrorCode], None],
        outcome: ErrorCode,
    ) -> None:
        """Noted once it is so: a marker before it in the log is committed first, and ends nothing of this."""
        if outcome is ErrorCode.NONE:
            self._coordinator.note_transaction(producer.producer_id, hosted)
        done(outcome)

    # -- TxnOffsetCommit -------------------------------------------------------------------------------------------

    def handle_txn_commit(self, request: Request) -> None:
        """Respond for each partition once the offsets lie, as part of the transaction, in the log."""
        body = decode_or_refuse(request, txn_offset_commit.TxnOffsetCommitRequest)
        if body is None:
            return

        def reply(errors: Errors) -> None:
            if request.api_version < _LOADING_FROM:
                errors = {
                    partition: ErrorCode.COORDINATOR_NOT_AVAILABLE
                    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    else error
                    for partition, error in errors.items()
                }
            topics = [
                txn_offset_commit.TxnOffsetCommitResponseTopic(
                    topic.name, _results(topic, errors, txn_offset_commit.TxnOffsetCommitResponsePartition)
                )
                for topic in body.topics
            ]
            respond(request, txn_offset_commit.TxnOffsetCommitResponse(topics=topics).encode(request.api_version))

        wanted = _by_partition((topic.name, topic.partitions) for topic in body.topics)
        errors, offsets = self._sorted_out(body.group_id, wanted, self._wall_ms(), None)
        topic_ids = {topic: self._cache.topic_id(topic) for topic, _ in offsets}

        def verified(error: ErrorCode) -> None:
            try:
                store(error)
            except Exception:
                give_up(request.slot)
                raise

        def store(error: ErrorCode) -> None:
            # The answer may have come from another broker: all is looked up anew.
            for partition in [p for p in offsets if not self._is_there_still(p, topic_ids[p[0]])]:
                # The offsets of the topic have been removed, and nobody would come for one more.
                del offsets[partition]
                errors[partition] = _UNKNOWN
            if error is ErrorCode.TRANSACTION_ABORTABLE and request.api_version < _ABORTABLE_FROM:
                error = ErrorCode.INVALID_TXN_STATE
            hosted: HostedGroup | ErrorCode = error
            if error is ErrorCode.NONE:
                hosted = self._coordinator.find_or_make(body.group_id)
                if not isinstance(hosted, ErrorCode):
                    error = hosted.check_commit(
                        body.member_id, body.generation_id, body.group_instance_id, transactional=True
                    )
                else:
                    error = hosted
            self._store(
                hosted, error, errors, offsets, reply, TransactionalProducer(body.producer_id, body.producer_epoch)
            )

        found = self._coordinator.find(body.group_id) if body.group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(found, ErrorCode):
            verified(found)
        elif body.producer_id < 0:
            # No marker would ever end such a transaction.
            verified(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        elif body.producer_epoch < 0:
            verified(ErrorCode.INVALID_PRODUCER_EPOCH)
        elif self._verifier is None or not offsets:
            verified(ErrorCode.NONE)
        else:
            partition = (OFFSETS_TOPIC, self._coordinator.partition_of(body.group_id))
            self._verifier.verify(body.transactional_id, body.producer_id, body.producer_epoch, partition, verified)

    def _is_there_still(self, partition: Partition, topic_id: str) -> bool:
        return self._cache.has_partition(*partition) and self._cache.topic_id(partition[0]) == topic_id

    # -- OffsetDelete ----------------------------------------------------------------------------------------------

    def handle_delete(self, request: Request) -> None:
        """Respond for each partition once its offset is removed."""
        body = decode_or_refuse(request, offset_delete.OffsetDeleteRequest)
        if body is None:
            return
        partitions = {(topic.name, entry.partition_index): None for topic in body.topics for entry in topic.partitions}

        def reply(error: ErrorCode, errors: Mapping[Partition, ErrorCode]) -> None:
            """error: of the whole request, which then names no partitions."""
            topics = [
                offset_delete.OffsetDeleteResponseTopic(
                    topic.name, _results(topic, errors, offset_delete.OffsetDeleteResponsePartition)
                )
                for topic in (body.topics if error is ErrorCode.NONE else ())
            ]
            response = offset_delete.OffsetDeleteResponse(error_code=error, topics=topics)
            respond(request, response.encode(request.api_version))

        hosted = self._coordinator.find(body.group_id) if body.group_id else ErrorCode.INVALID_GROUP_ID
        if hosted is None:
            hosted = ErrorCode.GROUP_ID_NOT_FOUND
        if isinstance(hosted, ErrorCode):
            reply(hosted, {})
            return
        kept = hosted.topics_in_use
        if kept is None:
            reply(ErrorCode.NON_EMPTY_GROUP, {})
            return
        errors: Errors = {}
        for partition in partitions:
            if not self._cache.has_partition(*partition):
                errors[partition] = _UNKNOWN
            elif partition[0] in kept:
                errors[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        gone = [partition for partition in partitions if partition not in errors]

        def removed(error: ErrorCode) -> None:
            reply(ErrorCode.NONE, {**errors, **dict.fromkeys(gone, error)})

        recorded = hosted.offsets.recorded
        self._coordinator.remove(hosted, [partition for partition in gone if partition in recorded], removed)


def _results(topic: _Topic, errors: Mapping[Partition, ErrorCode], result: Callable[[int, int], R]) -> list[R]:
    """A topic's partitions, as requested. result: of a partition and its error."""
    return [result(entry.partition_index, errors[topic.name, entry.partition_index]) for entry in topic.partitions]


def _by_partition(topics: Iterable[tuple[str, Iterable[_Offset]]]) -> dict[Partition, _Offset]:
    """The last one of a partition counts, as its record would."""
    return {(name, entry.partition_index): entry for name, entries in topics for entry in entries}


def _utf16_units(text: str) -> int:
    """Java's length of a String."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
