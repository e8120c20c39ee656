"""The leader role: committing, ISR changes, waiting appends."""

from __future__ import annotations

import pytest

from broker.core.replication.follower import SessionProgress
from broker.core.replication.isr import ResponseEffect
from broker.core.replication.leader import Leader
from broker.wire.errors import ErrorCode

pytestmark = pytest.mark.guarantee("R3", "R5", "R6", "isr-changes")

LAG_MS = 100.0


def leader(isr: tuple[int, ...] = (1, 2, 3), leo: int = 10, hw: int = 5, min_isr: int = 1, now: float = 0.0) -> Leader:
    return Leader(1, (1, 2, 3), isr, 7, 4, leo, hw, min_isr, LAG_MS, now)


def fetch(role: Leader, follower: int, offset: int, now: float = 0.0, broker_epoch: int = 50) -> None:
    assert role.check_fetch(follower, broker_epoch) is ErrorCode.NONE
    role.record_fetch(follower, offset, broker_epoch, now)


def test_watermark_waits_for_every_isr_member() -> None:
    role = leader()
    fetch(role, 2, 10)
    assert not role.maybe_advance_high_watermark(0.0)
    fetch(role, 3, 8)
    assert role.maybe_advance_high_watermark(0.0)
    assert role.high_watermark == 8


def test_watermark_of_a_lone_leader_is_its_end() -> None:
    role = leader(isr=(1,))
    assert role.maybe_advance_high_watermark(0.0)
    assert role.high_watermark == 10


def test_watermark_stands_below_min_isr() -> None:
    role = leader(isr=(1,), min_isr=2)
    assert not role.maybe_advance_high_watermark(0.0)
    assert role.high_watermark == 5


