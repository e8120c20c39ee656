"""A broker whose queue was given up, and one with a new controller, forget the topics that were deleted meanwhile."""

from __future__ import annotations

import pytest

from broker.core.controller.cluster_state import Topic
from broker.model.ids import TopicPartition
from broker.runtime.controller.channel_manager import QUEUE_MAX, ControllerChannels, Reports
from broker.runtime.controller.request_batch import Outgoing
from broker.runtime.metadata.cache import MetadataCache
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.leader_and_isr import LeaderAndIsrResponse
from broker.wire.messages.stop_replica import StopReplicaResponse
from broker.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.support.fake_loop import FakeLoop
from tests.support.fake_peer import HeldPeer
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster

pytestmark = pytest.mark.guarantee("bounded-queues")

GONE = TopicPartition("gone", 0)
GONE_ID = "B" * 22


class Channel(Reports):
    """Carries the controller's requests to broker 2, which responds in answer_all."""

    def __init__(self, world: ReassignedCluster) -> None:
        node = world.nodes[2]
        self.forgotten: list[str] = []
        self.cache = MetadataCache("c", "PLAINTEXT", lambda: node.epoch, lambda topic: {}, self.forgotten.append)
        self.given_up = 0
        self._peer = HeldPeer()
        self._channels = ControllerChannels(FakeLoop(), lambda broker: self._peer, 1000, self)
        self._channels.set_brokers(list(world.data.brokers.values()))

    def attach(self, world: ReassignedCluster) -> None:
        """To the controller of the moment, which tells all of it everything."""
        world.outbox.send = lambda requests: self._carry(requests)  # type: ignore[method-assign]

    def _carry(self, requests: list[Outgoing]) -> None:
        self._channels.send([request for request in requests if request.broker == 2])

    def needs_everything(self, broker: int) -> None:
        assert broker == 2
        self.given_up += 1

    def respond_to_all(self) -> None:
        while self._peer.sent:
            request = self._peer.sent.pop(0)
            if request.api_key == ApiKey.UPDATE_METADATA:
                error = self.cache.update(request.decode(UpdateMetadataRequest))
                assert error is ErrorCode.NONE
                request.respond(UpdateMetadataResponse(error))
            elif request.api_key == ApiKey.LEADER_AND_ISR:
                request.respond(LeaderAndIsrResponse())
            else:
                request.respond(StopReplicaResponse())


def delete_gone(world: ReassignedCluster) -> None:
    """Broker 2, which has no replica of it, need not do anything for that."""
    world.data.deletions.add(GONE.topic)
    world.step(world.term.deletions_changed)
    world.step(lambda: world.term.replicas_deleted(1, [GONE]))
    assert world.step(world.term.finish_deletions) == {GONE.topic: GONE_ID}


def send_metadata(world: ReassignedCluster) -> None:
    batch = world.term._writer.new_batch()
    batch.metadata((2,))
    world.term._writer.send(batch)


def give_up(world: ReassignedCluster, channel: Channel) -> None:
    """Say so much to broker 2, which is silent, that its queue is given up; then everything."""
    while not channel.given_up:
        send_metadata(world)
    world.step(lambda: world.term.send_everything(2))


@pytest.fixture
def world() -> ReassignedCluster:
    made = ReassignedCluster((1, 2), 2)
    made.data.topics[GONE.topic] = (Topic(GONE.topic, GONE_ID, {0: (1,)}), 0)
    made.step(made.term.topics_changed)
    return made


@pytest.fixture
def channel(world: ReassignedCluster) -> Channel:
    """Broker 2 knows both topics."""
    made = Channel(world)
    made.attach(world)
    world.step(lambda: world.term.send_everything(2))
    made.respond_to_all()
    assert sorted(made.cache.topics) == ["gone", "t"]
    return made


def test_deletion_that_was_given_up_with_the_queue_reaches_the_broker(
    world: ReassignedCluster, channel: Channel
) -> None:
    send_metadata(world)
    delete_gone(world)
    give_up(world, channel)
    assert channel.given_up == 1, f"{QUEUE_MAX} words are kept"
    channel.respond_to_all()
    assert list(channel.cache.topics) == ["t"]
    assert channel.forgotten == ["gone"]


def test_topic_that_the_controller_cannot_read_is_not_taken_for_deleted(
    world: ReassignedCluster, channel: Channel
) -> None:
    world.data.garbled_topics.add(GONE.topic)
    world.step(world.term.load)
    channel.respond_to_all()
    give_up(world, channel)
    channel.respond_to_all()
    assert sorted(channel.cache.topics) == ["gone", "t"]


def test_partition_whose_state_the_controller_cannot_read_is_not_taken_for_deleted(
    world: ReassignedCluster, channel: Channel
) -> None:
    world.data.garbled.add(PARTITION)
    world.step(world.term.load)
    channel.respond_to_all()
    give_up(world, channel)
    channel.respond_to_all()
    assert sorted(channel.cache.topics) == ["gone", "t"]


def test_first_update_of_a_controller_that_finds_no_topic_is_whole(world: ReassignedCluster, channel: Channel) -> None:
    world.data.topics.clear()
    world.data.states.clear()
    sent: list[Outgoing] = []
    world._elect()
    for request in world.nodes[2].queue:
        if request.api_key == ApiKey.UPDATE_METADATA:
            channel.cache.update(UpdateMetadataRequest.decode(request.api_version, memoryview(request.body)))
            sent.append(request)
    assert sent
    assert not channel.cache.topics
