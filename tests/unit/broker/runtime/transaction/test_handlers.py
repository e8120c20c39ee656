"""Requests of transactional producers as clients send them: which partitions may be in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest

from broker.core.coordination import OFFSETS_TOPIC, TRANSACTION_TOPIC
from broker.model.ids import TopicPartition
from broker.runtime.requests.request import Request
from broker.runtime.transaction.handlers import TransactionHandlers
from broker.wire.api import ApiKey, response_header_version
from broker.wire.errors import ErrorCode
from broker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.support.group_world import answer
from tests.support.memory_node import FakeSlot
from tests.support.transaction_parts import STATE_0, FakeCluster
from tests.support.transactional_ids import P0, P1, PRODUCER

OFFSETS_0 = TopicPartition(OFFSETS_TOPIC, 0)
Errors = dict[TopicPartition, ErrorCode]


class Coordinator:
    """Takes everything, and says what it was asked for."""

    def __init__(self) -> None:
        self.added: list[Collection[TopicPartition]] = []

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        done: Callable[[ErrorCode], None],
    ) -> None:
        self.added.append(partitions)
        done(ErrorCode.NONE)

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        return dict.fromkeys(partitions, ErrorCode.NONE)


class Serving:
    def __init__(self) -> None:
        self.coordinator = Coordinator()
        cluster = FakeCluster({P0: 1, P1: 1, STATE_0: 1, OFFSETS_0: 1})
        self.handlers = TransactionHandlers(self.coordinator, cluster, None, 50)  # type: ignore[arg-type]

    def add(self, version: int, *partitions: TopicPartition, verify_only: bool = False) -> Errors:
        topics = [AddPartitionsToTxnTopic(topic, [index]) for topic, index in partitions]
        if version < 4:
            body = AddPartitionsToTxnRequest([], "tx", PRODUCER, 0, topics)
        else:
            body = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("tx", PRODUCER, 0, verify_only, topics)])
        api, slot = ApiKey.ADD_PARTITIONS_TO_TXN, FakeSlot()
        view = memoryview(bytearray(body.encode(version)))
        flexible = response_header_version(api, version) == 1
        self.handlers.handle_add_partitions(Request(api, version, 1, "client", view, slot, flexible))
        response = answer(slot, version, AddPartitionsToTxnResponse)
        results = response.results_by_topic_v3_and_below
        if version >= 4:
            results = response.results_by_transaction[0].topic_results
        return {
            TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
            for topic in results
            for each in topic.results_by_partition
        }


@pytest.fixture
def serving() -> Serving:
    return Serving()


@pytest.mark.parametrize("version", range(6))
def test_no_producer_adds_a_partition_that_coordinators_write(serving: Serving, version: int) -> None:
    """Its marker would lie among the records of which transactions are loaded."""
    refused, others = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert serving.add(version, P0, STATE_0) == {P0: others, STATE_0: refused}
    unknown = TopicPartition(TRANSACTION_TOPIC, 99)
    assert serving.add(version, P0, OFFSETS_0, unknown) == {P0: others, OFFSETS_0: refused, unknown: refused}
    assert serving.coordinator.added == []


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added_all_or_none(serving: Serving, version: int) -> None:
    unknown = TopicPartition("gone", 0)
    assert serving.add(version, P0, unknown) == {
        P0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert serving.coordinator.added == []
    assert serving.add(version, P0, P1) == {P0: ErrorCode.NONE, P1: ErrorCode.NONE}
    assert serving.coordinator.added == [{P0, P1}]


def test_leaders_ask_about_partitions_of_offsets_too(serving: Serving) -> None:
    assert serving.add(4, OFFSETS_0, verify_only=True) == {OFFSETS_0: ErrorCode.NONE}
