from __future__ import annotations

import json
from random import Random

import pytest

from harness.nodes.base import Completed
from nemesis.base import Observation, Unavailable
from nemesis.faults.files import Victim, file_faults
from tests.support.fake_cluster import FakeNode, FakeView


class DamagedNode(FakeNode):
    """Answers the damaging program with what it is told to."""

    def __init__(self, name: str, address: str, damage: dict[str, object]) -> None:
        super().__init__(name, address)
        self.damage = damage
        self.programs: list[list[str]] = []

    def run(self, argv: object, **options: object) -> Completed:
        assert isinstance(argv, list)
        self.programs.append(argv[-5:])
        return Completed(tuple(argv), 0, json.dumps(self.damage), "")


SEEN: dict[str, object] = {"file": "hw-0/0.log", "size": 900, "position": 70, "seen": True}


def _view(damage: dict[str, object] = SEEN) -> FakeView:
    view = FakeView()
    view.brokers = [DamagedNode(f"n{i}", f"10.0.0.{i}", damage) for i in (1, 2, 3)]
    return view


def test_file_faults_of_a_run_hurt_one_node_only() -> None:
    faults = file_faults(Victim())
    victims = {
        faults[n % 3].draw(Random(n), _view(), target).targets
        for n, target in enumerate(["leader", "follower", "one", "all", "minority", "controller"])
    }
    assert victims == {("n2",)}


def test_file_fault_of_a_named_node_is_unavailable_when_another_was_hurt() -> None:
    bitflip, truncate, _ = file_faults(Victim())
    assert bitflip.draw(Random(0), _view(), "n3").targets == ("n3",)
    with pytest.raises(Unavailable, match="files of n3 were damaged before: n1 is to keep whole ones"):
        truncate.draw(Random(0), _view(), "n1")


def test_file_fault_kills_first_and_starts_again_where_the_broker_is_to_be_down() -> None:
    view = _view()
    (bitflip, *_) = file_faults(Victim())
    injection = bitflip.draw(Random(0), view, "n1", {"while": "down", "file": "segment", "seed": 5})
    observation = bitflip.start(view, injection)
    node = view.node("n1")
    assert observation.seen
    assert "gone" in observation.text
    assert "n1: bitflip hw-0/0.log at 70 of 900 bytes" in observation.text
    assert observation.file == "hw-0/0.log"
    assert (node.state, view.expected_down) == (None, {"n1"})
    assert isinstance(node, DamagedNode)
    assert node.programs[-1] == ["/n1/data", "hw", "bitflip", "segment", "5"]
    assert bitflip.stop(view, injection).seen
    assert node.state == "S"


def test_file_fault_leaves_a_broker_alone_that_is_to_be_up() -> None:
    view = _view()
    (bitflip, *_) = file_faults(Victim())
    injection = bitflip.draw(Random(0), view, "n1", {"while": "up", "seed": 5})
    assert bitflip.start(view, injection).seen
    assert view.node("n1").signals == []
    assert bitflip.stop(view, injection).seen


def test_file_fault_that_finds_no_file_is_not_observed() -> None:
    view = _view({"file": None, "why": "no segment file of topic hw holds anything"})
    (bitflip, *_) = file_faults(Victim())
    observation = bitflip.start(view, bitflip.draw(Random(0), view, "n1", {"while": "up"}))
    assert not observation.seen
    assert "holds anything" in observation.text


def test_file_fault_with_parameters_that_mean_nothing_is_refused() -> None:
    (bitflip, *_) = file_faults(Victim())
    with pytest.raises(ValueError, match="bitflip: file is one of segment, oldest-segment, index, checkpoint"):
        bitflip.draw(Random(0), _view(), "n1", {"file": "snapshots"})


@pytest.mark.parametrize(
    ("replicas", "copies", "missing"),
    [
        (3, 2, None),
        (3, 1, "set min.insync.replicas to 2 or more"),
        (2, 2, "replication factor 2: below 3"),
        (1, 1, "replication factor 1: below 3"),
    ],
)
def test_file_faults_need_another_copy_of_what_is_acknowledged(replicas: int, copies: int, missing: str | None) -> None:
    view = _view()
    view.replicas, view.copies = replicas, copies
    for fault in file_faults(Victim()):
        said = fault.probe(view)
        assert said is None if missing is None else missing in (said or "")


def test_file_faults_need_a_majority_of_whole_replicas() -> None:
    view = _view()
    view.brokers = view.brokers[:2]
    assert all("fewer than 3" in (fault.probe(view) or "") for fault in file_faults(Victim()))


def test_end_of_a_file_fault_under_a_broker_that_has_ended_is_not_observed() -> None:
    view = FakeView()
    (bitflip, *_) = file_faults(Victim())
    injection = bitflip.draw(Random(0), view, "n1", {"while": "up", "file": "segment", "seed": 5})
    assert bitflip.stop(view, injection) == Observation(True, "n1: the broker went on (state S)")
    view.node("n1").state = None
    assert bitflip.stop(view, injection) == Observation(False, "n1: no process: the broker has ended")
