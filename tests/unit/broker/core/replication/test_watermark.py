"""HW: smallest LEO that counts, never back."""

from __future__ import annotations

import pytest

from broker.core.replication.watermark import effective_min_isr, follower_high_watermark, high_watermark

pytestmark = pytest.mark.guarantee("R3")


def test_high_watermark_of_the_published_example_is_3() -> None:
    assert high_watermark({1: 5, 2: 3, 3: 4}, {1, 2, 3}, 0) == 3


def test_high_watermark_counts_required_replicas_only() -> None:
    assert high_watermark({1: 5, 2: 3, 3: 4}, {1, 3}, 0) == 4


def test_high_watermark_never_moves_back() -> None:
    assert high_watermark({1: 5, 2: 3}, {1, 2}, 4) == 4


def test_high_watermark_stands_while_a_required_replica_is_unknown() -> None:
    assert high_watermark({1: 5}, {1, 2}, 2) == 2


@pytest.mark.parametrize(("wanted", "replicas", "effective"), [(1, 3, 1), (2, 3, 2), (3, 2, 2), (2, 1, 1)])
def test_min_isr_is_clamped_to_the_replicas_there_are(wanted: int, replicas: int, effective: int) -> None:
    assert effective_min_isr(wanted, replicas) == effective


@pytest.mark.parametrize(("leader", "own_leo", "current", "now"), [(9, 5, 2, 5), (4, 5, 2, 4), (1, 5, 2, 2)])
def test_follower_watermark_is_the_leaders_within_its_own_log(
    leader: int, own_leo: int, current: int, now: int
) -> None:
    assert follower_high_watermark(leader, own_leo, current) == now
