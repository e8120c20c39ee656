"""A controller's term: what it reads in which order, and what it tells first."""

from __future__ import annotations

import pytest

from broker.core.controller.cluster_state import Topic
from broker.model.ids import TopicPartition
from broker.runtime.controller.request_batch import (
    LEADER_AND_ISR_VERSION,
    STOP_REPLICA_VERSION,
    UPDATE_METADATA_VERSION,
    Outgoing,
)
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.controlled_shutdown import ControlledShutdownResponse
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from broker.wire.messages.stop_replica import StopReplicaRequest
from broker.wire.messages.update_metadata import UpdateMetadataRequest
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster

pytestmark = pytest.mark.guarantee("C5", "controller-writes")

NEW_ID = "B" * 21 + "A"


def cluster() -> ReassignedCluster:
    return ReassignedCluster((1, 2), 2)


def three_with_two_in_sync() -> ReassignedCluster:
    """Brokers 1, 2, 3; 1 leads; 3 is not in the ISR."""
    world = ReassignedCluster((1, 2, 3), 3)
    world.fail(3)
    world.start(3)
    assert world.data.states[PARTITION].state.isr == (1, 2)
    return world


def sent_requests(world: ReassignedCluster, leaving: int) -> list[tuple[int, str]]:
    """(broker, request) in the order in which a controlled shutdown sends them, without UpdateMetadata."""
    sent: list[Outgoing] = []
    send = world.outbox.send

    def note(requests: list[Outgoing]) -> None:
        sent.extend(requests)
        send(requests)

    world.outbox.send = note  # type: ignore[method-assign]
    epoch = world.nodes[leaving].epoch
    for node in world.nodes.values():
        node.queue.clear()
    world.step(lambda: world.term.shutting_down_brokers.controlled_shutdown(leaving, epoch))
    return [(one.broker, ApiKey(one.api_key).name) for one in sent if one.api_key != ApiKey.UPDATE_METADATA]


def led_by(world: ReassignedCluster, broker: int) -> dict[str, int]:
    """Leaders by topic, as this broker's LeaderAndIsr names them."""
    return {topic: state.leader for topic, state in world.nodes[broker].roles_told()}


def stopped(world: ReassignedCluster, broker: int) -> list[str]:
    return [
        topic.topic_name
        for request in world.nodes[broker].queue
        if request.api_key == ApiKey.STOP_REPLICA
        for topic in StopReplicaRequest.decode(STOP_REPLICA_VERSION, request.body).topic_states
    ]


def test_follower_that_shuts_down_is_stopped_before_its_leader_learns_that_and_gets_nothing_else() -> None:
    world = three_with_two_in_sync()
    assert sent_requests(world, 2) == [(2, "STOP_REPLICA"), (1, "LEADER_AND_ISR"), (3, "LEADER_AND_ISR")]
    assert world.data.states[PARTITION].state.isr == (1,)
    assert stopped(world, 2) == ["t"]


def test_leaving_leader_is_stopped_and_not_made_a_follower_of_the_next() -> None:
    world = three_with_two_in_sync()
    assert sent_requests(world, 1) == [(1, "STOP_REPLICA"), (2, "LEADER_AND_ISR"), (3, "LEADER_AND_ISR")]
    state = world.data.states[PARTITION].state
    assert (state.leader, state.isr) == (2, (2,))
    assert stopped(world, 1) == ["t"]


def test_leaving_leader_that_nobody_can_follow_leads_on() -> None:
    world = cluster()
    world.data.topics["alone"] = (Topic("alone", NEW_ID, {0: (1,)}), 0)
    world.step(world.term.topics_changed)
    world.fail(2)
    assert sent_requests(world, 1) == []
    assert world.data.states[PARTITION].state.leader == 1


def test_broker_that_comes_back_after_it_left_follows_again() -> None:
    world = three_with_two_in_sync()
    sent_requests(world, 2)
    world.fail(2)
    world.start(2)
    assert led_by(world, 2) == {"t": 1}


def test_broker_that_leaves_is_not_made_a_follower_by_a_controller_that_reads_everything_anew() -> None:
    world = three_with_two_in_sync()
    sent_requests(world, 2)
    for node in world.nodes.values():
        node.queue.clear()
    world.step(world.term.load)
    assert led_by(world, 2) == {}
    assert led_by(world, 3) == {"t": 1}


