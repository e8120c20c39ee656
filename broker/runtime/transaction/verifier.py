"""Leaders' questions to coordinators: is this partition in that transaction? (KAFKA-14402)

Questions of one turn to one broker are one AddPartitionsToTxn request, which only verifies. This broker's own
coordinator answers at once. Source: kafka.server.AddPartitionsToTxnManager; KIP-890.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, Protocol

from broker.core.coordination import TRANSACTION_TOPIC
from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.ports import Loop
from broker.runtime.transaction.ports import ClusterView, Peers
from broker.runtime.transaction.state import by_topic
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.wire.primitives import MalformedFrame

logger = logging.getLogger(__name__)

_VERSION: Final = 4
OnResult = Callable[[ErrorCode], None]


class OwnCoordinator(Protocol):
    """This broker's coordinator."""

    def partition_of(self, transactional_id: str) -> int:
        """Of `__transaction_state`."""
        ...

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Of each, whether it is in the open transaction."""
        ...


class _Question:
    """About one transaction."""

    __slots__ = ("asked", "epoch", "producer_id")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.asked: dict[TopicPartition, list[OnResult]] = {}

    def answer(self, topic_partition: TopicPartition, error: ErrorCode) -> None:
        for on_result in self.asked.pop(topic_partition, ()):
            on_result(error)

    def answer_all(self, error: ErrorCode) -> None:
        for topic_partition in list(self.asked):
            self.answer(topic_partition, error)


_Questions = dict[str, _Question]
"""By transactional id, as the response names them."""


class CoordinatorVerifier:
    """Satisfies `replicas.ports.TransactionVerifier`."""

    def __init__(
        self,
        broker_id: BrokerId,
        cluster: ClusterView,
        peers: Peers,
        own: OwnCoordinator,
        loop: Loop,
        timeout_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._cluster = cluster
        self._peers = peers
        self._own = own
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._waiting: dict[BrokerId, _Questions] = {}

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        on_result: OnResult,
    ) -> None:
        """See the protocol."""
        coordinator, _ = self._cluster.leader_of(TRANSACTION_TOPIC, self._own.partition_of(transactional_id))
        if coordinator == self._broker_id:
            found = self._own.verify(transactional_id, producer_id, epoch, [partition])
            on_result(_as_producers_know(found[partition]))
            return
        if coordinator < 0 or self._peers(coordinator) is None:
            on_result(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if not self._waiting:
            self._loop.call_soon(self._send_all)
        questions = self._waiting.setdefault(coordinator, {})
        question = questions.get(transactional_id)
        if question is not None and question.producer_id != producer_id:
            # Which of the two is the newer one only the coordinator knows: this one comes again.
            on_result(ErrorCode.NETWORK_EXCEPTION)
            return
        if question is not None and question.epoch != epoch:
            if epoch < question.epoch:
                on_result(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            question.answer_all(ErrorCode.INVALID_PRODUCER_EPOCH)
            question = None
        if question is None:
            question = questions[transactional_id] = _Question(producer_id, epoch)
        question.asked.setdefault(partition, []).append(on_result)

    def _send_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for broker, questions in waiting.items():
            self._send(broker, questions)

    def _send(self, broker: BrokerId, questions: _Questions) -> None:
        peer = self._peers(broker)
        if peer is None:
            _fail(questions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id,
                question.producer_id,
                question.epoch,
                True,
                [AddPartitionsToTxnTopic(*topic) for topic in by_topic(question.asked.keys()).items()],
            )
            for transactional_id, question in questions.items()
        ]
        peer.send(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            _VERSION,
            AddPartitionsToTxnRequest(transactions=transactions).encode(_VERSION),
            partial(_on_response, questions),
            partial(_on_failure, broker, questions),
            self._timeout_ms,
        )


def _on_response(questions: _Questions, body: memoryview) -> None:
    try:
        response = AddPartitionsToTxnResponse.decode(_VERSION, body)
    except MalformedFrame as malformed:
        logger.warning("verification of transactions: %s", malformed)
        _fail(questions, ErrorCode.NETWORK_EXCEPTION)
        return
    if response.error_code:
        _fail(questions, _as_producers_know(_known(response.error_code)))
        return
    for result in response.results_by_transaction:
        question = questions.get(result.transactional_id)
        if question is None:
            continue
        for topic in result.topic_results:
            for each in topic.results_by_partition:
                error = _as_producers_know(_known(each.partition_error_code))
                question.answer(TopicPartition(topic.name, each.partition_index), error)
    _fail(questions, ErrorCode.NETWORK_EXCEPTION)  # what it said nothing of


def _on_failure(broker: BrokerId, questions: _Questions, reason: str) -> None:
    logger.info("verification of %d transactions by broker %d: %s", len(questions), broker, reason)
    _fail(questions, ErrorCode.NETWORK_EXCEPTION)


def _fail(questions: _Questions, error: ErrorCode) -> None:
    for question in questions.values():
        question.answer_all(error)


def _as_producers_know(error: ErrorCode) -> ErrorCode:
    """Errors of transaction APIs as answers to Produce and TxnOffsetCommit."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _known(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
