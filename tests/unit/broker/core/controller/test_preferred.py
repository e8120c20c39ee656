"""Elections on request, and which partitions the rebalance chooses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.controller.cluster_state import NO_LEADER, Broker, BrokerEndpoint, ClusterState, LeaderAndIsr, Topic
from broker.core.controller.decisions import OFFLINE, PREFERRED, UNCLEAN
from broker.core.controller.preferred import ElectionType, elect, imbalanced, refusal
from broker.model.ids import TopicPartition
from broker.wire.errors import ErrorCode

pytestmark = pytest.mark.guarantee("C4")


def world(*leaders: tuple[int, tuple[int, ...]], live: tuple[int, ...] = (1, 2, 3)) -> ClusterState:
    """One topic; every partition is on 1, 2, 3; (leader, ISR) each."""
    state = ClusterState(topics={"t": Topic("t", "id", dict.fromkeys(range(len(leaders)), (1, 2, 3)))})
    for id_ in live:
        state.brokers[id_] = Broker(id_, id_, (BrokerEndpoint("P", "h", 1, "PLAINTEXT"),))
    for index, (leader, isr) in enumerate(leaders):
        state.states[TopicPartition("t", index)] = LeaderAndIsr(leader, 3, isr, 1, 7)
    return state


T0 = TopicPartition("t", 0)


def test_preferred_replica_that_is_live_and_in_sync_is_elected_under_a_new_epoch() -> None:
    state = world((2, (1, 2)))
    assert refusal(state, T0, ElectionType.PREFERRED) is None
    (change,) = elect(state, [T0], ElectionType.PREFERRED, 9)
    assert (change.after.leader, change.after.isr, change.after.leader_epoch) == (1, (1, 2), 4)
    assert (change.after.controller_epoch, change.reason) == (9, PREFERRED)


@pytest.mark.parametrize(
    ("state", "kind", "error"),
    [
        (world((1, (1, 2))), ElectionType.PREFERRED, ErrorCode.ELECTION_NOT_NEEDED),
        (world((2, (2, 3))), ElectionType.PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (world((2, (1, 2)), live=(2, 3)), ElectionType.PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (world((2, (2,))), ElectionType.UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
        (world((NO_LEADER, (2,)), live=()), ElectionType.UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (world(), ElectionType.PREFERRED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_election_that_cannot_be_says_why(state: ClusterState, kind: ElectionType, error: ErrorCode) -> None:
    refused = refusal(state, T0, kind)
    assert refused is not None
    assert refused[0] is error
    assert elect(state, [T0], kind, 1) == []


def test_topic_that_is_being_deleted_elects_nobody() -> None:
    state = world((2, (1, 2)))
    state.deleting.add("t")
    refused = refusal(state, T0, ElectionType.PREFERRED)
    assert refused == (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")


def test_unclean_election_takes_a_live_isr_member_first() -> None:
    (clean,) = elect(world((NO_LEADER, (2, 3)), live=(1, 3)), [T0], ElectionType.UNCLEAN, 1)
    assert (clean.after.leader, clean.reason) == (3, OFFLINE)
    (unclean,) = elect(world((NO_LEADER, (2,)), live=(1, 3)), [T0], ElectionType.UNCLEAN, 1)
    assert (unclean.after.leader, unclean.after.isr, unclean.reason) == (1, (1,), UNCLEAN)
    assert unclean.after.recovering


@pytest.mark.parametrize(("isr", "elr"), [((1, 2), ()), ((1,), (2,))])
def test_unclean_election_by_hand_does_not_pass_over_a_suspected_replica_that_may_have_everything(
    isr: tuple[int, ...], elr: tuple[int, ...]
) -> None:
    state = world((NO_LEADER, isr), live=(2, 3))
    state.states[T0] = replace(state.states[T0], elr=elr, elr_min_isr=len(elr) and 2)
    state.suspected.add(2)
    refused = refusal(state, T0, ElectionType.UNCLEAN)
    assert refused is not None
    assert refused[0] is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    state.suspected.clear()
    (change,) = elect(state, [T0], ElectionType.UNCLEAN, 1)
    assert change.after.leader == 2


def test_brokers_that_lack_more_than_the_percentage_are_rebalanced() -> None:
    leaders = [(1, (1, 2, 3))] * 9 + [(2, (1, 2, 3))]
    assert imbalanced(world(*leaders), 10) == []
    assert imbalanced(world(*leaders), 9) == [TopicPartition("t", 9)]
