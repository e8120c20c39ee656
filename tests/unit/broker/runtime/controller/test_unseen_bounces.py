"""C1: a replica that restarted while no controller saw it is judged by the next load, whatever was written since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from broker.core.controller.cluster_state import LeaderAndIsr, StoreUnavailable
from broker.core.controller.stored import StateWrite, Term
from broker.model.ids import TopicPartition
from broker.runtime.controller.topic_loader import MIN_ISR
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tests.support.reassigned_cluster import PARTITION, TOPIC_ID, ReassignedCluster
from tests.support.stored_partition import cluster, stored


def bounced_unseen(world: ReassignedCluster) -> None:
    """Broker 2 ends and comes back; what leader 1 proposed for 3 is written after that; the controller ends."""
    old = {id_: node.epoch for id_, node in world.nodes.items()}
    world._register(world.nodes[2])
    members = [BrokerState(id_, old[id_]) for id_ in (1, 2, 3)]
    asked = RequestPartitionData(0, 5, [], members, 0, stored(world).partition_epoch)
    request = AlterPartitionRequest(1, old[1], [RequestTopicData(TOPIC_ID, [asked])])
    answer = world.term.isr_changes.alter_partition(request, 3).topics[0].partitions[0]
    assert (answer.error_code, answer.isr) == (0, [1, 2, 3])


def test_state_names_the_registrations_that_it_was_granted_to() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world.term.load()
    before = world.nodes[2].epoch
    bounced_unseen(world)
    epochs = {id_: node.epoch for id_, node in world.nodes.items()}
    assert stored(world).isr_epochs == {**epochs, 2: before}


@pytest.mark.guarantee("C1")
def test_replica_that_bounced_unseen_leaves_the_isr_though_its_state_was_written_since() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world.term.load()
    bounced_unseen(world)
    world._elect()
    assert (stored(world).leader, stored(world).leader_epoch, stored(world).isr) == (1, 6, (1, 3))
    world._elect()
    assert stored(world).leader_epoch == 6, "judged once"


@pytest.mark.guarantee("C1")
def test_leader_that_bounced_unseen_leads_no_more() -> None:
    world = cluster(LeaderAndIsr(2, 5, (2, 3), 1, 3))
    world.term.load()
    old = {id_: node.epoch for id_, node in world.nodes.items()}
    world._register(world.nodes[2])
    asked = RequestPartitionData(0, 5, [], [BrokerState(i, old[i]) for i in (1, 2, 3)], 0, 3)
    world.term.isr_changes.alter_partition(AlterPartitionRequest(2, old[2], [RequestTopicData(TOPIC_ID, [asked])]), 3)
    world._elect()
    assert (stored(world).leader, stored(world).isr) == (1, (1, 3))


@pytest.mark.guarantee("C1")
def test_state_that_names_no_registrations_is_judged_by_the_transaction_that_wrote_it() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world.term.load()
    bounced_unseen(world)
    found = world.data.states[PARTITION]
    # As a Kafka controller writes it.
    world.data.states[PARTITION] = found._replace(state=replace(found.state, isr_epochs={}))
    world._elect()
    assert stored(world).isr == (1, 2, 3)
    world._register(world.nodes[2])
    world._elect()
    assert stored(world).isr == (1, 3)


def test_write_before_the_judgement_does_not_vouch_for_who_bounced() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3, elr=(3,), elr_min_isr=3))
    world._register(world.nodes[2])
    world.data.configs["t"] = {MIN_ISR: "1"}
    # The first write, which drops the eligible replica, is the last of this controller.
    world.die_at(2, landed=False)
    world.step(world.term.load)
    assert world.deaths == 1
    assert (stored(world).leader, stored(world).isr, stored(world).elr) == (1, (1,), ())


@pytest.mark.guarantee("C1")
def test_bounce_that_was_seen_but_not_written_is_judged_by_the_reload() -> None:
    world = cluster()
    write = world.store.write_states
    node = world.nodes[2]
    world.data.brokers[2] = replace(world.data.brokers[2], epoch=world.data.next_transaction())
    node.epoch = world.data.brokers[2].epoch
    # The leader's own write comes between the bounce and its judgement.
    write(world.store.term, [StateWrite(PARTITION, stored(world), stored(world))])
    world.term.state.states[PARTITION] = stored(world)
    assert 2 in stored(world).isr

    def fails(term: Term, writes: Sequence[StateWrite]) -> Mapping[TopicPartition, LeaderAndIsr | None]:
        raise StoreUnavailable("no answer")

    world.store.write_states = fails  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        world.term.brokers_changed()
    world.store.write_states = write  # type: ignore[method-assign]
    world.term.load()
    assert stored(world).isr == (1, 3)
    world.term.load()
    assert stored(world).isr == (1, 3)
