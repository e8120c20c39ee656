"""A load whose writes failed is none; an election whose answer was lost is sent to the brokers all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr, StoreUnavailable
from broker.core.controller.elr import ReplicaReport
from broker.core.controller.stored import StateWrite, StoredState, Term
from broker.model.ids import TopicPartition
from broker.runtime.controller.topic_loader import MIN_ISR
from broker.wire.api import ApiKey
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster
from tests.support.stored_partition import cluster, states_in, stored


@pytest.mark.guarantee("controller-writes")
def test_load_that_breaks_off_before_the_failover_is_written_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 2 came back with a new registration while nobody looked: only the load knows, and must write it."""
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world._register(world.nodes[2])
    world._elect()
    assert world.term.loaded
    world.data.states[PARTITION] = StoredState(LeaderAndIsr(1, 5, (1, 2), 1, 3), 1)

    def unavailable(term: Term, writes: Sequence[StateWrite]) -> None:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "write_states", unavailable)
        with pytest.raises(StoreUnavailable):
            world.term.load()
    assert not world.term.loaded
    world.term.load()
    assert world.term.loaded
    assert 2 not in stored(world).isr


def lose_answer(world: ReassignedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next write of states is carried out, and taken for one that met another's. Nothing waits for any broker."""
    for node in world.nodes.values():
        node.queue.clear()
    write = world.store.write_states

    def lost(term: Term, writes: Sequence[StateWrite]) -> Mapping[TopicPartition, LeaderAndIsr | None]:
        write(term, writes)
        monkeypatch.setattr(world.store, "write_states", write)
        return dict.fromkeys((one.topic_partition for one in writes), None)

    monkeypatch.setattr(world.store, "write_states", lost)


@pytest.mark.guarantee("controller-writes")
def test_election_whose_response_was_lost_is_announced_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2, 3), 1, 3))
    world.term.load()
    lose_answer(world, monkeypatch)
    world.fail(1)
    assert stored(world).leader == 2
    for id_ in (2, 3):
        assert (2, stored(world).leader_epoch) in [
            (state.leader, state.leader_epoch) for state in states_in(list(world.nodes[id_].queue))
        ]


@pytest.mark.guarantee("controller-writes")
def test_outage_whose_write_got_no_response_has_the_replicas_report_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody else would ask the replicas that live on, and without their word nobody is elected."""
    world = cluster(LeaderAndIsr(1, 5, (1,), 1, 3, elr=(2,), elr_min_isr=2))
    world.data.configs["t"] = {MIN_ISR: "2"}
    for id_, broker in world.data.brokers.items():
        world.data.brokers[id_] = replace(broker, reports=True)
    world.term.load()
    lose_answer(world, monkeypatch)
    world.fail(1)
    assert (stored(world).leader, stored(world).elr) == (NO_LEADER, (2,))
    for id_ in (2, 3):
        asked = [dict(one.request_epochs) for one in world.nodes[id_].queue if one.api_key == ApiKey.REPLICA_REPORT]
        assert asked == [{PARTITION: 6}]
    world.term.replicas_reported(2, world.nodes[2].epoch, {PARTITION: ReplicaReport(unclean=False)}, {PARTITION: 6})
    assert stored(world).leader == 2