def test_watermark_stands_below_the_minimum_of_eligible_replicas_whatever_its_own_is() -> None:
    role = Leader(1, (1, 2, 3), (1,), 7, 4, 10, 5, 1, LAG_MS, 0.0, elr_min_isr=2)
    assert role.check_append(-1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert role.min_isr == 2
    assert not role.maybe_advance_high_watermark(0.0)
    role.learn_state((1, 2, 3), (1,), 5, 0.0)
    assert role.check_append(-1) is ErrorCode.NONE
    assert role.maybe_advance_high_watermark(0.0)


def test_minimum_of_eligible_replicas_comes_and_goes_with_the_isr_of_a_response() -> None:
    role = leader(isr=(1, 2))
    fetch(role, 2, 8)
    proposal = role.propose_shrink(101.0)
    assert proposal is not None
    role.handle_alter_response(proposal, 0, (1,), 5, 7, elr_min_isr=2)
    assert not role.maybe_advance_high_watermark(101.0)
    fetch(role, 2, 10, now=102.0)
    proposal = role.propose_expand(2, 102.0)
    assert proposal is not None
    role.handle_alter_response(proposal, ErrorCode.INELIGIBLE_REPLICA, (), -1, -1)
    assert role.under_min_isr
    proposal = role.propose_expand(2, 102.0)
    assert proposal is not None
    role.handle_alter_response(proposal, 0, (1, 2), 6, 7)
    assert role.maybe_advance_high_watermark(103.0)


def test_watermark_waits_for_a_caught_up_joiner() -> None:
    role = leader(isr=(1, 2))
    fetch(role, 2, 10)
    fetch(role, 3, 10)
    role.advance_leo(12)
    fetch(role, 2, 12)
    assert role.maybe_advance_high_watermark(1.0)
    assert role.high_watermark == 10
    # Once it is late it is not waited for any more.
    assert role.maybe_advance_high_watermark(LAG_MS + 1.0)
    assert role.high_watermark == 12


def test_watermark_does_not_wait_for_a_joiner_without_a_session() -> None:
    role = leader(isr=(1, 2))
    role.alive = {1, 2}
    fetch(role, 2, 10)
    fetch(role, 3, 10)
    role.advance_leo(12)
    fetch(role, 2, 12)
    assert role.maybe_advance_high_watermark(1.0)
    assert role.high_watermark == 12


@pytest.mark.parametrize(
    ("acks", "error"), [(-1, ErrorCode.NOT_ENOUGH_REPLICAS), (1, ErrorCode.NONE), (0, ErrorCode.NONE)]
)
def test_append_below_min_isr_is_refused_for_acks_all_only(acks: int, error: ErrorCode) -> None:
    assert leader(isr=(1,), min_isr=2).check_append(acks) is error


def test_min_isr_above_the_replication_factor_is_clamped() -> None:
    assert leader(min_isr=9).check_append(-1) is ErrorCode.NONE


def test_committed_but_short_isr_is_not_enough_after_append() -> None:
    role = leader(min_isr=2)
    for follower in (2, 3):
        fetch(role, follower, 10)
    assert role.check_committed(10) is None
    role.maybe_advance_high_watermark(0.0)
    assert role.check_committed(10) is ErrorCode.NONE
    role.learn_state((1, 2, 3), (1,), 5, 0.0)
    assert role.check_committed(10) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_shrink_drops_those_late_beyond_the_lag_time() -> None:
    role = leader()
    fetch(role, 2, 10, now=50.0)
    assert role.propose_shrink(100.0) is None
    proposal = role.propose_shrink(101.0)
    assert proposal is not None
    assert (proposal.kind, proposal.isr, proposal.partition_epoch) == ("shrink", (1, 2), 4)
    assert role.propose_shrink(500.0) is None


@pytest.mark.parametrize("isr", [(2,), (2, 3)])
def test_leader_that_the_isr_does_not_name_proposes_no_smaller_one(isr: tuple[int, ...]) -> None:
    """As a LeaderAndIsr may say that no controller makes: with all late, nobody would be left."""
    role = leader(isr=isr)
    assert role.propose_shrink(101.0) is None
    assert role.isr.pending is None


def test_committed_shrink_lets_the_watermark_rise() -> None:
    role = leader()
    fetch(role, 2, 10, now=50.0)
    proposal = role.propose_shrink(101.0)
    assert proposal is not None
    assert not role.maybe_advance_high_watermark(101.0)
    assert role.handle_alter_response(proposal, 0, (1, 2), 5, 7) is ResponseEffect.COMMITTED
    assert role.maybe_advance_high_watermark(101.0)
    assert role.high_watermark == 10


@pytest.mark.parametrize(("hw", "offset", "joins"), [(5, 9, False), (5, 10, True)])
def test_joiner_needs_the_start_of_the_epoch(hw: int, offset: int, joins: bool) -> None:
    # KAFKA-7128: between HW and the epoch's start there may be committed records.
    role = leader(isr=(1, 2), leo=10, hw=hw)
    fetch(role, 3, offset)
    assert (role.propose_expand(3, 0.0) is not None) == joins


def test_joiner_needs_the_watermark() -> None:
    role = leader(isr=(1, 2), leo=10, hw=5)
    role.advance_leo(20)
    fetch(role, 2, 20)
    role.maybe_advance_high_watermark(0.0)
    assert role.high_watermark == 20
    fetch(role, 3, 19)
    assert role.propose_expand(3, 0.0) is None
    fetch(role, 3, 20)
    proposal = role.propose_expand(3, 0.0)
    assert proposal is not None
    assert (proposal.isr, proposal.broker_epochs) == ((1, 2, 3), {2: 50, 3: 50})


def test_joiner_without_broker_epoch_or_session_does_not_join() -> None:
    role = leader(isr=(1, 2))
    fetch(role, 3, 10, broker_epoch=-1)
    assert role.propose_expand(3, 0.0) is None
    fetch(role, 3, 10, broker_epoch=51)
    role.alive = {1, 2}
    assert role.propose_expand(3, 0.0) is None
    role.alive = {1, 2, 3}
    assert role.propose_expand(3, 0.0) is not None


def test_refused_joiner_is_not_proposed_again_at_once() -> None:
    role = leader(isr=(1, 2))
    fetch(role, 3, 10)
    proposal = role.propose_expand(3, 0.0)
    assert proposal is not None
    assert role.handle_alter_response(proposal, ErrorCode.INELIGIBLE_REPLICA, (), -1, -1) is ResponseEffect.REVERTED
    role.defer_join(proposal, 500.0)
    assert role.propose_expand(3, 499.0) is None
    assert role.propose_expand(3, 500.0) is not None


def test_nobody_waits_for_a_refused_joiner_until_it_has_fetched_after_the_pause() -> None:
    role = leader(isr=(1, 2))
    fetch(role, 2, 10)
    fetch(role, 3, 10)
    proposal = role.propose_expand(3, 0.0)
    assert proposal is not None
    role.handle_alter_response(proposal, ErrorCode.INELIGIBLE_REPLICA, (), -1, -1)
    role.defer_join(proposal, 50.0)
    role.maybe_advance_high_watermark(0.0)
    role.advance_leo(12)
    fetch(role, 2, 12, now=60.0)
    assert role.maybe_advance_high_watermark(60.0), "its pause is over, but it was not heard of since"
    assert role.high_watermark == 12
    role.advance_leo(13)
    fetch(role, 3, 12, now=70.0)
    fetch(role, 2, 13, now=70.0)
    assert not role.maybe_advance_high_watermark(70.0)


def test_refused_joiners_next_incarnation_is_another_joiner() -> None:
    role = leader(isr=(1, 2))
    fetch(role, 3, 10, broker_epoch=50)
    proposal = role.propose_expand(3, 0.0)
    assert proposal is not None
    role.handle_alter_response(proposal, ErrorCode.INELIGIBLE_REPLICA, (), -1, -1)
    role.defer_join(proposal, 500.0)
    fetch(role, 3, 10, broker_epoch=51)
    again = role.propose_expand(3, 1.0)
    assert again is not None
    assert again.broker_epochs[3] == 51


def test_follower_whose_fetch_met_a_proposal_joins_next_and_a_silent_one_does_not() -> None:
    role = Leader(1, (1, 2, 3, 4), (1,), 7, 4, 10, 5, 1, LAG_MS, 0.0)
    fetch(role, 4, 10, now=0.0)
    fetch(role, 2, 10, now=100.0)
    proposal = role.propose_expand(2, 100.0)
    assert proposal is not None
    fetch(role, 3, 10, now=101.0)
    assert role.handle_alter_response(proposal, 0, (1, 2), 5, role.leader_epoch) is ResponseEffect.COMMITTED
    following = role.propose_next(102.0, fetched_since_ms=100.0)
    assert following is not None
    assert following.isr == (1, 2, 3)
    role.handle_alter_response(following, 0, (1, 2, 3), 6, role.leader_epoch)
    assert role.propose_next(102.0, fetched_since_ms=100.0) is None


def test_fetch_of_an_unassigned_replica_is_refused() -> None:
    assert leader().check_fetch(9, 50) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_fetch_of_a_dead_incarnation_is_refused() -> None:
    role = leader()
    fetch(role, 2, 10, broker_epoch=50)
    assert role.check_fetch(2, 49) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_offsets_are_available_once_the_watermark_reaches_the_epoch() -> None:
    role = leader()
    assert not role.offsets_available
    for follower in (2, 3):
        fetch(role, follower, 10)
    role.maybe_advance_high_watermark(0.0)
    assert role.offsets_available


def test_removed_member_must_catch_up_again_before_it_is_waited_for() -> None:
    role = leader()
    for follower in (2, 3):
        fetch(role, follower, 10)
    role.learn_state((1, 2, 3), (1, 2), 5, 1.0)
    role.advance_leo(12)
    fetch(role, 2, 12, now=1.0)
    assert role.maybe_advance_high_watermark(1.0)
    assert role.high_watermark == 12


def test_member_that_a_committed_shrink_removed_must_catch_up_again_before_it_is_waited_for() -> None:
    role = leader()
    session_progress = SessionProgress()
    fetch(role, 2, 10, now=100.0)
    fetch(role, 3, 9)
    role.count_by_session(3, session_progress)
    proposal = role.propose_shrink(101.0)
    assert proposal is not None
    # It catches up while the controller decides.
    fetch(role, 3, 10, now=102.0)
    assert role.handle_alter_response(proposal, 0, (1, 2), 5, 7) is ResponseEffect.COMMITTED
    assert session_progress.lost, "each of its fetches must be counted again: one of them may let it join"
    role.advance_leo(12)
    fetch(role, 2, 12, now=103.0)
    assert role.maybe_advance_high_watermark(103.0)
    assert role.high_watermark == 12


def test_reassigned_replica_is_tracked_and_a_removed_one_forgotten() -> None:
    role = leader()
    role.learn_state((1, 2, 4), (1, 2), 5, 1.0)
    assert sorted(role.followers) == [2, 4]
    assert role.check_fetch(3, 50) is ErrorCode.UNKNOWN_LEADER_EPOCH
