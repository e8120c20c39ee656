"""The controller's decisions, by example."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.controller import alter_partition as alter
from broker.core.controller import decisions as controller
from broker.core.controller.cluster_state import NO_LEADER, Broker, BrokerEndpoint, ClusterState, LeaderAndIsr, Topic
from broker.core.controller.elr import ReplicaReport
from broker.model.ids import TopicPartition
from broker.wire.errors import ErrorCode

pytestmark = pytest.mark.guarantee("L8", "elections")

T0 = TopicPartition("t", 0)


def broker(id_: int, epoch: int | None = None) -> Broker:
    return Broker(id_, 100 + id_ if epoch is None else epoch, (BrokerEndpoint("PLAINTEXT", "h", id_, "PLAINTEXT"),))


def cluster(live: tuple[int, ...], state: LeaderAndIsr | None, replicas: tuple[int, ...] = (1, 2, 3)) -> ClusterState:
    found = ClusterState(brokers={id_: broker(id_) for id_ in live}, topics={"t": Topic("t", "id", {0: replicas})})
    if state is not None:
        found.states[T0] = state
    return found


def test_bounced_broker_is_a_failure_and_a_start() -> None:
    known = {1: broker(1), 2: broker(2), 4: broker(4)}
    found = {1: broker(1), 2: broker(2, 999), 3: broker(3), 4: replace(broker(4), rack="r")}
    assert controller.compare_brokers(known, found) == (frozenset({2}), frozenset({2, 3}), frozenset({4}))


def test_election_on_a_report_is_of_the_present_incarnation_and_a_successor_keeps_its_own() -> None:
    state = cluster((2, 3), LeaderAndIsr(1, 4, (1, 2, 3), 1, 0, isr_epochs={1: 5, 2: 6, 3: 7}))
    (change,) = controller.brokers_failed(state, {1}, 1)
    assert state.completed(T0, change.before, change.after).isr_epochs == {2: 6, 3: 7}
    state = cluster((2,), LeaderAndIsr(NO_LEADER, 4, (1, 2), 1, 0, isr_epochs={1: 5, 2: 6}))
    (change,) = controller.elect_offline(state, 1)
    assert state.completed(T0, change.before, change.after).isr_epochs == {2: 102}


def test_failed_brokers_of_one_read_are_one_batch() -> None:
    state = cluster((3,), LeaderAndIsr(1, 4, (1, 2, 3), 1, 0))
    (change,) = controller.brokers_failed(state, {1, 2}, 7)
    assert (change.after.leader, change.after.isr, change.after.controller_epoch) == (3, (3,), 7)
    assert change.reason == "offline"


def test_replica_whose_files_failed_loses_leadership_and_isr_place() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 4, (1, 2, 3), 1, 0))
    state.offline.add((T0, 1))
    (change,) = controller.replicas_failed(state, [T0], 1, 7)
    assert (change.after.leader, change.after.isr, change.after.leader_epoch) == (2, (2, 3), 5)
    assert controller.offline_replicas(state, T0) == [1]


def test_replica_whose_files_failed_is_elected_by_nobody() -> None:
    state = cluster((1, 2), LeaderAndIsr(2, 4, (1, 2), 1, 0))
    state.offline.add((T0, 1))
    del state.brokers[2]
    (change,) = controller.brokers_failed(state, {2}, 7)
    assert (change.after.leader, change.after.isr) == (NO_LEADER, (1, 2))
    state.states[T0] = change.after
    assert controller.elect_offline(state, 7) == []
    state.offline.clear()
    (change,) = controller.elect_offline(state, 7)
    assert change.after.leader == 1


def test_last_isr_member_whose_files_failed_keeps_its_place_without_leading() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 4, (1,), 1, 0))
    state.offline.add((T0, 1))
    (change,) = controller.replicas_failed(state, [T0], 1, 7)
    assert (change.after.leader, change.after.isr) == (NO_LEADER, (1,))


def test_start_elects_only_offline_and_new_partitions() -> None:
    state = cluster((1, 2), LeaderAndIsr(NO_LEADER, 4, (2,), 1, 0))
    state.topics["n"] = Topic("n", "id2", {0: (2, 1)})
    offline, new = controller.elect_offline(state, 7)
    assert (offline.after.leader, offline.after.leader_epoch) == (2, 5)
    assert (new.before, new.after.leader, new.after.isr, new.reason) == (None, 2, (2, 1), "new-topic")


def speaking(*ids: int) -> dict[int, Broker]:
    return {id_: replace(broker(id_), reports=True) for id_ in ids}


def test_unclean_election_waits_for_a_suspected_isr_member_which_leads_once_it_responds() -> None:
    state = cluster((), LeaderAndIsr(1, 4, (1, 2), 1, 0))
    state.brokers, state.suspected, state.unclean["t"] = speaking(2, 3), {2}, True
    (change,) = controller.brokers_failed(state, {1}, 7)
    assert (change.after.leader, change.after.isr) == (NO_LEADER, (1, 2))
    state.states[T0] = change.after
    state.reports[T0, 3] = ReplicaReport(False, 4, 10)
    assert controller.elect_offline(state, 7) == []
    state.suspected.clear()
    assert controller.elect_offline(state, 7) == []
    state.reports[T0, 2] = ReplicaReport(False, 4, 20)
    (change,) = controller.elect_offline(state, 7)
    assert (change.after.leader, change.after.isr, change.reason) == (2, (2,), "offline")


def test_unclean_election_does_not_wait_once_the_suspected_members_session_is_over_or_its_files_failed() -> None:
    state = cluster((), LeaderAndIsr(NO_LEADER, 4, (1, 2), 1, 0))
    state.brokers, state.suspected, state.unclean["t"] = speaking(2, 3), {2}, True
    state.reports[T0, 3] = ReplicaReport(False, 4, 10)
    state.offline.add((T0, 2))
    (change,) = controller.replicas_failed(state, [T0], 2, 7)
    assert (change.after.leader, change.reason) == (3, "unclean")
    state.offline.clear()
    state.forget_broker(2)
    (change,) = controller.brokers_failed(state, {2}, 7)
    assert (change.after.leader, change.reason) == (3, "unclean")


def test_suspected_eligible_replica_is_waited_for_by_an_unclean_election_and_any_other_is_not() -> None:
    state = cluster((), LeaderAndIsr(NO_LEADER, 4, (1,), 1, 0, elr=(2,), elr_min_isr=2))
    state.brokers, state.suspected, state.unclean["t"] = speaking(2, 3), {2}, True
    state.reports[T0, 3] = ReplicaReport(False, 4, 10)
    assert controller.elect_offline(state, 7) == []
    state.states[T0] = replace(state.states[T0], elr=(), elr_min_isr=0)
    (change,) = controller.elect_offline(state, 7)
    assert change.after.leader == 3


def test_next_controller_does_not_pass_over_a_suspected_isr_member_either() -> None:
    state = cluster((), LeaderAndIsr(1, 4, (1, 2), 1, 0))
    state.brokers, state.suspected, state.unclean["t"] = {3: broker(3), **speaking(2)}, {2}, True
    (change,) = controller.failover(state, {}, 7)
    assert (change.after.leader, change.after.isr) == (NO_LEADER, (1, 2))


def test_unclean_election_only_where_allowed() -> None:
    state = cluster((2, 3), LeaderAndIsr(NO_LEADER, 4, (1,), 1, 0))
    assert controller.elect_offline(state, 7) == []
    state.unclean["t"] = True
    (change,) = controller.elect_offline(state, 7)
    assert (change.after.leader, change.after.isr, change.reason) == (2, (2,), "unclean")


def test_failover_moves_leadership_from_broker_that_bounced_meanwhile() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 4, (1, 2), 1, 0))
    (change,) = controller.failover(state, {T0: {1}}, 7)
    assert (change.after.leader, change.after.isr, change.after.leader_epoch) == (2, (2,), 5)


def test_failover_gives_only_isr_member_that_bounced_a_new_epoch() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 4, (1,), 1, 0))
    (change,) = controller.failover(state, {T0: {1}}, 7)
    assert (change.after.leader, change.after.isr, change.after.leader_epoch) == (1, (1,), 5)


def test_leader_that_refuses_its_epoch_gives_way_to_the_next_isr_member() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 4, (1, 2), 1, 0))
    (change,) = controller.epochs_refused(state, {T0: 4}, 1, 7)
    assert (change.after.leader, change.after.isr, change.after.leader_epoch) == (2, (2,), 5)


def test_only_isr_member_that_refuses_its_epoch_gets_a_new_one() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 4, (1,), 1, 0))
    (change,) = controller.epochs_refused(state, {T0: 4}, 1, 7)
    assert (change.after.leader, change.after.isr, change.after.leader_epoch) == (1, (1,), 5)


def test_refusal_of_an_epoch_that_is_over_changes_nothing() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 5, (1,), 1, 0))
    assert controller.epochs_refused(state, {T0: 4}, 1, 7) == []
    assert controller.epochs_refused(state, {T0: 5}, 9, 7) == []


def test_follower_that_refuses_its_epoch_gets_a_new_one_under_the_same_leader() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 5, (1, 3), 1, 0))
    (change,) = controller.epochs_refused(state, {T0: 5}, 2, 7)
    assert (change.after.leader, change.after.isr, change.after.leader_epoch) == (1, (1, 3), 6)


def test_follower_that_refuses_its_epoch_after_it_was_admitted_leaves_the_isr() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 5, (1, 2, 3), 1, 0))
    (change,) = controller.epochs_refused(state, {T0: 5}, 2, 7)
    assert (change.after.leader, change.after.isr, change.after.leader_epoch) == (1, (1, 3), 6)


def test_failover_changes_nothing_that_holds() -> None:
    assert controller.failover(cluster((1, 2, 3), LeaderAndIsr(1, 4, (1, 2), 1, 0)), {}, 7) == []


def test_failover_removes_dead_and_elects() -> None:
    state = cluster((2, 3), LeaderAndIsr(1, 4, (1, 3), 1, 0))
    (change,) = controller.failover(state, {}, 7)
    assert (change.after.leader, change.after.isr) == (3, (3,))


def test_deleted_topic_is_left_alone() -> None:
    state = cluster((2, 3), LeaderAndIsr(1, 4, (1, 3), 1, 0))
    state.deleting.add("t")
    assert controller.brokers_failed(state, {1}, 7) == []
    assert controller.elect_offline(state, 7) == []
    assert controller.failover(state, {}, 7) == []


def test_shutdown_leaves_what_cannot_move() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 4, (1,), 1, 0))
    state.shutting_down.add(1)
    assert controller.broker_shutdown(state, 1, 7) == []
    assert controller.remaining_leaderships(state, 1) == [T0]


def test_shutdown_does_not_wait_for_what_is_being_deleted() -> None:
    state = cluster((1, 2, 3), LeaderAndIsr(1, 4, (1, 2, 3), 1, 0))
    state.shutting_down.add(1)
    state.deleting.add(T0.topic)
    assert controller.broker_shutdown(state, 1, 7) == []
    assert controller.remaining_leaderships(state, 1) == []


CURRENT = LeaderAndIsr(1, 4, (1, 2), 1, 9)


def propose(isr: dict[int, int], leader_epoch: int = 4, partition_epoch: int = 9) -> alter.Proposal:
    return alter.Proposal(T0, leader_epoch, partition_epoch, isr)


def test_alter_partition_accepts_shrink_and_expansion_in_assignment_order() -> None:
    state = cluster((1, 2, 3), CURRENT)
    shrink = alter.decide(state, 1, propose({1: -1}), True, 7)
    assert isinstance(shrink, alter.Write)
    assert shrink.after == replace(CURRENT, isr=(1,), controller_epoch=7)
    expand = alter.decide(state, 1, propose({3: 103, 1: -1, 2: 102}), True, 7)
    assert isinstance(expand, alter.Write)
    assert expand.after.isr == (1, 2, 3)


def test_alter_partition_repeated_returns_the_current_state() -> None:
    state = cluster((1, 2, 3), CURRENT)
    assert alter.decide(state, 1, propose({1: 101, 2: 102}, partition_epoch=8), True, 7) == alter.Unchanged(CURRENT)


@pytest.mark.parametrize(
    ("sender", "proposal", "error"),
    [
        (1, propose({1: 101}, leader_epoch=3), ErrorCode.FENCED_LEADER_EPOCH),
        (1, propose({1: 101}, leader_epoch=5), ErrorCode.NOT_CONTROLLER),
        (1, propose({1: 101}, partition_epoch=10), ErrorCode.NOT_CONTROLLER),
        (1, propose({1: 101}, partition_epoch=8), ErrorCode.INVALID_UPDATE_VERSION),
        (1, propose({1: 101, 2: 102, 3: 3}), ErrorCode.INELIGIBLE_REPLICA),
        (1, propose({1: 101, 2: 102, 3: -1}), ErrorCode.INELIGIBLE_REPLICA),
        (1, propose({1: 101, 2: 102, 4: 104}), ErrorCode.INVALID_REQUEST),
        (1, propose({2: 102}), ErrorCode.INVALID_REQUEST),
        (1, propose({}), ErrorCode.INVALID_REQUEST),
        (2, propose({2: 102}), ErrorCode.INVALID_REQUEST),
    ],
)
def test_alter_partition_refusals(sender: int, proposal: alter.Proposal, error: ErrorCode) -> None:
    assert alter.decide(cluster((1, 2, 3, 4), CURRENT), sender, proposal, True, 7) is error


def test_alter_partition_refuses_dead_and_leaving_joiners() -> None:
    assert alter.decide(cluster((1, 2), CURRENT), 1, propose({1: 101, 2: 102, 3: 103}), True, 7) is (
        ErrorCode.INELIGIBLE_REPLICA
    )
    leaving = cluster((1, 2, 3), CURRENT)
    leaving.shutting_down.add(3)
    assert alter.decide(leaving, 1, propose({1: 101, 2: 102, 3: 103}), True, 7) is ErrorCode.INELIGIBLE_REPLICA


def test_alter_partition_without_epochs_accepts_live_joiner_in_version_2() -> None:
    state = cluster((1, 2, 3), CURRENT)
    assert isinstance(alter.decide(state, 1, propose({1: -1, 2: -1, 3: -1}), False, 7), alter.Write)


def test_sender_must_be_registered_incarnation() -> None:
    state = cluster((1, 2, 3), CURRENT)
    assert alter.check_sender(state, 1, 101) is ErrorCode.NONE
    assert alter.check_sender(state, 1, 100) is ErrorCode.STALE_BROKER_EPOCH
    assert alter.check_sender(state, 9, 101) is ErrorCode.STALE_BROKER_EPOCH
