"""What counts as evidence, when it suffices, and what a controller takes from a suspected broker."""

from __future__ import annotations

import pytest

from broker.core.controller import suspicion
from broker.core.controller.cluster_state import NO_LEADER, Broker, ClusterState, LeaderAndIsr, Topic
from broker.core.controller.decisions import SUSPECTED
from broker.core.controller.suspicion import Evidence, LinkEvent, LinkState
from broker.model.ids import TopicPartition

pytestmark = pytest.mark.guarantee("C10")

TP = TopicPartition("t", 0)
GONE, THERE, UNKNOWN = Evidence.GONE, Evidence.THERE, Evidence.UNKNOWN


@pytest.mark.parametrize(
    ("events", "suspicious"),
    [
        ([LinkEvent.CONNECTED, LinkEvent.CLOSED, LinkEvent.REFUSED], True),
        ([LinkEvent.CONNECTED, LinkEvent.REFUSED], True),
        ([LinkEvent.CONNECTED, LinkEvent.CLOSED], False),
        ([LinkEvent.REFUSED, LinkEvent.REFUSED], False),
        ([LinkEvent.CONNECTED, LinkEvent.CLOSED, LinkEvent.UNREACHABLE], False),
        ([LinkEvent.CONNECTED, LinkEvent.CLOSED, LinkEvent.REFUSED, LinkEvent.UNREACHABLE], False),
        ([LinkEvent.CONNECTED, LinkEvent.CLOSED, LinkEvent.REFUSED, LinkEvent.CONNECTED], False),
        ([], False),
    ],
)
def test_suspicion_needs_a_lost_connection_and_a_refused_one(events: list[LinkEvent], suspicious: bool) -> None:
    link = LinkState()
    for event in events:
        link.apply(event)
    assert link.suspicious is suspicious


@pytest.mark.parametrize(
    ("said", "enough"),
    [
        ({2: GONE}, True),
        ({2: GONE, 3: GONE}, True),
        ({2: THERE}, False),
        ({2: UNKNOWN}, False),
        ({2: GONE, 3: THERE, 4: GONE}, False),
        ({2: None}, False),
        ({}, False),
        ({2: GONE, 3: None}, False),
        ({2: GONE, 3: GONE, 4: None}, True),
        ({2: GONE, 3: None, 4: None}, False),
    ],
)
def test_others_bear_a_suspicion_out_unless_one_objects_or_most_are_missed(
    said: dict[int, Evidence | None], enough: bool
) -> None:
    assert suspicion.corroborated(said) is enough


def cluster(leader: int, isr: tuple[int, ...], min_isr: int, live: tuple[int, ...] = (1, 2, 3)) -> ClusterState:
    state = ClusterState(topics={"t": Topic("t", "id", {0: (1, 2, 3)})}, min_isr_default=min_isr)
    state.brokers = {id_: Broker(id_, 10 + id_, ()) for id_ in live}
    state.states[TP] = LeaderAndIsr(leader, 5, isr, 1, 9)
    return state


def suspect(state: ClusterState, broker: int) -> LeaderAndIsr | None:
    state.suspected.add(broker)
    changes = suspicion.suspected(state, broker, 3)
    assert all(change.reason == SUSPECTED for change in changes)
    return changes[0].after if changes else None


def test_suspected_leader_is_replaced_by_the_next_isr_member_and_leaves_the_isr() -> None:
    after = suspect(cluster(1, (1, 2, 3), 2), 1)
    assert after is not None
    assert (after.leader, after.isr, after.leader_epoch, after.controller_epoch) == (2, (2, 3), 6, 3)


def test_suspected_follower_leaves_the_isr_at_once() -> None:
    after = suspect(cluster(1, (1, 2, 3), 2), 3)
    assert after is not None
    assert (after.leader, after.isr) == (1, (1, 2))


@pytest.mark.parametrize(("isr", "min_isr"), [((1, 2), 2), ((1, 2, 3), 3), ((1,), 1)])
def test_no_isr_falls_below_its_minimum_on_suspicion(isr: tuple[int, ...], min_isr: int) -> None:
    assert suspect(cluster(1, isr, min_isr), 1) is None


def test_partition_that_nobody_could_lead_waits_for_the_session() -> None:
    assert suspect(cluster(1, (1, 3), 1, live=(1, 2)), 1) is None
    assert suspect(cluster(NO_LEADER, (1, 2, 3), 1), 1) is None


def test_two_suspected_brokers_never_take_a_partition_below_its_minimum() -> None:
    state = cluster(1, (1, 2, 3), 2)
    first = suspect(state, 1)
    assert first is not None
    state.states[TP] = first
    assert suspect(state, 2) is None


def test_suspected_broker_is_not_elected_by_another_failure() -> None:
    state = cluster(1, (1, 2, 3), 1)
    state.suspected.add(2)
    assert 2 not in state.live()
