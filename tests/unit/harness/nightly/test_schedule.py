from __future__ import annotations

import pytest

from harness.nightly.jobs import Job, Result
from harness.nightly.schedule import Schedule, lanes_of
from harness.runs.trouble import INFRASTRUCTURE, SYSTEM

GOOD = Result(0, 60.0, "", None)
NODES_FAILED = Result(255, 1.0, "", None, trouble=INFRASTRUCTURE)


def job(name: str) -> Job:
    return Job(f"{name}.toml", name, "digest", 1, "valid")


A, B, C = job("a"), job("b"), job("c")


def schedule(*jobs: Job, left_s: float | None = None, expected_s: dict[str, float] | None = None) -> Schedule:
    known = expected_s or {}
    return Schedule(jobs, {}, 1, lambda: left_s, lambda one: known.get(one.name))


def test_what_is_done_is_not_due() -> None:
    due = Schedule([A, B, C], {A.key: GOOD, B.key: NODES_FAILED}, 1, lambda: None, lambda _: None)
    assert [due.next(), due.next(), due.next()] == [B, C, None]


def test_what_would_end_too_late_is_left_out_and_shorter_ones_are_not() -> None:
    due = schedule(A, B, C, left_s=100.0, expected_s={"a": 101.0, "b": 99.0})
    assert [due.next(), due.next(), due.next()] == [B, C, None]
    assert due.not_run == [A]


def test_nothing_begins_when_no_time_is_left() -> None:
    due = schedule(A, left_s=0.0)
    assert due.next() is None
    assert due.not_run == [A]


def test_failed_nodes_get_their_run_tried_again_once() -> None:
    due = schedule(A, B)
    assert due.next() is A
    assert due.done(A, NODES_FAILED)
    assert [due.next(), due.next(), due.next()] == [B, A, None]
    assert not due.done(A, NODES_FAILED)
    assert due.next() is None


def test_system_that_does_not_come_up_is_no_reason_to_try_again() -> None:
    """A broker that starts at the second try is a finding."""
    due = schedule(A)
    due.next()
    assert not due.done(A, Result(255, 1.0, "", None, trouble=SYSTEM))


def test_what_is_given_up_counts_as_not_run() -> None:
    due = schedule(A, B)
    due.next()
    due.give_up()
    assert due.next() is None
    assert due.not_run == [B]


@pytest.mark.parametrize(("cores", "lanes"), [(1, 1), (2, 1), (3, 1), (4, 2), (16, 8)])
def test_a_lane_takes_two_cores(cores: int, lanes: int) -> None:
    assert lanes_of(cores) == lanes
