"""Markers from a coordinator to leaders: grouped, repeated until taken, and given up where another one coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from broker.core.transaction.states import TransactionState
from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.ports import Peer
from broker.runtime.transaction.marker_sender import MarkerSender
from broker.runtime.transaction.ports import MarkerOf
from broker.runtime.transaction.state import TransactionPartition
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.fake_loop import FakeLoop
from tests.support.fake_peer import HeldPeer, SentRequest
from tests.support.transaction_parts import FakeCluster
from tests.support.transactional_ids import P0, P1, PRODUCER, known

S = TransactionState
P2 = TopicPartition("u", 0)


class OtherBroker(HeldPeer):
    """Keeps the requests that it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[WriteTxnMarkersRequest] = []

    def receive(self, request: SentRequest) -> None:
        assert (request.api_key, request.api_version) == (ApiKey.WRITE_TXN_MARKERS, 1)
        self.requests.append(request.decode(WriteTxnMarkersRequest))
        super().receive(request)

    def respond(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """To the oldest, with this for every partition."""
        request = self.requests[len(self.requests) - len(self.sent)]
        markers = [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [WritableTxnMarkerPartitionResult(index, error) for index in topic.partition_indexes],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
        self.sent.pop(0).respond(WriteTxnMarkersResponse(markers))

    def fail(self) -> None:
        self.sent.pop(0).on_failure("reset: gone")


class OwnWriter:
    """This broker's leaders."""

    def __init__(self) -> None:
        self.written: list[MarkerOf] = []
        self.error = ErrorCode.NONE

    def write(self, markers: Sequence[WritableTxnMarker], done: Callable[[Mapping[MarkerOf, ErrorCode]], None]) -> None:
        found = [MarkerOf(m.producer_id, t.name, i) for m in markers for t in m.topics for i in t.partition_indexes]
        self.written += found
        done(dict.fromkeys(found, self.error))


class Sending:
    """Broker 1's sender; P0 and P1 are led by broker 2, P2 by broker 1."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.cluster = FakeCluster({P0: 2, P1: 2, P2: 1})
        self.others = {2: OtherBroker(), 3: OtherBroker()}
        self.own = OwnWriter()
        self.epoch = 4
        self.done = 0
        self.home = TransactionPartition(0, lambda home: None)
        self.sender = MarkerSender(
            1,
            self.cluster,
            self._peer,
            self.own,
            self.loop,
            lambda number: self.epoch,
            30_000,
        )

    def _peer(self, broker: BrokerId) -> Peer | None:
        return self.others.get(broker)

    def send(self, *partitions: TopicPartition, commit: bool = True, producer_id: int = PRODUCER) -> None:
        state = S.PREPARE_COMMIT if commit else S.PREPARE_ABORT
        transaction = known(state, partitions=partitions, producer_id=producer_id)
        self.sender.send(self.home, transaction, self._count)
        self.run()

    def run(self) -> None:
        while self.loop.run_soon():
            pass

    def wait(self, ms: float = 50.0) -> None:
        self.loop.advance(ms)
        self.run()

    def _count(self) -> None:
        self.done += 1


@pytest.fixture
def sending() -> Sending:
    return Sending()


def test_markers_of_one_broker_are_one_request(sending: Sending) -> None:
    sending.sender.send(sending.home, known(S.PREPARE_COMMIT, partitions=[P0, P1]), sending._count)
    sending.sender.send(sending.home, known(S.PREPARE_ABORT, partitions=[P0], producer_id=8), sending._count)
    sending.run()
    (request,) = sending.others[2].requests
    said = [
        (m.producer_id, m.producer_epoch, m.transaction_result, m.coordinator_epoch, m.topics[0].partition_indexes)
        for m in request.markers
    ]
    assert said == [(PRODUCER, 5, True, 4, [0, 1]), (8, 5, False, 4, [0])]
    sending.others[2].respond()
    assert sending.done == 2


def test_transaction_is_done_when_every_partition_has_its_marker(sending: Sending) -> None:
    sending.send(P0, P2)
    assert sending.own.written == [MarkerOf(PRODUCER, "u", 0)]
    assert sending.done == 0
    sending.others[2].respond()
    assert sending.done == 1


def test_transaction_without_partitions_is_done_at_once(sending: Sending) -> None:
    sending.send()
    assert sending.done == 1


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode(-1)],
)
def test_marker_goes_to_the_leader_of_the_hour(sending: Sending, error: ErrorCode) -> None:
    sending.send(P0)
    sending.others[2].respond(error)
    assert sending.done == 0
    sending.cluster.leaders[P0] = 3
    sending.wait()
    assert len(sending.others[3].requests) == 1
    sending.others[3].respond()
    assert sending.done == 1


def test_marker_is_sent_again_where_the_connection_breaks(sending: Sending) -> None:
    sending.send(P0)
    sending.others[2].fail()
    sending.wait()
    assert len(sending.others[2].requests) == 2
    sending.others[2].respond()
    assert sending.done == 1


def test_marker_waits_for_a_leader_and_goes_when_there_is_one(sending: Sending) -> None:
    sending.cluster.leaders[P0] = -1
    sending.send(P0)
    sending.wait(60_000)
    assert (sending.done, sending.others[2].requests) == (0, [])
    sending.cluster.leaders[P0] = 2
    sending.sender.on_metadata()
    sending.run()
    sending.others[2].respond()
    assert sending.done == 1


def test_partition_that_is_deleted_needs_no_marker(sending: Sending) -> None:
    del sending.cluster.leaders[P0]
    sending.send(P0)
    sending.wait(4900)
    assert sending.done == 0, "a new topic may be known later here"
    sending.wait(200)
    assert sending.done == 1


def test_partition_that_was_known_when_it_was_added_is_deleted_at_once(sending: Sending) -> None:
    transaction = known(S.PREPARE_COMMIT, partitions=[P0, P2])
    transaction.seen.add(P0)
    sending.sender.send(sending.home, transaction, sending._count)
    sending.run()
    sending.others[2].respond(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    sending.wait()
    assert sending.done == 0, "its leader may hear of it later"
    del sending.cluster.leaders[P0]
    sending.others[2].respond(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    sending.sender.on_metadata()
    assert sending.done == 1


def test_partition_that_is_known_late_gets_its_marker(sending: Sending) -> None:
    del sending.cluster.leaders[P0]
    sending.send(P0)
    sending.wait(3000)
    sending.cluster.leaders[P0] = 2
    sending.wait()
    sending.others[2].respond()
    assert (len(sending.others[2].requests), sending.done) == (1, 1)


def test_nothing_counts_as_deleted_before_the_first_metadata(sending: Sending) -> None:
    sending.cluster.updated = False
    del sending.cluster.leaders[P0]
    sending.send(P0)
    sending.wait(60_000)
    assert sending.done == 0


def test_own_leader_is_asked_again_later(sending: Sending) -> None:
    sending.own.error = ErrorCode.NOT_ENOUGH_REPLICAS
    sending.send(P2)
    sending.wait()
    assert len(sending.own.written) == 2
    sending.own.error = ErrorCode.NONE
    sending.wait()
    assert sending.done == 1


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_markers_end_where_another_coordinator_has_the_id(sending: Sending, error: ErrorCode) -> None:
    sending.send(P0, P1)
    sending.others[2].respond(error)
    sending.wait(60_000)
    assert (len(sending.others[2].requests), sending.done) == (1, 0)


def test_markers_end_with_the_coordinatorship(sending: Sending) -> None:
    sending.send(P0)
    sending.home.unload()
    sending.others[2].respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    sending.wait(60_000)
    assert (len(sending.others[2].requests), sending.done) == (1, 0)


def test_markers_of_a_later_leadership_have_its_epoch(sending: Sending) -> None:
    sending.send(P0)
    sending.others[2].respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    sending.epoch = 5
    sending.wait()
    assert sending.others[2].requests[-1].markers[0].coordinator_epoch == 5


def test_few_requests_are_under_way_at_once_and_none_is_lost(sending: Sending) -> None:
    for producer_id in range(20):
        sending.send(P0, producer_id=producer_id)
    assert len(sending.others[2].requests) == 5
    for _ in range(6):
        sending.others[2].respond()
        sending.run()
    assert sending.done == 20


def test_garbage_for_a_response_is_no_answer(sending: Sending) -> None:
    sending.send(P0)
    sending.others[2].sent.pop(0).on_response(memoryview(b"\x7f\xff"))
    sending.wait()
    assert len(sending.others[2].requests) == 2
