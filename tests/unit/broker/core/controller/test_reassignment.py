"""The steps of a reassignment, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr, Topic
from broker.core.controller.reassignment import (
    Assignment,
    after_switch,
    assignment_of,
    refusal,
    state_under,
    with_assignments,
)

pytestmark = pytest.mark.guarantee("elections")

LIVE = frozenset(range(1, 7))


def state(leader: int, *isr: int) -> LeaderAndIsr:
    return LeaderAndIsr(leader, 5, isr, 1, 9)


def test_published_example_goes_through_kafkas_states() -> None:
    """KafkaController's comment: {1,2,3} → {4,5,6}."""
    begun = Assignment((1, 2, 3)).towards((4, 5, 6))
    assert begun == Assignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert (begun.target, begun.origin, begun.moving, begun.doomed) == ((4, 5, 6), (1, 2, 3), True, ())
    assert after_switch(begun, state(1, 1, 2, 3, 4, 5), LIVE) is None
    after = after_switch(begun, state(1, 1, 2, 3, 4, 5, 6), LIVE)
    assert after is not None
    assert (after.leader, after.isr, after.leader_epoch) == (4, (4, 5, 6), 6)
    switched = begun.switched()
    assert switched == Assignment((4, 5, 6), (), (1, 2, 3))
    assert (switched.moving, switched.doomed) == (False, (1, 2, 3))
    assert switched.cleaned(frozenset({1, 2, 3})) == Assignment((4, 5, 6))


def test_leader_among_the_targets_stays() -> None:
    after = after_switch(Assignment((1, 2, 3)).towards((4, 2)), state(2, 1, 2, 3, 4), LIVE)
    assert after is not None
    assert (after.leader, after.isr) == (2, (4, 2))


def test_switch_waits_for_a_live_target_and_for_any_leader() -> None:
    begun = Assignment((1,)).towards((2,))
    assert after_switch(begun, state(1, 1, 2), LIVE - {2}) is None
    assert after_switch(begun, state(NO_LEADER, 1, 2), LIVE) is None
    assert after_switch(begun, None, LIVE) is None


def test_cancel_dooms_what_was_being_added() -> None:
    begun = Assignment((1, 2, 3)).towards((4, 5, 3))
    cancelled = begun.towards(begun.origin)
    assert cancelled.replicas == (3, 1, 2)
    assert (cancelled.moving, cancelled.doomed) == (False, (4, 5))


def test_replaced_target_keeps_the_origin_and_dooms_the_unneeded() -> None:
    again = Assignment((1, 2)).towards((3, 4)).towards((4, 5))
    assert again == Assignment((4, 5, 1, 2), (4, 5), (1, 2, 3))
    assert again.doomed == (3,)
    assert again.moving


def test_doomed_replica_that_is_wanted_again_is_not_doomed() -> None:
    switched = Assignment((1, 2)).towards((3,)).switched()
    again = switched.towards((1,))
    assert again == Assignment((1, 3), (1,), (3, 2))
    assert again.doomed == (2,)


def test_other_order_moves_nothing() -> None:
    assert Assignment((1, 2, 3)).towards((3, 2, 1)) == Assignment((3, 2, 1))


def test_state_without_a_member_that_may_lead_is_refused() -> None:
    assert state_under(state(2, 2), (1, 3), LIVE) is None
    assert state_under(state(2, 2, 1), (1, 3), LIVE - {1}) is None
    kept = state_under(state(2, 2, 1), (1, 3), LIVE)
    assert kept is not None
    assert (kept.leader, kept.isr) == (1, (1,))


def test_state_that_nobody_leads_gives_up_no_replica_that_may_be_the_only_one() -> None:
    leaderless = state_under(state(NO_LEADER, 2, 1), (1, 2, 3), frozenset())
    assert leaderless is not None
    assert (leaderless.leader, leaderless.isr) == (NO_LEADER, (1, 2))
    assert state_under(state(NO_LEADER, 2, 1), (1, 3), LIVE) is None
    # 1 has returned from a power failure: what was acknowledged is on 4 alone, which is away.
    eligible = replace(state(NO_LEADER, 1), elr=(4,))
    assert state_under(eligible, (1,), LIVE) is None
    assert state_under(eligible, (1, 4, 5), LIVE) is not None


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ((), "Empty replica list"),
        ((1, 1), "Duplicate replica ids"),
        ((-1, 2), "Invalid broker id"),
        ((1, 9), "brokers that are not alive. Replica list: 9, live broker list: 1,2,3,4,5,6"),
    ],
)
def test_target_that_cannot_be_is_refused(target: tuple[int, ...], text: str) -> None:
    refused = refusal(target, Assignment((1, 2)), LIVE)
    assert refused is not None
    assert text in refused[1]


def test_dead_replica_may_stay() -> None:
    assert refusal((8, 2), Assignment((8, 1)), LIVE) is None


def test_topic_keeps_assignments_of_other_partitions() -> None:
    topic = Topic("t", "id", {0: (1,), 1: (2,)}, {1: (2,)}, {1: (3,)})
    changed = with_assignments(topic, {0: Assignment((4, 1), (4,), ())})
    assert assignment_of(changed, 0) == Assignment((4, 1), (4,), ())
    assert assignment_of(changed, 1) == Assignment((2,), (2,), (3,))
    assert with_assignments(changed, {1: Assignment((2,))}).removing == {}
    assert assignment_of(topic, 2) is None
