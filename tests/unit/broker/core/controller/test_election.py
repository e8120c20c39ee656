"""Single elections, by example."""

from __future__ import annotations

import pytest

from broker.core.controller import election
from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr
from broker.core.controller.elr import CLEAN, ReplicaReport

pytestmark = pytest.mark.guarantee("R1", "R13", "elections")

REPLICAS = (1, 2, 3)


def state(leader: int, isr: tuple[int, ...], epoch: int = 5) -> LeaderAndIsr:
    return LeaderAndIsr(leader, epoch, isr, 1, 9)


def test_new_partition_starts_with_all_live_replicas_in_order() -> None:
    first = election.initial((3, 1, 2), {1, 2}, 4)
    assert first is not None
    assert (first.leader, first.leader_epoch, first.isr, first.controller_epoch) == (1, 0, (1, 2), 4)
    assert election.initial((3,), {1, 2}, 4) is None


@pytest.mark.parametrize(
    ("isr", "live", "unclean", "leader", "new_isr"),
    [
        ((3, 2, 1), {2, 3}, False, 2, (2, 3)),
        ((3,), {2, 3}, False, 3, (3,)),
        ((1,), {2, 3}, False, None, None),
        ((1,), {2, 3}, True, 2, (2,)),
        ((1,), set(), True, None, None),
        ((1, 3), {2, 3}, True, 3, (3,)),
    ],
)
def test_elect_prefers_assignment_order_within_isr(
    isr: tuple[int, ...], live: set[int], unclean: bool, leader: int | None, new_isr: tuple[int, ...] | None
) -> None:
    after = election.elect(state(1, isr), REPLICAS, live, unclean)
    if leader is None:
        assert after is None
        return
    assert after is not None
    assert (after.leader, after.isr, after.leader_epoch) == (leader, new_isr, 6)
    assert after.recovering == (leader not in isr)


def test_failure_of_whole_isr_keeps_isr_and_removes_leader() -> None:
    after = election.after_failure(state(1, (1, 2)), REPLICAS, {3}, {1, 2}, unclean=False)
    assert after is not None
    assert (after.leader, after.isr, after.leader_epoch) == (NO_LEADER, (1, 2), 6)


def test_failure_of_follower_keeps_leader_under_new_epoch() -> None:
    after = election.after_failure(state(1, (1, 2, 3)), REPLICAS, {1, 3}, {2}, unclean=False)
    assert after is not None
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1, 3), 6)


def test_failure_outside_isr_changes_nothing() -> None:
    assert election.after_failure(state(1, (1, 3)), REPLICAS, {1, 3}, {2}, unclean=False) is None
    assert election.after_failure(state(NO_LEADER, (1,)), REPLICAS, {3}, {2}, unclean=False) is None


def test_state_whose_leader_is_not_in_its_isr_gets_a_leader() -> None:
    after = election.after_failure(state(1, (2, 3)), REPLICAS, {1, 2}, {3}, unclean=False)
    assert after is not None
    assert (after.leader, after.isr) == (2, (2,))


def test_shutdown_moves_leader_and_leaves_isr() -> None:
    after = election.for_shutdown(state(1, (1, 2, 3)), REPLICAS, {2, 3}, 1)
    assert after is not None
    assert (after.leader, after.isr) == (2, (2, 3))


def test_shutdown_of_last_isr_member_is_not_possible() -> None:
    assert election.for_shutdown(state(1, (1,)), REPLICAS, {2, 3}, 1) is None


def test_shutdown_of_follower_keeps_leader() -> None:
    after = election.for_shutdown(state(1, (1, 2)), REPLICAS, {1, 3}, 2)
    assert after is not None
    assert (after.leader, after.isr) == (1, (1,))


def test_preferred_only_when_first_replica_is_live_and_in_sync() -> None:
    moved = election.preferred(state(2, (1, 2)), REPLICAS, {1, 2})
    assert moved is not None
    assert (moved.leader, moved.isr) == (1, (1, 2))
    assert election.preferred(state(2, (2,)), REPLICAS, {1, 2}) is None
    assert election.preferred(state(2, (1, 2)), REPLICAS, {2}) is None
    assert election.preferred(state(1, (1, 2)), REPLICAS, {1, 2}) is None


@pytest.mark.parametrize(
    "report", [ReplicaReport(False, 1000), ReplicaReport(False, 5, known_epoch=1000), ReplicaReport(True, 1000)]
)
def test_leader_that_is_elected_on_its_report_gets_an_epoch_that_its_log_has_not(report: ReplicaReport) -> None:
    after = election.elect(state(NO_LEADER, (1,)), (1,), {1}, False, {1: report}.get)
    assert after is not None
    assert (after.leader, after.leader_epoch) == (1, 1001)


def test_unclean_leader_gets_an_epoch_that_its_log_has_not() -> None:
    after = election.elect(state(NO_LEADER, (1,)), REPLICAS, {2}, True, {2: ReplicaReport(False, 1000)}.get)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.recovering) == (2, 1001, True)


def test_epoch_of_another_log_or_an_older_one_changes_nothing() -> None:
    reports = {1: ReplicaReport(False, 3), 2: ReplicaReport(False, 1000)}
    after = election.elect(state(NO_LEADER, (1,)), REPLICAS, {1, 2}, False, reports.get)
    assert after is not None
    assert (after.leader, after.leader_epoch) == (1, 6)


def test_epoch_that_leaves_no_room_for_newer_ones_leads_nothing() -> None:
    """No later election could be written."""
    damaged = ReplicaReport(False, 2**31 - 1)
    assert election.elect(state(NO_LEADER, (1,)), (1,), {1}, True, {1: damaged}.get) is None
    after = election.elect(state(NO_LEADER, (1, 2)), REPLICAS, {1, 2}, False, {1: damaged, 2: CLEAN}.get)
    assert after is not None
    assert (after.leader, after.isr) == (2, (2,))
    before = state(NO_LEADER, (1,), epoch=2**31 - 10)
    after = election.elect(before, (1,), {1}, False, {1: ReplicaReport(False, 2**31 - 11)}.get)
    assert after is not None
    assert after.leader_epoch == 2**31 - 9, "it came so far by elections, unlikely as that is"
