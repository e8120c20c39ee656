"""R12: a term reads min.insync.replicas as leaders do; a lowered one voids eligible replicas, and leaders hear it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr
from broker.runtime.controller.topic_loader import MIN_ISR
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from tests.support.reassigned_cluster import PARTITION, TOPIC_ID, ReassignedCluster
from tests.support.stored_partition import cluster, states_in, stored


@pytest.mark.guarantee("R12")
def test_eligible_replicas_under_a_minimum_lowered_before_the_load_are_elected_by_nobody() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1,), 1, 3, elr=(2, 3)))
    world.data.configs["t"] = {MIN_ISR: "1"}
    world.term.load()
    assert stored(world).elr == ()
    world.fail(1)
    assert (stored(world).leader, stored(world).isr) == (NO_LEADER, (1,))


@pytest.mark.guarantee("R12")
def test_eligible_replicas_are_voided_before_the_load_elects() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1,), 1, 3, elr=(2, 3)))
    world.data.configs["t"] = {MIN_ISR: "1"}
    del world.data.brokers[1]
    world.term.load()
    assert (stored(world).leader, stored(world).isr) == (NO_LEADER, (1,))


@pytest.mark.guarantee("R12")
def test_eligible_replicas_under_the_same_minimum_outlive_the_load() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1,), 1, 3, elr=(2, 3)))
    world.data.configs["t"] = {MIN_ISR: "2"}
    world.term.load()
    world.fail(1)
    assert stored(world).leader == 2


def shrink_to_leader(world: ReassignedCluster) -> ResponsePartitionData:
    """Leader 1 proposes itself alone, under a minimum of 2."""
    node = world.nodes[1]
    state = stored(world)
    member = BrokerState(1, node.epoch)
    asked = RequestPartitionData(0, state.leader_epoch, [], [member], 0, state.partition_epoch)
    request = AlterPartitionRequest(1, node.epoch, [RequestTopicData(TOPIC_ID, [asked])])
    return world.term.isr_changes.alter_partition(request, 3).topics[0].partitions[0]


def minimum_of_two(reports: bool) -> ReassignedCluster:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    for id_, broker in world.data.brokers.items():
        world.data.brokers[id_] = replace(broker, reports=reports)
    world.data.configs["t"] = {MIN_ISR: "2"}
    world.term.load()
    return world


@pytest.mark.guarantee("R12")
def test_leader_gets_the_minimum_of_its_eligible_replicas() -> None:
    world = minimum_of_two(reports=True)
    for _ in range(2):
        # Asked again, because an answer was lost, it is told the same.
        answer = shrink_to_leader(world)
        assert (answer.error_code, answer.isr, answer.elr_min_isr) == (0, [1], 2)
    assert (stored(world).elr, stored(world).elr_min_isr) == ((2,), 2)
    world.nodes[1].queue.clear()
    world.term.send_everything(1)
    assert [state.elr_min_isr for state in states_in(list(world.nodes[1].queue))] == [2]


@pytest.mark.guarantee("R12")
def test_minimum_goes_with_the_eligible_replicas() -> None:
    world = minimum_of_two(reports=True)
    shrink_to_leader(world)
    world.nodes[1].queue.clear()
    world.term.topic_config_changed("t", {MIN_ISR: "1"})
    assert (stored(world).elr, stored(world).elr_min_isr) == ((), 0)
    assert [(state.leader_epoch, state.elr_min_isr) for state in states_in(list(world.nodes[1].queue))] == [(6, 0)]


@pytest.mark.guarantee("R12")
def test_nobody_is_eligible_beside_a_leader_of_kafkas() -> None:
    world = minimum_of_two(reports=False)
    answer = shrink_to_leader(world)
    assert (answer.isr, answer.elr_min_isr) == ([1], 0)
    assert stored(world).elr == ()


@pytest.mark.guarantee("R12")
@pytest.mark.parametrize(
    ("text", "read"), [("+2", 2), (" 2", 2), ("3", 3), ("99999999999", 1), ("²", 1), ("1_0", 1), ("0", 1), ("", 1)]
)
def test_minimum_is_read_as_leaders_read_it(text: str, read: int) -> None:
    world = cluster()
    world.data.configs["t"] = {MIN_ISR: text}
    world.term.load()
    assert world.term.state.min_isr_of(PARTITION) == read
