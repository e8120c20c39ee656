"""What a channel makes of a broker's answers."""

from __future__ import annotations

import contextlib

import pytest

from broker.core.controller.cluster_state import Broker, BrokerEndpoint, ClusterState, LeaderAndIsr, Topic
from broker.core.controller.elr import ReplicaReport
from broker.model.ids import TopicPartition
from broker.runtime.controller.channel_manager import QUEUE_MAX, ControllerChannels, Reports
from broker.runtime.controller.request_batch import (
    UPDATE_METADATA_VERSION,
    Outgoing,
    RequestBatch,
)
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from broker.wire.messages.replica_report import ReplicaReportResponse, ReportedEpoch, ReportedPartition
from broker.wire.messages.stop_replica import StopReplicaResponse
from broker.wire.messages.update_metadata import UpdateMetadataRequest
from tests.support.fake_loop import FakeLoop
from tests.support.fake_peer import HeldPeer
from tests.support.memory_node import TOPIC, TOPIC_ID

pytestmark = pytest.mark.guarantee("bounded-queues")

BROKER = Broker(1, 7, (BrokerEndpoint("PLAINTEXT", "h", 1, "PLAINTEXT"),))


class Heard(Reports):
    def __init__(self) -> None:
        self.failed: list[tuple[str, int]] = []
        self.deleted: list[tuple[str, int]] = []
        self.refused: list[tuple[str, int, int]] = []
        self.reported: list[tuple[dict[TopicPartition, ReplicaReport], dict[TopicPartition, int]]] = []

    def replicas_reported(
        self,
        broker: int,
        broker_epoch: int,
        reports: dict[TopicPartition, ReplicaReport],
        request_epochs: dict[TopicPartition, int],
    ) -> None:
        assert (broker, broker_epoch) == (1, 7)
        self.reported.append((reports, request_epochs))

    def replicas_deleted(self, broker: int, deleted: list[tuple[str, int]]) -> None:
        assert broker == 1
        self.deleted += deleted

    def replicas_failed(self, broker: int, broker_epoch: int, failed: list[tuple[str, int]]) -> None:
        assert (broker, broker_epoch) == (1, 7)
        self.failed += failed

    def epochs_refused(self, broker: int, broker_epoch: int, refused: list[tuple[str, int, int]]) -> None:
        assert (broker, broker_epoch) == (1, 7)
        self.refused += refused


def _state(leaders: dict[int, int]) -> ClusterState:
    return ClusterState(
        brokers={1: BROKER},
        topics={TOPIC: Topic(TOPIC, TOPIC_ID, dict.fromkeys(leaders, (1, 2)))},
        states={TopicPartition(TOPIC, i): LeaderAndIsr(leader, 4, (1, 2), 1, 3) for i, leader in leaders.items()},
    )


def _encoded(leaders: dict[int, int]) -> list[Outgoing]:
    """What tells broker 1 of these partitions' leaders, in leader epoch 4."""
    batch = RequestBatch(9, 1)
    for index in leaders:
        batch.roles((1,), TopicPartition(TOPIC, index))
    return batch.encode(_state(leaders))


@pytest.mark.parametrize("started", [False, True])
def test_leader_gets_its_epoch_first_and_a_started_broker_everything(started: bool) -> None:
    partition = TopicPartition(TOPIC, 0)
    batch = RequestBatch(9, 1, addresses_first=started)
    batch.roles((1,), partition)
    batch.metadata((1,), [partition])
    said: list[int | str] = []
    for request in batch.encode(_state({0: 1})):
        if request.api_key == ApiKey.UPDATE_METADATA:
            update = UpdateMetadataRequest.decode(UPDATE_METADATA_VERSION, memoryview(request.body))
            said.append(sum(len(topic.partition_states) for topic in update.topic_states))
            assert [(broker.id, broker.broker_epoch) for broker in update.live_brokers] == [(1, 7)]
        else:
            said.append(ApiKey(request.api_key).name)
    assert said == ([1, "LEADER_AND_ISR"] if started else ["LEADER_AND_ISR", 1])


def heard_after(errors: dict[int, ErrorCode], leaders: dict[int, int]) -> Heard:
    """A channel tells broker 1 of these partitions' leaders, in leader epoch 4, and gets these answers."""
    peer, heard = HeldPeer(), Heard()
    channels = ControllerChannels(FakeLoop(), lambda broker: peer, 1000, heard)
    channels.set_brokers([BROKER])
    channels.send(_encoded(leaders))
    partition_errors = [LeaderAndIsrPartitionError("", index, error) for index, error in errors.items()]
    response = LeaderAndIsrResponse(0, [], [LeaderAndIsrTopicError(TOPIC_ID, partition_errors)])
    peer.sent[-1].respond(response)
    return heard


