from __future__ import annotations

from random import Random

import pytest

from nemesis.base import Unavailable
from nemesis.faults.files import of_one_run
from nemesis.faults.power import SYNCED, PowerFailure
from tests.support.fake_cluster import FakeNode, FakeView

pytestmark = pytest.mark.guarantee("H5")


class Disks:
    """In place of `harness.nodes.disks`: what was done to which node's, and in which state its process was then."""

    def __init__(self, *, without: str | None = None) -> None:
        self.done: list[tuple[str, str, str | None]] = []
        self.without = without

    def missing(self, node: FakeNode) -> str | None:
        return "no loop devices" if node.name == self.without else None

    def attached(self, node: FakeNode, folder: str) -> bool:
        assert folder == f"/{node.name}/data"
        return node.name != self.without

    def log_bytes(self, node: FakeNode, _folder: str) -> int:
        return 60 if ("restore", node.name, None) in self.done else 100

    def cut(self, node: FakeNode, _folder: str) -> None:
        self.done.append(("cut", node.name, node.state))

    def restore(self, node: FakeNode, _folder: str) -> None:
        self.done.append(("restore", node.name, node.state))


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    made = Disks()
    monkeypatch.setattr("nemesis.faults.power.disks", made)
    return made


def test_all_stand_still_before_the_first_disk_ends_and_are_gone_before_one_is_back(disks: Disks) -> None:
    view, fault = FakeView(), PowerFailure(SYNCED)
    injection = fault.draw(Random(1), view, "all")
    seen = fault.start(view, injection)
    assert seen.seen, seen.text
    assert disks.done == [
        *(("cut", name, "T") for name in ("n1", "n2", "n3")),
        *(("restore", name, None) for name in ("n1", "n2", "n3")),
    ]
    assert "n2: segments of 100 bytes, after the cut of 60" in seen.text
    assert view.expected_down == {"n1", "n2", "n3"}
    assert fault.stop(view, injection).seen
    assert [node.state for node in view.brokers] == ["S"] * 3


def test_without_a_disk_nothing_is_done(disks: Disks) -> None:
    disks.without = "n2"
    view, fault = FakeView(), PowerFailure(SYNCED)
    assert fault.probe(view) == "no loop devices"
    assert not fault.start(view, fault.draw(Random(1), view, "all")).seen
    assert disks.done == []
    assert [node.state for node in view.brokers] == ["S"] * 3


def test_power_of_a_broker_that_was_down_fails_and_is_not_observed(disks: Disks) -> None:
    view, fault = FakeView(), PowerFailure(SYNCED)
    view.node("n3").state = None
    assert not fault.start(view, fault.draw(Random(1), view, "n3")).seen
    assert disks.done == [("cut", "n3", None), ("restore", "n3", None)]


def test_zookeeper_has_no_disk_that_can_lose_power(disks: Disks) -> None:
    with pytest.raises(Unavailable, match="zk1: only brokers have a disk that can lose power"):
        PowerFailure(SYNCED).draw(Random(1), FakeView(), "zk1")


def test_unsynced_power_failures_of_single_nodes_and_file_faults_hurt_one_node_only(disks: Disks) -> None:
    faults = of_one_run()
    victims = {
        faults[n % 4].draw(Random(n), FakeView(), target).targets
        for n, target in enumerate(["leader", "follower", "one", "minority", "controller", "follower", "one", "leader"])
    }
    assert len(victims) == 1
    unsynced = faults[3]
    assert unsynced.draw(Random(0), FakeView(), "all").targets == ("n1", "n2", "n3")
    (victim,) = next(iter(victims))
    other = next(name for name in ("n1", "n2", "n3") if name != victim)
    with pytest.raises(Unavailable, match=f"files of {victim} were damaged before"):
        unsynced.draw(Random(0), FakeView(), other)