def test_deletion_that_is_seen_before_its_topic_is_carried_out() -> None:
    world = cluster()
    world.data.topics["new"] = (Topic("new", NEW_ID, {0: (1,)}), 0)
    world.data.deletions.add("new")
    world.step(world.term.deletions_changed)
    assert world.data.deletions == {"new"}
    assert stopped(world, 1) == ["new"]


def test_deletion_requested_while_a_new_controller_reads_is_carried_out() -> None:
    world = cluster()
    read_names = world.store.topic_names

    def names_and_then_another(watch: object) -> frozenset[str]:
        found = frozenset(read_names(None))
        world.data.topics["new"] = (Topic("new", NEW_ID, {0: (1,)}), 0)
        world.data.deletions.add("new")
        return found

    world.store.topic_names = names_and_then_another  # type: ignore[method-assign]
    world.term.load()
    world.store.topic_names = read_names  # type: ignore[method-assign]
    assert world.data.deletions == {"new"}


def test_deletion_of_a_topic_that_is_not_there_is_dropped() -> None:
    world = cluster()
    world.data.deletions.add("nothing")
    world.step(world.term.deletions_changed)
    assert world.data.deletions == set()


def test_deletion_that_is_not_enabled_costs_a_new_controller_nothing_of_the_topic() -> None:
    """Asked for by a tool, while nobody was controller: the request is dropped, and the topic lives."""
    world = three_with_two_in_sync()
    world.term._deletion.enabled = False
    world.data.deletions.add("t")
    for node in world.nodes.values():
        node.queue.clear()
    world.step(world.term.load)
    assert world.data.deletions == set()
    assert led_by(world, 2) == {"t": 1}
    assert set(_leaders_in_metadata(world, 2)) == {1}


def _leaders_in_metadata(world: ReassignedCluster, broker: int) -> list[int]:
    return [
        state.leader
        for request in world.nodes[broker].queue
        if request.api_key == ApiKey.UPDATE_METADATA
        for topic in UpdateMetadataRequest.decode(UPDATE_METADATA_VERSION, request.body).topic_states
        for state in topic.partition_states
    ]


def test_leader_whose_topics_deletion_waits_for_a_dead_broker_may_stop() -> None:
    world = ReassignedCluster((1, 2, 3), 3)
    world.fail(3)
    world.data.deletions.add("t")
    world.step(world.term.deletions_changed)
    for broker in (1, 2):
        while world.deliver(broker):
            pass
        assert world.nodes[broker].log is None
    answer = world.step(lambda: world.term.shutting_down_brokers.controlled_shutdown(1, world.nodes[1].epoch))
    assert isinstance(answer, ControlledShutdownResponse)
    assert world.data.deletions == {"t"}
    assert (answer.error_code, answer.remaining_partitions) == (ErrorCode.NONE, [])


def test_replica_whose_first_state_is_decided_as_its_broker_starts_is_sent_as_new() -> None:
    world = cluster()
    world.fail(1)
    world.data.topics["new"] = (Topic("new", NEW_ID, {0: (1,)}), 0)
    world.step(world.term.topics_changed)
    world.start(1)
    states = [
        (topic.topic_name, state.is_new)
        for request in world.nodes[1].queue
        if request.api_key == ApiKey.LEADER_AND_ISR
        for topic in LeaderAndIsrRequest.decode(LEADER_AND_ISR_VERSION, request.body).topic_states
        for state in topic.partition_states
    ]
    assert ("new", True) in states
    assert ("t", True) not in states


def test_successor_counts_a_broker_that_leaves_as_leaving_until_its_registration_ends() -> None:
    world = ReassignedCluster((1, 2, 3), 3)
    world.step(lambda: world.term.shutting_down_brokers.controlled_shutdown(1, world.nodes[1].epoch))
    world._elect()
    world.data.topics["u"] = (Topic("u", NEW_ID, {0: (1, 2, 3)}), 0)
    world.step(world.term.topics_changed)
    state = world.data.states[TopicPartition("u", 0)].state
    assert (state.leader, state.isr) == (2, (2, 3))
    world.fail(1)
    world.start(1)
    world._elect()
    assert world.term.state.shutting_down == set()
    assert world.data.shutting_down == set()
