"""What a leader believes of a follower."""

from __future__ import annotations

import pytest

from broker.core.replication.follower import NEVER, FollowerProgress
from broker.core.replication.watermark import UNKNOWN_OFFSET

pytestmark = pytest.mark.guarantee("R6")

LAG_MS = 100.0


def test_isr_member_has_the_lag_time_to_come() -> None:
    member = FollowerProgress(2, True, 1000.0)
    assert member.is_caught_up(50, 1100.0, LAG_MS)
    assert not member.is_caught_up(50, 1101.0, LAG_MS)


def test_stranger_is_not_caught_up_until_it_fetches_at_the_end() -> None:
    stranger = FollowerProgress(2, False, 1000.0)
    assert not stranger.is_caught_up(50, 1000.0, LAG_MS)
    stranger.record_fetch(50, 7, 50, 1001.0)
    assert stranger.is_caught_up(60, 1101.0, LAG_MS)


def test_reaching_the_end_of_the_previous_fetch_counts_for_that_time() -> None:
    follower = FollowerProgress(2, False, 0.0)
    follower.record_fetch(0, 7, 10, 1000.0)
    follower.record_fetch(10, 7, 20, 1050.0)
    assert follower.caught_up_ms == 1000.0


def test_slow_follower_under_load_falls_behind() -> None:
    follower = FollowerProgress(2, True, 1000.0)
    for step in range(1, 20):
        follower.record_fetch(step, 7, step * 10, 1000.0 + step * 10)
    assert not follower.is_caught_up(190, 1190.0, LAG_MS)


def test_new_broker_epoch_voids_everything_known() -> None:
    follower = FollowerProgress(2, True, 1000.0)
    follower.record_fetch(50, 7, 50, 1010.0)
    assert follower.record_fetch(20, 8, 50, 1020.0)
    assert (follower.leo, follower.broker_epoch, follower.caught_up_ms) == (20, 8, NEVER)


def test_first_fetch_keeps_the_grace_of_becoming_leader() -> None:
    follower = FollowerProgress(2, True, 1000.0)
    follower.record_fetch(20, 8, 50, 1020.0)
    assert follower.caught_up_ms == 1000.0


def test_nothing_is_known_before_the_first_fetch() -> None:
    assert FollowerProgress(2, True, 0.0).leo == UNKNOWN_OFFSET
