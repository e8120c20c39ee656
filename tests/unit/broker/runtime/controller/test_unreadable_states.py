"""C3: a partition state that makes no sense stops nothing but its own partition."""

from __future__ import annotations

import pytest

from broker.core.controller.cluster_state import Topic
from broker.model.ids import TopicPartition
from broker.runtime.controller.request_batch import INCREMENTAL, LEADER_AND_ISR_VERSION
from broker.wire.api import ApiKey
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster
from tests.support.stored_partition import cluster, stored


def two_topics() -> tuple[ReassignedCluster, TopicPartition]:
    world = cluster()
    world.data.topics["u"] = (Topic("u", "B" * 21 + "A", {0: (1, 2)}), 0)
    world.step(world.term.topics_changed)
    return world, TopicPartition("u", 0)


@pytest.mark.guarantee("C3")
def test_state_that_makes_no_sense_stops_nothing_but_its_own_partition() -> None:
    world, other = two_topics()
    world.data.garbled.add(PARTITION)
    before = stored(world)
    world.term.load()
    world.fail(1)
    assert world.data.states[other].state.leader == 2
    assert stored(world) == before


@pytest.mark.guarantee("C3")
def test_state_that_is_garbled_under_a_running_term_stops_nothing_but_its_own_partition() -> None:
    world, other = two_topics()
    world.data.garbled.add(PARTITION)
    world.fail(1)
    assert world.data.states[other].state.leader == 2


@pytest.mark.guarantee("C3")
def test_broker_whose_partition_is_unreadable_gets_no_whole_list() -> None:
    world, _ = two_topics()
    world.data.garbled.add(PARTITION)
    world.nodes[1].queue.clear()
    world.term.load()
    said = [
        LeaderAndIsrRequest.decode(LEADER_AND_ISR_VERSION, request.body)
        for request in world.nodes[1].queue
        if request.api_key == ApiKey.LEADER_AND_ISR
    ]
    assert [request.type for request in said] == [INCREMENTAL]


@pytest.mark.guarantee("C3")
def test_state_that_was_repaired_counts_when_the_next_broker_comes() -> None:
    world, _ = two_topics()
    world.data.garbled.add(PARTITION)
    world.term.load()
    world.fail(1)
    world.data.garbled.clear()
    world.start(1)
    assert stored(world).leader == 2
    assert not world.term.state.unreadable
