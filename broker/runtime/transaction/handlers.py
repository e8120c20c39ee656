"""Requests of transactional producers, of brokers that verify, and of who looks at transactions: to and from the wire.

Source: kafka.server.KafkaApis (handleInitProducerIdRequest and its neighbours).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from broker.core.admin import topic_names
from broker.core.coordination import OFFSETS_TOPIC, partition_of
from broker.core.transaction.producer_ids import claimed
from broker.core.transaction.requests import error_for
from broker.model.ids import TopicPartition
from broker.runtime.produce.producer_ids import ProducerIdHandler
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, refuse, respond
from broker.runtime.transaction.coordinator import TransactionCoordinator
from broker.runtime.transaction.ports import ClusterView
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from broker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_BATCHED_FROM: Final = 4

TopicResults = list[AddPartitionsToTxnTopicResult]


class TransactionHandlers:
    """InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        cluster: ClusterView,
        producer_ids: ProducerIdHandler,
        offsets_partitions: int,
    ) -> None:
        """offsets_partitions: of `__consumer_offsets`, while that topic is not known."""
        self._coordinator = coordinator
        self._cluster = cluster
        self._producer_ids = producer_ids
        self._offsets_partitions = offsets_partitions

    def handle_init_producer_id(self, request: Request) -> None:
        """Respond with a producer id and epoch, once they are stored where there is a transactional id."""
        body = decode_or_refuse(request, InitProducerIdRequest)
        if body is None:
            return
        version = request.api_version

        def answer(error: ErrorCode, producer_id: int, epoch: int) -> None:
            code = error_for(ApiKey.INIT_PRODUCER_ID, version, error)
            respond(request, InitProducerIdResponse(0, code, producer_id, epoch).encode(version))

        claim = claimed(body.producer_id, body.producer_epoch)
        if isinstance(claim, ErrorCode):
            answer(claim, -1, -1)
        elif body.transactional_id is None:
            self._producer_ids.respond_fresh(request)
        else:
            self._coordinator.init_producer(body.transactional_id, body.transaction_timeout_ms, claim, answer)

    # -- partitions ------------------------------------------------------------------------------------------------

    def handle_add_partitions(self, request: Request) -> None:
        """Respond once the partitions are stored in the transaction; from v4 on, for several transactions."""
        body = decode_or_refuse(request, AddPartitionsToTxnRequest)
        if body is None:
            return
        version = request.api_version
        if version >= _BATCHED_FROM:
            self._add_to_many(request, body.transactions)
            return

        def answer(results: TopicResults) -> None:
            respond(request, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results).encode(version))

        self._add(
            AddPartitionsToTxnTransaction(
                body.v3_and_below_transactional_id,
                body.v3_and_below_producer_id,
                body.v3_and_below_producer_epoch,
                False,
                body.v3_and_below_topics,
            ),
            version,
            answer,
        )

    def _add_to_many(self, request: Request, transactions: Sequence[AddPartitionsToTxnTransaction]) -> None:
        version = request.api_version
        if len({each.transactional_id for each in transactions}) < len(transactions):
            refuse(request, "AddPartitionsToTxn: a transactional id occurs twice")
            return
        results: list[AddPartitionsToTxnResult] = []

        def respond_if_all() -> None:
            if len(results) == len(transactions):
                respond(request, AddPartitionsToTxnResponse(results_by_transaction=results).encode(version))

        if not transactions:
            respond_if_all()
        for each in transactions:

            def answer(found: TopicResults, transactional_id: str = each.transactional_id) -> None:
                results.append(AddPartitionsToTxnResult(transactional_id, found))
                respond_if_all()

            self._add(each, version, answer)

    def _add(self, asked: AddPartitionsToTxnTransaction, version: int, answer: Callable[[TopicResults], None]) -> None:
        partitions = {TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partitions}
        if asked.verify_only:
            verified = self._coordinator.verify(
                asked.transactional_id, asked.producer_id, asked.producer_epoch, partitions
            )
            answer(_results(asked.topics, verified.__getitem__))
            return
        refused = {each: error for each in partitions if (error := self._refusal(each)) is not None}
        if refused:
            # All or none: those that could be are not added.
            answer(_results(asked.topics, lambda each: refused.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED)))
            return

        def done(error: ErrorCode) -> None:
            code = error_for(ApiKey.ADD_PARTITIONS_TO_TXN, version, error)
            answer(_results(asked.topics, lambda _: code))

        self._coordinator.add_partitions(
            asked.transactional_id, asked.producer_id, asked.producer_epoch, partitions, done
        )

    def _refusal(self, partition: TopicPartition) -> ErrorCode | None:
        """Why no producer may add the partition. To those of `__consumer_offsets` AddOffsetsToTxn leads alone."""
        if partition.topic in topic_names.INTERNAL:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None if self._cluster.has_partition(*partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def handle_add_offsets(self, request: Request) -> None:
        """Respond once the group's partition of `__consumer_offsets` is stored in the transaction."""
        body = decode_or_refuse(request, AddOffsetsToTxnRequest)
        if body is None:
            return
        version = request.api_version

        def done(error: ErrorCode) -> None:
            code = error_for(ApiKey.ADD_OFFSETS_TO_TXN, version, error)
            respond(request, AddOffsetsToTxnResponse(error_code=code).encode(version))

        count = self._cluster.partition_count(OFFSETS_TOPIC) or self._offsets_partitions
        offsets = TopicPartition(OFFSETS_TOPIC, partition_of(body.group_id, count))
        self._coordinator.add_partitions(body.transactional_id, body.producer_id, body.producer_epoch, [offsets], done)

    # -- the end ---------------------------------------------------------------------------------------------------

    def handle_end(self, request: Request) -> None:
        """Respond once the decision is stored; the markers follow."""
        body = decode_or_refuse(request, EndTxnRequest)
        if body is None:
            return
        version = request.api_version

        def done(error: ErrorCode) -> None:
            code = error_for(ApiKey.END_TXN, version, error)
            respond(request, EndTxnResponse(error_code=code).encode(version))

        self._coordinator.end(body.transactional_id, body.producer_id, body.producer_epoch, body.committed, done)


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], error_of: Callable[[TopicPartition], ErrorCode]
) -> TopicResults:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, error_of(TopicPartition(topic.name, index)))
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
