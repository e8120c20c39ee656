"""Questions of leaders to coordinators."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from broker.model.ids import TopicPartition
from broker.runtime.transaction.verifier import CoordinatorVerifier
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.support.fake_loop import FakeLoop
from tests.support.fake_peer import HeldPeer, SentRequest
from tests.support.transaction_parts import STATE_0, FakeCluster
from tests.support.transactional_ids import P0, P1, PRODUCER


class Coordinator(HeldPeer):
    """Broker 2 as this broker's connection, and this broker's own."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[AddPartitionsToTxnRequest] = []
        self.own = ErrorCode.NONE

    def partition_of(self, transactional_id: str) -> int:
        return 0

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        return dict.fromkeys(partitions, self.own)

    def receive(self, request: SentRequest) -> None:
        assert (request.api_key, request.api_version) == (ApiKey.ADD_PARTITIONS_TO_TXN, 4)
        self.requests.append(request.decode(AddPartitionsToTxnRequest))
        super().receive(request)

    def respond(self, error: ErrorCode, whole: ErrorCode = ErrorCode.NONE) -> None:
        request = self.requests[-1]
        results = [
            AddPartitionsToTxnResult(
                transaction.transactional_id,
                [
                    AddPartitionsToTxnTopicResult(
                        topic.name, [AddPartitionsToTxnPartitionResult(index, error) for index in topic.partitions]
                    )
                    for topic in transaction.topics
                ],
            )
            for transaction in request.transactions
        ]
        response = AddPartitionsToTxnResponse(error_code=whole, results_by_transaction=results)
        self.sent.pop(0).respond(response)


class Asking:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.cluster = FakeCluster({STATE_0: 2})
        self.coordinator = Coordinator()
        self.verifier = CoordinatorVerifier(
            1, self.cluster, {2: self.coordinator}.get, self.coordinator, self.loop, 30_000
        )
        self.answers: list[tuple[str, ErrorCode]] = []

    def ask(
        self,
        name: str,
        partition: TopicPartition,
        epoch: int = 0,
        transactional_id: str = "tx",
        producer_id: int = PRODUCER,
    ) -> None:
        self.verifier.verify(
            transactional_id, producer_id, epoch, partition, lambda error: self.answers.append((name, error))
        )


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_questions_of_one_turn_are_one_request(asking: Asking) -> None:
    asking.ask("a", P0)
    asking.ask("b", P1)
    asking.ask("c", P0, transactional_id="other")
    asking.loop.run_soon()
    (request,) = asking.coordinator.requests
    assert all(transaction.verify_only for transaction in request.transactions)
    asked = [(t.transactional_id, t.topics[0].partitions) for t in request.transactions]
    assert asked == [("tx", [0, 1]), ("other", [0])]
    asking.coordinator.respond(ErrorCode.NONE)
    assert sorted(asking.answers) == [(name, ErrorCode.NONE) for name in "abc"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_errors_are_those_that_producers_know(asking: Asking, error: ErrorCode, told: ErrorCode) -> None:
    asking.ask("a", P0)
    asking.loop.run_soon()
    asking.coordinator.respond(error)
    asking.cluster.leaders[STATE_0] = 1
    asking.coordinator.own = error
    asking.ask("own", P0)
    assert asking.answers == [("a", told), ("own", told)]


def test_request_that_is_refused_as_a_whole_answers_all(asking: Asking) -> None:
    asking.ask("a", P0)
    asking.loop.run_soon()
    asking.coordinator.respond(ErrorCode.NONE, whole=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert asking.answers == [("a", ErrorCode.INVALID_TXN_STATE)]


def test_connection_that_breaks_and_garbage_are_network_errors(asking: Asking) -> None:
    asking.ask("a", P0)
    asking.loop.run_soon()
    asking.coordinator.sent.pop(0).on_failure("reset: gone")
    asking.ask("b", P0)
    asking.loop.run_soon()
    asking.coordinator.sent.pop(0).on_response(memoryview(b"\x00"))
    asking.ask("c", P0)
    asking.loop.run_soon()
    nothing = AddPartitionsToTxnResponse(results_by_transaction=[]).encode(4)
    asking.coordinator.sent.pop(0).on_response(memoryview(nothing))
    assert asking.answers == [(name, ErrorCode.NETWORK_EXCEPTION) for name in "abc"]


def test_nobody_is_asked_where_no_coordinator_is_known(asking: Asking) -> None:
    asking.cluster.leaders[STATE_0] = -1
    asking.ask("a", P0)
    asking.cluster.leaders[STATE_0] = 3
    asking.ask("b", P0)
    assert asking.answers == [(name, ErrorCode.COORDINATOR_NOT_AVAILABLE) for name in "ab"]


@pytest.mark.parametrize("epochs", [(0, 32766), (32766, 0)])
def test_question_of_another_producer_id_fences_nobody(asking: Asking, epochs: tuple[int, int]) -> None:
    """Its epochs begin anew, and nobody but the coordinator knows which id came later."""
    asking.ask("first", P0, epochs[0])
    asking.ask("second", P0, epochs[1], producer_id=PRODUCER + 1)
    assert asking.answers == [("second", ErrorCode.NETWORK_EXCEPTION)]
    asking.loop.run_soon()
    asking.coordinator.respond(ErrorCode.NONE)
    assert asking.answers[1:] == [("first", ErrorCode.NONE)]
    asking.ask("again", P0, epochs[1], producer_id=PRODUCER + 1)
    asking.loop.run_soon()
    assert [t.producer_id for t in asking.coordinator.requests[-1].transactions] == [PRODUCER + 1]


def test_question_of_a_later_epoch_fences_the_earlier_one(asking: Asking) -> None:
    asking.ask("old", P0, epoch=1)
    asking.ask("new", P0, epoch=2)
    asking.ask("older", P0, epoch=1)
    assert asking.answers == [("old", ErrorCode.INVALID_PRODUCER_EPOCH), ("older", ErrorCode.INVALID_PRODUCER_EPOCH)]
    asking.loop.run_soon()
    assert [t.producer_epoch for t in asking.coordinator.requests[0].transactions] == [2]
    asking.coordinator.respond(ErrorCode.NONE)
    assert asking.answers[-1] == ("new", ErrorCode.NONE)
