"""Who is out of date."""

from __future__ import annotations

import pytest

from broker.core.replication.fencing import (
    check_broker_epoch,
    check_controller_epoch,
    check_current_leader_epoch,
    check_follower_broker_epoch,
    check_state_change,
)
from broker.wire.errors import ErrorCode

pytestmark = pytest.mark.guarantee("R10")


@pytest.mark.parametrize(
    ("requested", "error"),
    [
        (-1, ErrorCode.NONE),
        (5, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_current_leader_epoch(requested: int, error: ErrorCode) -> None:
    assert check_current_leader_epoch(requested, 5) is error


def test_older_controller_is_stale_and_the_same_or_newer_is_not() -> None:
    assert check_controller_epoch(4, 5) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert check_controller_epoch(5, 5) is ErrorCode.NONE
    assert check_controller_epoch(6, 5) is ErrorCode.NONE


@pytest.mark.parametrize(("requested", "stale"), [(-1, False), (9, False), (8, True), (10, True)])
def test_broker_epoch_must_be_this_registration(requested: int, stale: bool) -> None:
    assert (check_broker_epoch(requested, 9) is ErrorCode.STALE_BROKER_EPOCH) == stale


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "news"),
    [(4, 99, False), (5, 6, False), (5, 7, False), (5, 8, True), (6, 0, True)],
)
def test_state_is_news_by_leader_epoch_then_partition_epoch(
    leader_epoch: int, partition_epoch: int, news: bool
) -> None:
    assert (check_state_change(leader_epoch, partition_epoch, 5, 7) is ErrorCode.NONE) == news


def test_follower_of_an_older_registration_is_refused() -> None:
    assert check_follower_broker_epoch(3, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert check_follower_broker_epoch(4, 4) is ErrorCode.NONE
    assert check_follower_broker_epoch(5, 4) is ErrorCode.NONE
