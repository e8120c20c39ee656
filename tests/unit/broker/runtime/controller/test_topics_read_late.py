"""Topics and partitions that a controller's term hears of when they have a history: judged as at a start of a term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr, StoreUnavailable, Topic
from broker.core.controller.elr import CLEAN
from broker.core.controller.stored import StoredState
from broker.model.ids import TopicPartition
from broker.runtime.controller.request_batch import FULL, LEADER_AND_ISR_VERSION
from broker.runtime.controller.term import ControllerTerm
from broker.wire.api import ApiKey
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tests.support.reassigned_cluster import PARTITION, TOPIC_ID, ReassignedCluster

pytestmark = pytest.mark.guarantee("R12")

LATE = TopicPartition("t", 1)


def asked(world: ReassignedCluster, broker: int) -> bool:
    """What its stop has cost it."""
    return any(request.api_key == ApiKey.REPLICA_REPORT for request in world.nodes[broker].queue)


def roles(world: ReassignedCluster, broker: int) -> list[LeaderAndIsrRequest]:
    return [
        LeaderAndIsrRequest.decode(LEADER_AND_ISR_VERSION, request.body)
        for request in world.nodes[broker].queue
        if request.api_key == ApiKey.LEADER_AND_ISR
    ]


def leaders_told(world: ReassignedCluster, broker: int) -> list[int]:
    return [
        p.leader for request in roles(world, broker) for topic in request.topic_states for p in topic.partition_states
    ]


def ignored_topic() -> ReassignedCluster:
    """Leader 1, ISR 1 and 2; the topic makes no sense when the term begins. All brokers report on their stops."""
    world = ReassignedCluster((1, 2, 3), 3)
    epochs = {1: world.nodes[1].epoch, 2: world.nodes[2].epoch}
    state = LeaderAndIsr(1, 5, (1, 2), 1, 3, isr_epochs=epochs)
    world.data.states[PARTITION] = StoredState(state, world.data.next_transaction())
    world.data.garbled_topics.add("t")
    all_report(world)
    world._elect()
    assert world.term.state.topics == {}
    return world


def all_report(world: ReassignedCluster) -> None:
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}


def bounce(world: ReassignedCluster, broker: int) -> None:
    world.fail(broker)
    world._register(world.nodes[broker])
    all_report(world)
    world.step(world.term.brokers_changed)


def mend(world: ReassignedCluster) -> None:
    world.data.garbled_topics.clear()
    for node in world.nodes.values():
        node.queue.clear()


NOTICED: list[Callable[[ControllerTerm], None]] = [
    lambda term: term.topics_rewritten({"t"}),
    lambda term: term.topics_changed(),
    lambda term: term.topic_config_changed("t", {}),
    lambda term: term.brokers_changed(),
]


@pytest.mark.parametrize("notice", NOTICED, ids=["topic", "topics", "config", "brokers"])
def test_who_bounced_while_a_topic_made_no_sense_does_not_lead_without_its_report(
    notice: Callable[[ControllerTerm], None],
) -> None:
    world = ignored_topic()
    bounce(world, 2)
    world.fail(1)
    mend(world)
    world.step(lambda: notice(world.term))
    state = world.data.states[PARTITION].state
    assert (state.leader, state.isr) == (NO_LEADER, (1, 2))
    assert asked(world, 2)
    report = {PARTITION: CLEAN}
    epoch = world.nodes[2].epoch
    world.step(lambda: world.term.replicas_reported(2, epoch, report, {PARTITION: state.leader_epoch}))
    assert world.data.states[PARTITION].state.leader == 2


def test_who_bounced_while_a_topic_made_no_sense_gets_its_role() -> None:
    world = ignored_topic()
    bounce(world, 1)
    assert leaders_told(world, 1) == []
    mend(world)
    world.step(lambda: world.term.topics_rewritten({"t"}))
    assert [leaders_told(world, id_) for id_ in (1, 2, 3)] == [[2], [2], [2]]


def test_topic_that_makes_no_sense_still_is_looked_at_again() -> None:
    world = ignored_topic()
    world.step(lambda: world.term.topics_rewritten({"t"}))
    assert world.term.state.topics == {}
    assert "topic-t" in world.store.watches
    mend(world)
    world.step(lambda: world.term.topics_rewritten({"t"}))
    assert leaders_told(world, 1) == [1]


def test_partition_with_a_history_is_judged_as_well() -> None:
    world = ReassignedCluster((1, 2, 3), 3)
    all_report(world)
    world.step(world.term.brokers_changed)
    world.data.states[LATE] = StoredState(LeaderAndIsr(1, 5, (1, 2), 1, 3), world.data.next_transaction())
    bounce(world, 2)
    world.fail(1)
    world.data.topics["t"] = (Topic("t", TOPIC_ID, {0: (1, 2, 3), 1: (1, 2, 3)}), 1)
    world.step(lambda: world.term.topics_rewritten({"t"}))
    assert world.data.states[LATE].state.leader == NO_LEADER
    assert asked(world, 2)


def test_topic_that_is_garbled_under_a_reassignment_is_not_taken_for_gone() -> None:
    world = ReassignedCluster((1, 2, 3), 4)
    topic, version = world.data.topics["t"]
    world.data.topics["t"] = (topic, version + 1)
    world.data.garbled_topics.add("t")
    with pytest.raises(StoreUnavailable, match="makes no sense"):
        world.reassign((4, 2, 3))
    world.term.load()
    bounce(world, 2)
    assert all(request.type != FULL for request in roles(world, 2)), "its replica is not on the list"
    mend(world)
    world.step(lambda: world.term.topics_rewritten({"t"}))
    assert world.term.state.topics == {"t": topic}
    assert 2 not in world.data.states[PARTITION].state.isr, "it bounced meanwhile"
