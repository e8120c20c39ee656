from __future__ import annotations

import pytest

from harness.runs.console.figures import KEPT_S, RATE_WINDOW_S, PerSecond, percentile


def test_per_second_series_has_a_zero_for_every_second_without_anything() -> None:
    counts = PerSecond(10.0)
    for at_s in (10.1, 10.9, 13.5, 14.2):
        counts.add(at_s, "ok")
    assert counts.series(14.9, "ok") == [2, 0, 0, 1]
    assert counts.series(15.0, "ok") == [2, 0, 0, 1, 1]
    assert counts.series(15.0, "fail") == [0, 0, 0, 0, 0]


def test_per_second_series_is_bounded_and_its_oldest_go_first() -> None:
    counts = PerSecond(0.0)
    for second in range(2 * KEPT_S):
        for _ in range(second):
            counts.add(second + 0.5, "ok")
    assert counts.series(2.0 * KEPT_S, "ok") == list(range(KEPT_S, 2 * KEPT_S))


def test_per_second_rate_leaves_out_the_second_under_way() -> None:
    counts = PerSecond(0.0)
    assert counts.rate(0.9, "ok") == 0.0
    for second in range(20):
        for _ in range(7):
            counts.add(second + 0.3, "ok")
    assert counts.rate(20.4, "ok") == 7.0
    assert counts.rate(20.0 + RATE_WINDOW_S, "ok") == 0.0


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([4], 0.5, 4), ([4], 0.99, 4), ([1, 2], 0.5, 1), ([1, 2], 0.51, 2), (list(range(1, 201)), 0.99, 198)],
)
def test_percentile_is_a_value_that_was_seen(values: list[int], share: float, expected: int) -> None:
    assert percentile(values, share) == expected
