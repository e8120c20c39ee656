"""The controller's decisions against a plain model of what they must keep."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.controller import alter_partition as alter
from broker.core.controller import decisions as controller
from broker.core.controller.assignment import assign
from broker.core.controller.cluster_state import NO_LEADER, Broker, BrokerEndpoint, ClusterState, Topic
from broker.model.ids import TopicPartition
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("R1", "C7")

BROKERS = (1, 2, 3, 4)
BRIEF = examples(300)

events = st.lists(
    st.tuples(
        st.sampled_from(["fail", "start", "bounce", "shutdown", "alter", "failover"]),
        st.sets(st.sampled_from(BROKERS), min_size=1, max_size=3),
    ),
    max_size=25,
)
assignments = st.lists(st.permutations(BROKERS).map(lambda p: tuple(p[:3])), min_size=1, max_size=4)


class World:
    """Applies decisions as the runtime would, and checks each one."""

    def __init__(self, replica_lists: list[tuple[int, ...]], unclean: bool) -> None:
        self.state = ClusterState(topics={"t": Topic("t", "id", dict(enumerate(replica_lists)))})
        self.state.unclean_default = unclean
        self.next_epoch = 1

    def register(self, id_: int) -> None:
        self.state.brokers[id_] = Broker(id_, self.next_epoch, (BrokerEndpoint("P", "h", id_, "PLAINTEXT"),))
        self.next_epoch += 1
        self.state.shutting_down.discard(id_)

    def apply(self, changes: list[controller.Change]) -> None:
        assert len({change.topic_partition for change in changes}) == len(changes), "two changes of one partition"
        live = self.state.live()
        for change in changes:
            replicas = self.state.replicas(change.topic_partition)
            before, after = change.before, change.after
            assert before == self.state.states.get(change.topic_partition)
            assert after.isr
            assert set(after.isr) <= set(replicas)
            if before is not None:
                assert after.leader_epoch > before.leader_epoch
                if change.reason != controller.UNCLEAN:
                    assert set(after.isr) <= set(before.isr), "an election grew the ISR"
                else:
                    assert not set(before.isr) & live, "unclean election although an ISR member lives"
                if after.leader == NO_LEADER:
                    assert after.isr == before.isr
            if before is None or after.leader not in (before.leader, NO_LEADER):
                candidates = [r for r in replicas if r in live and r in after.isr]
                assert after.leader == candidates[0], "not the first live ISR member in assignment order"
            version = 0 if before is None else before.partition_epoch + 1
            self.state.states[change.topic_partition] = replace(after, partition_epoch=version)

    def check(self) -> None:
        for topic_partition, state in self.state.states.items():
            if state.leader == NO_LEADER:
                assert not set(state.isr) & self.state.live(), f"{topic_partition} has no leader though one could lead"
            else:
                assert state.leader in state.isr
                assert state.leader in self.state.brokers


@given(events, assignments, st.booleans())
@BRIEF
def test_any_history_keeps_leaders_live_in_sync_and_epochs_rising(
    history: list[tuple[str, set[int]]], replica_lists: list[tuple[int, ...]], unclean: bool
) -> None:
    world = World(replica_lists, unclean)
    state = world.state
    for what, ids in history:
        match what:
            case "fail" | "bounce":
                failed = ids & state.brokers.keys()
                for id_ in failed:
                    del state.brokers[id_]
                    state.shutting_down.discard(id_)
                world.apply(controller.brokers_failed(state, failed, 1))
                if what == "bounce":
                    for id_ in failed:
                        world.register(id_)
                    world.apply(controller.elect_offline(state, 1))
            case "start":
                for id_ in ids - state.brokers.keys():
                    world.register(id_)
                world.apply(controller.elect_offline(state, 1))
            case "shutdown":
                leaving = min(ids)
                if leaving in state.brokers:
                    state.shutting_down.add(leaving)
                    world.apply(controller.broker_shutdown(state, leaving, 1))
            case "alter":
                for topic_partition, current in list(state.states.items()):
                    wanted = {current.leader, *ids} & set(state.replicas(topic_partition))
                    isr = {id_: state.brokers[id_].epoch for id_ in wanted if id_ in state.brokers}
                    proposal = alter.Proposal(topic_partition, current.leader_epoch, current.partition_epoch, isr)
                    decision = alter.decide(state, current.leader, proposal, True, 1)
                    if isinstance(decision, alter.Write):
                        assert decision.after.leader == current.leader
                        assert decision.after.leader_epoch == current.leader_epoch
                        assert set(decision.after.isr) == set(isr)
                        version = current.partition_epoch + 1
                        state.states[topic_partition] = replace(decision.after, partition_epoch=version)
            case "failover":
                # While nobody was controller, some brokers bounced and others died.
                state.shutting_down.clear()
                since: dict[TopicPartition, set[int]] = {}
                for id_ in ids & state.brokers.keys():
                    if id_ % 2:
                        del state.brokers[id_]
                    else:
                        world.register(id_)
                        for topic_partition, _ in state.partitions():
                            since.setdefault(topic_partition, set()).add(id_)
                before = dict(state.states)
                world.apply(controller.failover(state, since, 2))
                for topic_partition, old in before.items():
                    if old.leader in since.get(topic_partition, set()):
                        assert state.states[topic_partition].leader_epoch > old.leader_epoch, "leads under an old grant"
        world.check()


@pytest.mark.guarantee("C4")
@given(
    st.dictionaries(st.integers(0, 30), st.sampled_from(["a", "b", "c"]), min_size=1, max_size=9),
    st.integers(1, 40),
    st.integers(1, 5),
    st.integers(0, 50),
    st.booleans(),
)
@BRIEF
def test_placement_is_even_and_spans_racks(
    racks: dict[int, str], partitions: int, factor: int, start: int, use_racks: bool
) -> None:
    factor = min(factor, len(racks))
    given_racks: dict[int, str | None] = {id_: rack if use_racks else None for id_, rack in racks.items()}
    assigned = assign(given_racks, partitions, factor, start % len(racks), start)
    assert list(assigned) == list(range(partitions))
    leaders = [replicas[0] for replicas in assigned.values()]
    counts = [leaders.count(id_) for id_ in racks]
    assert max(counts) - min(counts) <= 1, "leaders are not even"
    for replicas in assigned.values():
        assert len(set(replicas)) == factor
        if use_racks:
            assert len({racks[id_] for id_ in replicas}) == min(factor, len(set(racks.values())))
