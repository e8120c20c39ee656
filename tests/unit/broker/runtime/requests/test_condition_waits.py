"""A wait for a condition ends once: when the condition holds, or when its time is over."""

from __future__ import annotations

import pytest

from broker.runtime.requests.condition_waits import Waits
from tests.support.fake_loop import FakeLoop


@pytest.mark.parametrize("holds_in_time", [True, False])
def test_wait_ends_once_either_way(holds_in_time: bool) -> None:
    loop = FakeLoop()
    waits = Waits(loop)
    state = {"holds": False}
    ended: list[str] = []
    waits.until(lambda: state["holds"], 100, lambda: ended.append("held"), lambda: ended.append("late"))
    waits.check()
    assert ended == []
    if holds_in_time:
        state["holds"] = True
        waits.check()
    loop.run_due(loop.now + 200)
    waits.check()
    assert ended == ["held" if holds_in_time else "late"]


def test_wait_that_cannot_be_ended_well_keeps_no_other_from_its_end() -> None:
    waits = Waits(FakeLoop())
    ended: list[str] = []
    holds: list[bool] = []

    def fails() -> None:
        raise ValueError("this cannot be said")

    waits.until(lambda: bool(holds), 100, fails, fails)
    waits.until(lambda: bool(holds), 100, lambda: ended.append("held"), fails)
    holds.append(True)
    waits.check()
    assert ended == ["held"]


def test_wait_without_time_ends_at_once() -> None:
    ended: list[str] = []
    Waits(FakeLoop()).until(lambda: False, 0, lambda: ended.append("held"), lambda: ended.append("late"))
    assert ended == ["late"]
