from __future__ import annotations

import json
from random import Random

import pytest

from nemesis.base import Unavailable
from nemesis.faults import clock
from nemesis.faults.clock import Drift, Sample, Step, Strobe
from tests.support.fake_cluster import FakeView


def drifting(rate: float, jump_s: float = 0.0) -> list[Sample]:
    """Two seconds of samples, 0.1 s apart; the clock drifts in the second one only."""
    still = [Sample(i * 100_000_000, 0.0) for i in range(11)]
    return still + [Sample((10 + i) * 100_000_000, jump_s + (rate - 1) * i / 10) for i in range(1, 12)]


@pytest.mark.parametrize("rate", [0.3, 0.9, 1.1, 3.0])
def test_runs_at_judges_the_last_second_alone(rate: float) -> None:
    assert clock._runs_at(drifting(rate), rate)
    assert not clock._runs_at(drifting(rate), 2 - rate)
    assert not clock._runs_at(drifting(1.0), rate)
    assert not clock._runs_at([], rate)
    assert not clock._runs_at(drifting(rate)[-3:], rate)


def test_near_judges_the_newest_sample() -> None:
    found = [Sample(1, 100.0), Sample(2, 0.1)]
    assert clock._near(found, 0.0)
    assert not clock._near(found, 100.0)
    assert not clock._near([], 0.0)


def test_both_needs_the_right_and_the_wrong_clock() -> None:
    assert clock._both([Sample(1, 60.0), Sample(2, 0.0)], 60.0)
    assert not clock._both([Sample(1, 60.0)], 60.0)
    assert not clock._both([Sample(2, 0.0)], 60.0)


def test_samples_cut_and_torn_lines_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.dumps({"e": "hw", "w": 7_000_000_000, "m": 2_000_000_000})
    view = FakeView()
    monkeypatch.setattr(clock, "stamp", lambda node: (0, 4_000_000_000))
    answer = view.node("n1").run(["tail"])
    tail = type(answer)((), 0, f'":1}}\n{whole}\n{{"w":1\n[]\n', "")
    monkeypatch.setattr(view.node("n1"), "run", lambda *args, **kwargs: tail)
    assert clock.samples(view, "n1") == [Sample(2_000_000_000, 1.0)]


@pytest.mark.parametrize("fault", [Step(), Drift(), Strobe()])
def test_draw_zookeeper_server_is_unavailable(fault: Step | Drift | Strobe) -> None:
    with pytest.raises(Unavailable, match="zk1"):
        fault.draw(Random(1), FakeView(), "zk1")


def test_draw_ranges_hold_for_many_seeds() -> None:
    for seed in range(300):
        step = Step().draw(Random(seed), FakeView(), "one").params["offset_s"]
        rate = Drift().draw(Random(seed), FakeView(), "one").params["rate"]
        assert isinstance(step, float)
        assert isinstance(rate, float)
        assert 1.0 <= abs(step) <= 7 * 86400
        assert 0.3 <= rate <= 0.9 or 1.1 <= rate <= 3.0


def test_draw_wanted_parameter_wins() -> None:
    assert Step().draw(Random(1), FakeView(), "n2", {"offset_s": 5}).params == {"offset_s": 5}
