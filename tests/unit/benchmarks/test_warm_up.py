"""When a system is warm: costs that no longer move, on the same terms for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from benchmarks import warm_up as subject
from benchmarks.bench import Bench
from benchmarks.measure.guard import VoidRun
from benchmarks.process import BenchmarkFailed
from benchmarks.rows.base import Found, Row
from benchmarks.warm_up import BRIEF, WarmUp, is_close, loads, warm_up


class Nobody:
    """No cluster; what touching memory does is for a test to say."""

    def __init__(self, touched: Callable[[], object] = lambda: None) -> None:
        self.pretouch = touched


NOBODY = cast(Bench, Nobody())


class Load(Row):
    """Costs what it is told to, pass by pass; the last one for ever."""

    group = "Load"
    name = "l"

    def __init__(self, *costs: float | Exception) -> None:
        self._costs = list(costs)
        self.passes = 0

    def run(self, bench: Bench, found: Found) -> None:
        cost = self._costs[min(self.passes, len(self._costs) - 1)]
        self.passes += 1
        if isinstance(cost, Exception):
            raise cost
        found["cost"] = cost


def warmed(monkeypatch: pytest.MonkeyPatch, kinds: Sequence[Load], wanted: WarmUp, clock: Any = lambda: 0.0) -> Any:
    monkeypatch.setattr(subject, "loads", lambda _: [(kind, "cost") for kind in kinds])
    return warm_up(NOBODY, wanted, clock=clock)


@pytest.mark.parametrize(
    ("costs", "close"),
    [([], False), ([1.0], False), ([1.0, 0.96], True), ([1.0, 0.94], False), ([0.94, 1.0], False), ([0.0, 0.0], False)],
)
def test_costs_are_close_when_the_last_two_differ_by_less_than_a_twentieth(costs: list[float], close: bool) -> None:
    assert is_close(costs) is close


def test_each_load_is_repeated_until_it_costs_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    steady, falling = Load(1.0), Load(8.0, 4.0, 2.0, 2.0)
    result = warmed(monkeypatch, [steady, falling], WarmUp(1, 10, 99.0))
    assert (steady.passes, falling.passes) == (2, 4)
    assert (result.kinds, result.passes, result.moving) == (2, 6, ())


def test_what_still_moves_after_all_passes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    result = warmed(monkeypatch, [Load(8.0, 4.0, 2.0, 1.0)], WarmUp(1, 3, 99.0))
    assert result.moving == ("Load, l (8 → 4 → 2)",)
    assert "still moving" in result.text
    assert result.facts() == {"warm_up_s": 0.0, "warm_up_passes": 3.0, "warm_up_moving": 1.0}


def test_after_its_seconds_every_load_has_had_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 30))
    kinds = [Load(8.0, 4.0), Load(8.0, 4.0)]
    warmed(monkeypatch, kinds, WarmUp(1, 5, 10.0), clock=lambda: float(next(now)))
    assert [kind.passes for kind in kinds] == [2, 2]


def test_seconds_begin_when_memory_was_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes most of a minute for the system that is first, and none of its load."""
    now = [0.0]
    monkeypatch.setattr(subject, "loads", lambda _: [(Load(4.0, 2.0, 1.0), "cost")])
    slow = cast(Bench, Nobody(lambda: now.append(60.0)))
    assert warm_up(slow, WarmUp(1, 3, 10.0), clock=lambda: now[-1]).passes == 3


def test_pass_that_is_void_is_followed_by_others_and_one_that_cannot_be_made_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    void = Load(VoidRun("ISR"), 2.0, 2.0)
    assert warmed(monkeypatch, [void], WarmUp(1, 9, 99.0)).moving == ()
    with pytest.raises(BenchmarkFailed, match="warm-up, Load, l: broker 1 ended"):
        warmed(monkeypatch, [Load(BenchmarkFailed("broker 1 ended"))], WarmUp(1, 9, 99.0))


def test_loads_are_all_kinds_that_plans_measure_or_those_of_the_wanted_groups() -> None:
    every = loads(WarmUp(100_000_000, 1, 1.0))
    names = [(row.group, row.name) for row, _ in every]
    assert len(set(names)) == len(names)
    acks = {row.name.partition(",")[0] for row, _ in every if row.group == "One record a request"}
    assert acks == {"acks=all", "acks=1"}
    assert frozenset(row.group for row, _ in loads(BRIEF)) == BRIEF.groups
    assert all(cost in row.metrics for row, cost in every)
