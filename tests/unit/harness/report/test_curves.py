"""Where curves have gaps, and what lags and strips are made of."""

from __future__ import annotations

from typing import Any

import pytest

from harness.report.curves import Stretch, Timeline, counted, per_second, unbroken
from tests.support.sample_run import SERIES

pytestmark = pytest.mark.guarantee("V6")

NAMES = {1: "n1", 2: "n2", 3: "n3"}


def timeline(**said: Any) -> Timeline:
    return Timeline({**SERIES["partitions"]["hw-0"], **said}, SERIES["duration_ns"])


def test_second_without_a_row_is_a_gap() -> None:
    assert per_second([(4, 2.0), (0, 1.0), (1, 1.5)]) == [[0, 1.0], [1, 1.5], [2, None], [4, 2.0], [5, None]]


def test_rate_of_a_second_without_a_row_is_zero() -> None:
    assert counted([(1, 5), (1, 2), (3, 7)], 4.5) == [[0, 0], [1, 7], [2, 0], [3, 7], [4, 0]]


def test_samples_far_apart_are_not_joined() -> None:
    assert unbroken([[0.0, 1.0], [1.0, 2.0], [4.0, 3.0]], 2.0) == [[0.0, 1.0], [1.0, 2.0], [1.0, None], [4.0, 3.0]]


def test_leader_is_the_last_that_became_one() -> None:
    assert timeline().leader_at(0.05) is None
    assert timeline().leader_at(2.499) == (1, 0)
    assert timeline().leader_at(2.5) == (2, 1)


def test_lag_is_taken_where_both_ends_are_known_to_belong_together() -> None:
    """HW and LEO are samples of different instants; both hold at the end of their slice."""
    leo, hw = [[1.001, 1, 5]], [[1.004, 1, 5]]
    uncommitted, _ = timeline(leo=[[0.5, 1, 3], *leo], hw=[[0.5, 1, 3], *hw], leader=[[0.1, 1, 0]]).lags()
    assert [value for _, value in uncommitted] == [0]


def test_lags_follow_the_leader() -> None:
    uncommitted, behind = timeline().lags()
    assert 1 in [value for _, value in behind[2]]
    # Broker 2 is behind nobody once it leads.
    assert behind[2][-1][1] is None
    assert uncommitted[0][1] == 0
    assert uncommitted[-1][0] is not None


def test_watermark_is_drawn_of_who_leads() -> None:
    lines = timeline().watermark()
    assert set(lines) == {1, 2}
    assert lines[1][-1][1] is None
    assert lines[2][-1][1] == 3


def test_strip_of_leaders_has_a_stretch_for_each() -> None:
    assert timeline().leaderships(NAMES) == [
        Stretch(0.1, 2.5, "1", "n1 led, epoch 0"),
        Stretch(2.5, 6.0, "2", "n2 led, epoch 1"),
    ]


def test_strip_of_a_broker_says_when_it_led_and_when_it_was_in_sync() -> None:
    assert timeline().roles(1, "n1") == [
        Stretch(0.1, 2.5, "leader", "n1 led, epoch 0"),
        Stretch(4.7, 6.0, "isr", "n1 in sync"),
    ]
    assert [one.state for one in timeline().roles(2, "n2")] == ["isr", "leader"]


def test_partition_without_events_has_nothing() -> None:
    empty = Timeline({}, 0)
    assert (empty.leaderships({}), empty.watermark(), empty.lags(), empty.brokers) == ([], {}, ([], {}), [])
