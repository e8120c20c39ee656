from __future__ import annotations

import signal
from random import Random

import pytest

from nemesis.base import Injection
from nemesis.faults import deposed
from nemesis.faults.deposed import DeposeController
from tests.support.fake_cluster import FakeNode, FakeView

pytestmark = pytest.mark.guarantee("H5")


class View(FakeView):
    """Elects another controller once the one it has stands still."""

    elects = True

    def controller(self) -> str | None:
        if self.elects and self.node("n1").state == "T":
            self.controller_name = "n3"
        return self.controller_name


def test_targets_are_the_controller_and_a_leader_whatever_the_mix_names() -> None:
    view, fault = View(), DeposeController()
    for seed in range(20):
        injection = fault.draw(Random(seed), view, "follower")
        assert injection.targets == ("n1", "n2")
        after_ms = injection.params["after_ms"]
        assert isinstance(after_ms, float)
        assert 0 <= after_ms <= deposed.LATEST_MS
    view.leaders = {0: "n1"}
    assert {fault.draw(Random(seed), view, "one").targets for seed in range(20)} == {("n1", "n2"), ("n1", "n3")}


def test_leader_is_told_to_stop_before_the_controller_stands_still_and_the_controller_goes_on_first() -> None:
    order: list[str] = []

    class Node(FakeNode):
        def signal(self, name: str, signal_number: int) -> None:
            super().signal(name, signal_number)
            order.append(f"{self.name} {signal.Signals(signal_number).name}")

    view = View()
    view.brokers = [Node(f"n{i}", f"10.0.0.{i}") for i in (1, 2, 3)]
    fault = DeposeController(sleep=lambda seconds: order.append(f"{seconds * 1000:g} ms"))
    injection = Injection("depose-controller", ("n1", "n2"), {"after_ms": 25.0})
    seen = fault.start(view, injection)
    assert seen.seen, seen.text
    assert order == ["n2 SIGTERM", "25 ms", "n1 SIGSTOP"]
    assert "controller is now n3" in seen.text
    assert view.expected_down == {"n2"}
    assert fault.stop(view, injection).seen
    assert order[3:] == ["n1 SIGCONT"]
    assert [node.state for node in view.brokers] == ["S"] * 3


def test_not_observed_while_no_other_controller_is_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deposed, "ELECTED_S", 0.05)
    view = View()
    view.elects = False
    fault = DeposeController(sleep=lambda _: None)
    injection = Injection("depose-controller", ("n1", "n2"), {"after_ms": 1.0})
    seen = fault.start(view, injection)
    assert not seen.seen
    assert "controller is now n1" in seen.text
    assert fault.stop(view, injection).seen
