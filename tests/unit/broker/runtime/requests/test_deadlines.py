"""Time-outs on one timer."""

from __future__ import annotations

import pytest

from broker.runtime.requests.deadlines import Deadlines
from tests.support.fake_loop import FakeLoop

pytestmark = pytest.mark.guarantee("long-polls")


def run(loop: FakeLoop, until: float) -> None:
    while loop.run_due(until):
        pass
    loop.now = until


def test_late_items_are_reported_once_and_removed_ones_never() -> None:
    loop = FakeLoop()
    late: list[str] = []
    deadlines: Deadlines[str] = Deadlines(loop, late.append)
    deadlines.add("slow", 500.0)
    deadlines.add("quick", 100.0)
    deadlines.add("gone", 200.0)
    deadlines.remove("gone", 200.0)
    run(loop, loop.now + 99.0)
    assert late == []
    run(loop, loop.now + 2.0)
    assert late == ["quick"]
    run(loop, loop.now + 1000.0)
    assert late == ["quick", "slow"]
    assert len(deadlines) == 0


def test_item_added_while_late_ones_are_reported_gets_its_own_time() -> None:
    loop = FakeLoop()
    late: list[str] = []
    deadlines: Deadlines[str]

    def on_late(item: str) -> None:
        late.append(item)
        if item == "first":
            deadlines.add("second", 50.0)

    deadlines = Deadlines(loop, on_late)
    deadlines.add("first", 10.0)
    run(loop, loop.now + 40.0)
    assert late == ["first"]
    run(loop, loop.now + 30.0)
    assert late == ["first", "second"]


def test_item_whose_report_fails_keeps_none_of_the_others_waiting() -> None:
    loop = FakeLoop()
    late: list[str] = []

    def on_late(item: str) -> None:
        late.append(item)
        if item == "bad":
            raise RuntimeError("nobody foresaw this")

    deadlines: Deadlines[str] = Deadlines(loop, on_late)
    for item, timeout_ms in (("bad", 10.0), ("good", 10.0), ("later", 30.0)):
        deadlines.add(item, timeout_ms)
    run(loop, loop.now + 50.0)
    assert late == ["bad", "good", "later"]
