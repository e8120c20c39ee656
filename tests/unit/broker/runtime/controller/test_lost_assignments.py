"""A step of a reassignment whose answer was lost is sent to the brokers all the same, and the next step follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from broker.core.controller.cluster_state import LeaderAndIsr
from broker.core.controller.stored import AssignmentWrite, Term
from broker.model.ids import TopicPartition
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster
from tests.support.stored_partition import stored

pytestmark = pytest.mark.guarantee("C6")

Written = list[Mapping[TopicPartition, LeaderAndIsr] | None]
TARGET = (4, 5)


def lose_answer(world: ReassignedCluster) -> None:
    """The next write of an assignment is carried out, and taken for one that met another's."""
    write = world.store.write_assignments

    def lost(term: Term, writes: Sequence[AssignmentWrite]) -> Written:
        world.store.write_assignments = write  # type: ignore[method-assign]
        return [None for _ in write(term, writes)]

    world.store.write_assignments = lost  # type: ignore[method-assign]


def arrived(world: ReassignedCluster) -> bool:
    topic = world.data.topics["t"][0]
    return (topic.partitions[0], topic.adding, topic.removing) == (TARGET, {}, {})


def test_beginning_whose_answer_was_lost_is_announced_and_goes_on() -> None:
    world = ReassignedCluster((1, 2), 5)
    world.settle()
    lose_answer(world)
    assert world.reassign(TARGET) == {PARTITION: None}
    assert list(world.term.admin.reassignments.under_way(None)) == [PARTITION]
    epoch = stored(world).leader_epoch
    for id_ in (1, 2, 4, 5):
        assert epoch in [state.leader_epoch for _, state in world.nodes[id_].roles_told()], f"broker {id_}"
    world.settle()
    assert arrived(world)


def test_switch_whose_answer_was_lost_is_announced_and_the_former_replicas_are_deleted() -> None:
    world = ReassignedCluster((1, 2), 5)
    world.append(1)
    world.settle()
    world.reassign(TARGET)
    lose_answer(world)
    world.settle()
    assert arrived(world)
    assert world.nodes[4].leads
    assert [id_ for id_, node in world.nodes.items() if node.log is not None] == list(TARGET)


def test_end_whose_answer_was_lost_is_the_end() -> None:
    world = ReassignedCluster((1, 2), 5)
    world.settle()
    world.reassign(TARGET)
    for id_ in TARGET:
        while world.deliver(id_):
            pass
    while world.deliver(1):
        pass
    for id_ in TARGET:
        world.fetch(id_)
    world.alter_isr(1)
    assert world.data.topics["t"][0].partitions[0] == TARGET
    lose_answer(world)
    world.settle()
    assert arrived(world)
