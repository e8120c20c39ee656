from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.nightly.shrink import Fired, shrink
from harness.plan.plan import FaultsPlan, Plan, TopicPlan, WorkloadPlan

FIRED = [Fired(number, 8.0 * number) for number in range(1, 8)]


def plan(*, producers: int = 6, consumers: int = 4, time_limit_s: float = 75.0) -> Plan:
    workload = WorkloadPlan(producers=producers, consumers=consumers, time_limit_s=time_limit_s)
    return Plan("a", TopicPlan("t", 1, 3), seed=7, workload=workload, faults=FaultsPlan(("kill",)))


def faults_of(one: Plan) -> tuple[int, ...]:
    assert one.faults is not None
    return tuple(fault.number for fault in FIRED) if one.faults.only is None else one.faults.only


def always() -> bool:
    return True


def test_what_fails_without_a_fault_needs_none() -> None:
    found = shrink(plan(), FIRED, lambda _: True, always)
    assert (faults_of(found.plan), found.whole) == ((), True)
    workload = found.plan.workload
    assert (workload.time_limit_s, workload.producers, workload.consumers) == (10.0, 1, 1)


def test_what_fails_only_as_a_whole_stays_what_it_was() -> None:
    began = plan()
    found = shrink(began, FIRED, lambda one: one == began, always)
    assert found.plan is began
    assert found.whole


@given(st.sets(st.sampled_from([fault.number for fault in FIRED]), min_size=1), st.integers(1, 6), st.integers(1, 4))
def test_exactly_the_faults_that_matter_are_left(needed: set[int], producers: int, consumers: int) -> None:
    """A model: it fails with these faults, with time for the last one, and with so many clients."""
    last_s = max(fault.end_s for fault in FIRED if fault.number in needed)

    def fails(one: Plan) -> bool:
        enough = one.workload.producers >= producers and one.workload.consumers >= consumers
        return needed <= set(faults_of(one)) and one.workload.time_limit_s * 0.85 >= last_s and enough

    found = shrink(plan(), FIRED, fails, always)
    assert fails(found.plan)
    assert set(faults_of(found.plan)) == needed
    assert found.plan.workload.time_limit_s <= (last_s + 2) / 0.85 + 1
    assert found.plan.workload.producers <= max(2 * producers, 1)
    assert found.tried < 60


@pytest.mark.parametrize("runs", [0, 1, 3, 7])
def test_without_time_the_smallest_that_failed_is_kept(runs: int) -> None:
    numbers = count(1)
    tried = []

    def fails(one: Plan) -> bool:
        tried.append(one)
        return set(faults_of(one)) >= {2, 5}

    def go_on() -> bool:
        return next(numbers) <= runs

    began = plan()
    found = shrink(began, FIRED, fails, go_on)
    assert len(tried) == found.tried <= runs
    assert not found.whole
    assert found.plan == began or fails(found.plan)


def test_run_without_random_faults_may_still_be_shorter() -> None:
    scripted = Plan("a", TopicPlan("t", 1, 3), seed=7, workload=WorkloadPlan(time_limit_s=60.0, producers=1))
    shortest: Callable[[Plan], bool] = lambda one: one.workload.time_limit_s >= 30  # noqa: E731
    found = shrink(scripted, [], shortest, always)
    assert 30 <= found.plan.workload.time_limit_s <= 36
