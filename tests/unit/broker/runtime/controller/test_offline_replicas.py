"""Replicas that failed on a live broker: they count again once they follow, though they are not in sync yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr
from broker.core.controller.elr import ReplicaReport
from broker.runtime.controller.channel_manager import ControllerChannels, Reports
from broker.runtime.controller.request_batch import Outgoing
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from tests.support.fake_loop import FakeLoop
from tests.support.fake_peer import HeldPeer
from tests.support.memory_node import TOPIC_ID
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster
from tests.support.stored_partition import cluster, stored

pytestmark = pytest.mark.guarantee("R12")

REPLICA = (TOPIC_ID, 0)


class Heard(Reports):
    """What the channel says, at the term."""

    def __init__(self, world: ReassignedCluster) -> None:
        self._world = world

    def replicas_failed(self, broker: int, broker_epoch: int, failed: list[tuple[str, int]]) -> None:
        term = self._world.term
        term.offline_replicas.failed(broker, broker_epoch, term.named(failed))

    def replicas_usable(self, broker: int, broker_epoch: int, usable: list[tuple[str, int]]) -> None:
        term = self._world.term
        term.offline_replicas.usable(broker, broker_epoch, term.named(usable))


def register(world: ReassignedCluster, id_: int) -> None:
    world._register(world.nodes[id_])
    world.data.brokers[id_] = replace(world.data.brokers[id_], reports=True)


def led_by_2(isr: tuple[int, ...] = (1, 2)) -> ReassignedCluster:
    world = cluster(LeaderAndIsr(2, 5, isr, 1, 3))
    topic, version = world.data.topics["t"]
    world.data.topics["t"] = (replace(topic, topic_id=TOPIC_ID), version)
    for id_ in world.nodes:
        register(world, id_)
    written = world.data.next_transaction()
    world.data.states[PARTITION] = world.data.states[PARTITION]._replace(written=written)
    world._elect()
    return world


def roles_for(world: ReassignedCluster, id_: int) -> Outgoing:
    """The newest LeaderAndIsr on its way to a broker."""
    return [one for one in world.nodes[id_].queue if one.api_key == ApiKey.LEADER_AND_ISR][-1]


def respond(world: ReassignedCluster, request: Outgoing, error: ErrorCode) -> None:
    """A broker's response to LeaderAndIsr, as its channel takes it."""
    peer = HeldPeer()
    channels = ControllerChannels(FakeLoop(), lambda _: peer, 1000.0, Heard(world))
    channels.set_brokers([world.data.brokers[request.broker]])
    channels.send([request])
    errors = [LeaderAndIsrTopicError(TOPIC_ID, [LeaderAndIsrPartitionError("", 0, error)])]
    peer.sent[-1].respond(LeaderAndIsrResponse(0, [], errors))


def report(world: ReassignedCluster, id_: int, end: int) -> None:
    """It stopped uncleanly, or its log was made anew."""
    node = world.nodes[id_]
    epochs = {PARTITION: world.term.state.states[PARTITION].leader_epoch}
    world.term.replicas_reported(id_, node.epoch, {PARTITION: ReplicaReport(True, 5 if end else -1, end)}, epochs)


def test_election_that_waits_for_every_replica_does_not_wait_for_one_whose_damaged_log_was_fetched_anew() -> None:
    world = led_by_2()
    respond(world, roles_for(world, 1), ErrorCode.KAFKA_STORAGE_ERROR)
    assert (stored(world).leader, stored(world).isr) == (2, (2,))
    assert roles_for(world, 1).offline == (REPLICA,)
    respond(world, roles_for(world, 1), ErrorCode.NONE)
    # Before it is in sync its leader stops, and nobody surely has every record.
    register(world, 2)
    world.term.brokers_changed()
    assert stored(world).leader == NO_LEADER
    for id_, end in ((1, 0), (3, 2), (2, 4)):
        report(world, id_, end)
    assert stored(world).leader == 2


def test_replica_that_fails_again_is_not_usable() -> None:
    world = led_by_2()
    respond(world, roles_for(world, 1), ErrorCode.KAFKA_STORAGE_ERROR)
    respond(world, roles_for(world, 1), ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.term.state.offline == {(PARTITION, 1)}


def test_replica_that_failed_as_leader_is_not_elected_because_it_can_follow_nobody() -> None:
    world = led_by_2((2,))
    respond(world, roles_for(world, 2), ErrorCode.UNKNOWN_SERVER_ERROR)
    assert stored(world).leader == NO_LEADER
    assert roles_for(world, 2).offline == ()
    respond(world, roles_for(world, 2), ErrorCode.NONE)
    assert stored(world).leader == NO_LEADER
