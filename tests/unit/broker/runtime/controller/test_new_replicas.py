"""A broker is told that a partition is new to it only where its replica cannot have had a log."""

from __future__ import annotations

import pytest

from broker.core.controller.cluster_state import LeaderAndIsr, Topic
from broker.runtime.controller.request_batch import RequestBatch
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster
from tests.support.stored_partition import cluster, states_in


@pytest.mark.parametrize(("isr", "elr", "new"), [((1,), (3,), False), ((1, 3), (), False), ((1,), (2,), True)])
def test_replica_that_is_being_added_is_new_unless_it_was_in_sync(
    isr: tuple[int, ...], elr: tuple[int, ...], new: bool
) -> None:
    world = cluster()
    state = world.term.state
    state.topics["t"] = Topic("t", "A" * 22, {0: (1, 2, 3)}, adding={0: (3,)})
    state.states[PARTITION] = LeaderAndIsr(1, 5, isr, 1, 3, elr=elr)
    batch = RequestBatch(9, 1)
    batch.roles((3,), PARTITION)
    assert [partition.is_new for partition in states_in(batch.encode(state))] == [new]


def said_to_be_new(world: ReassignedCluster, *brokers: int) -> list[bool]:
    """By a load."""
    for node in world.nodes.values():
        node.queue.clear()
    world.term.load()
    return [state.is_new for id_ in brokers for state in states_in(list(world.nodes[id_].queue))]


def test_successor_says_what_is_new_where_nobody_has_written_since() -> None:
    """The controller that made the partition ended before it told anyone."""
    world = cluster(LeaderAndIsr(1, 0, (1, 2, 3), 1, 0))
    assert said_to_be_new(world, 1, 2, 3) == [True] * 3


def test_successor_says_nothing_is_new_where_a_replica_may_have_had_a_log() -> None:
    world = cluster(LeaderAndIsr(1, 0, (1, 2, 3), 1, 1))
    assert said_to_be_new(world, 1, 2, 3) == [False] * 3


def test_replica_that_registered_anew_since_has_nothing_new() -> None:
    world = cluster(LeaderAndIsr(1, 0, (1, 2, 3), 1, 0))
    world._register(world.nodes[2])
    assert said_to_be_new(world, 2) == [False]


def test_broker_that_gets_everything_again_gets_nothing_as_new() -> None:
    world = cluster(LeaderAndIsr(1, 0, (1, 2, 3), 1, 0))
    world.term.load()
    for node in world.nodes.values():
        node.queue.clear()
    world.term.send_everything(2)
    assert [state.is_new for state in states_in(list(world.nodes[2].queue))] == [False]