def test_epoch_that_a_broker_refuses_is_reported_as_it_was_sent() -> None:
    fenced = ErrorCode.FENCED_LEADER_EPOCH
    heard = heard_after(
        {0: fenced, 1: fenced, 2: ErrorCode.STALE_CONTROLLER_EPOCH, 3: ErrorCode.NONE}, {0: 1, 1: 2, 2: 1, 3: 1}
    )
    assert heard.refused == [(TOPIC_ID, 0, 4), (TOPIC_ID, 1, 4)]
    assert heard.failed == []


def test_partition_that_a_broker_cannot_take_up_is_reported_as_failed() -> None:
    heard = heard_after({0: ErrorCode.UNKNOWN_SERVER_ERROR, 1: ErrorCode.KAFKA_STORAGE_ERROR}, {0: 1, 1: 2})
    assert heard.failed == [(TOPIC_ID, 0), (TOPIC_ID, 1)]


def test_deletion_is_reported_for_the_topic_id_that_was_requested() -> None:
    state = _state({0: 1, 1: 1})
    batch = RequestBatch(9, 1)
    for index in (0, 1):
        batch.stop_replica(1, TopicPartition(TOPIC, index), delete=True)
    peer, heard = HeldPeer(), Heard()
    channels = ControllerChannels(FakeLoop(), lambda broker: peer, 1000, heard)
    channels.set_brokers([BROKER])
    channels.send(batch.encode(state))
    state.topics[TOPIC] = Topic(TOPIC, "another topic of that name", {0: (1, 2)})
    peer.sent[-1].respond(StopReplicaResponse(0, []))
    assert heard.deleted == [(TOPIC_ID, 0), (TOPIC_ID, 1)]


def test_report_of_a_stop_names_the_leader_epoch_of_its_request() -> None:
    partition = TopicPartition(TOPIC, 0)
    state = _state({0: -1})
    batch = RequestBatch(9, 1)
    batch.report(1, partition)
    peer, heard = HeldPeer(), Heard()
    channels = ControllerChannels(FakeLoop(), lambda broker: peer, 1000, heard)
    channels.set_brokers([BROKER])
    channels.send(batch.encode(state))
    state.states[partition] = state.states[partition].changed(1, (1,))
    epochs = [ReportedEpoch(2, 4), ReportedEpoch(3, 7)]
    reported = ReportedPartition(TOPIC, 0, 0, True, 3, 10, 4, 5, epochs, shortened=True)
    response = ReplicaReportResponse(partitions=[reported])
    peer.sent[-1].respond(response)
    expected = ReplicaReport(True, 3, 10, 4, 5, epochs=((2, 4), (3, 7)), shortened=True)
    assert heard.reported == [({partition: expected}, {partition: 4})]


def test_broker_that_takes_nothing_is_queued_for_up_to_a_bound_and_then_gets_everything_anew() -> None:
    behind: list[int] = []

    class Noting(Heard):
        def needs_everything(self, broker: int) -> None:
            behind.append(broker)

    peer = HeldPeer()
    channels = ControllerChannels(FakeLoop(), lambda broker: peer, 1000, Noting())
    channels.set_brokers([BROKER])
    (request,) = _encoded({0: 1})
    for _ in range(QUEUE_MAX):
        channels.send([request])
    assert (behind, len(peer.sent)) == ([], 1)
    channels.send([request])
    assert behind == [1]
    response = LeaderAndIsrResponse(0, [], [])
    peer.sent[-1].respond(response)
    assert len(peer.sent) == 1, "what it had not taken is not sent any more"
    channels.send([request])
    assert len(peer.sent) == 2


def test_response_that_cannot_be_taken_up_is_requested_again_and_holds_up_nothing() -> None:
    class Failing(Heard):
        def replicas_failed(self, broker: int, broker_epoch: int, failed: list[tuple[str, int]]) -> None:
            super().replicas_failed(broker, broker_epoch, failed)
            if len(self.failed) == 1:
                raise RuntimeError("nobody foresaw this")

    loop, peer, heard = FakeLoop(), HeldPeer(), Failing()
    channels = ControllerChannels(loop, lambda broker: peer, 1000, heard)
    channels.set_brokers([BROKER])
    channels.send([*_encoded({0: 1}), *_encoded({1: 1})])
    errors = [LeaderAndIsrPartitionError("", 0, ErrorCode.KAFKA_STORAGE_ERROR)]
    response = LeaderAndIsrResponse(0, [], [LeaderAndIsrTopicError(TOPIC_ID, errors)])
    # The connection outlives what a callback raises.
    with contextlib.suppress(RuntimeError):
        peer.sent[-1].respond(response)
    loop.advance(1000)
    assert [request.body for request in peer.sent] == [peer.sent[0].body] * 2
    peer.sent[-1].respond(response)
    assert heard.failed == [(TOPIC_ID, 0)] * 2
    assert len(peer.sent) == 3
    assert peer.sent[-1].body != peer.sent[0].body
