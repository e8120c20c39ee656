from __future__ import annotations

from benchmarks.time_limit import Limit


def test_plans_share_the_minutes_by_what_they_are_estimated_to_take() -> None:
    now = [0.0]
    limit = Limit(100, clock=lambda: now[0])
    limit.begin([7200, 2400])
    now[0] = 75 * 60
    assert limit.why_over() is None
    now[0] += 1
    assert limit.why_over() == "its share of 100 minutes is over"
    limit.begin([2400])
    assert limit.why_over() is None
    now[0] = 100 * 60 + 1
    assert limit.why_over() is not None


def test_what_one_plan_leaves_is_for_those_after_it() -> None:
    now = [0.0]
    limit = Limit(100, clock=lambda: now[0])
    limit.begin([7200, 2400])
    now[0] = 60.0
    limit.begin([2400])
    now[0] = 99 * 60
    assert limit.why_over() is None


def test_without_minutes_it_is_never_over() -> None:
    now = [0.0]
    limit = Limit(None, clock=lambda: now[0])
    limit.begin([1])
    now[0] = 1e9
    assert limit.why_over() is None
