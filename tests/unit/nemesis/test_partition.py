from __future__ import annotations

from random import Random

import pytest

from nemesis.base import Injection, Unavailable
from nemesis.partition import Partition
from nemesis.registry import make_faults
from nemesis.schedule import KINDS
from tests.unit.nemesis.fake_cluster import FakeView


def grudge(injection: Injection) -> dict[str, list[str]]:
    found = injection.params["grudge"]
    assert isinstance(found, dict)
    return found


def test_draw_isolate_cuts_zookeeper_too_unless_scope_is_brokers() -> None:
    isolate = Partition("isolate")
    assert grudge(isolate.draw(Random(1), FakeView(), "n2"))["n2"] == ["n1", "n3", "zk1"]
    spared = isolate.draw(Random(1), FakeView(), "n2", {"scope": "brokers"})
    assert grudge(spared) == {"n1": ["n2"], "n2": ["n1", "n3"], "n3": ["n2"]}


def test_draw_cut_zookeeper_leaves_brokers_together() -> None:
    drawn = Partition("cut-zookeeper").draw(Random(1), FakeView(), "leader")
    assert drawn.targets == ("n2",)
    assert grudge(drawn) == {"n2": ["zk1"], "zk1": ["n2"]}


def test_draw_halves_targets_are_the_smaller_half() -> None:
    for seed in range(20):
        drawn = Partition("halves").draw(Random(seed), FakeView(), "one")
        assert len(drawn.targets) == 2
        assert all(set(grudge(drawn)[name]).isdisjoint(drawn.targets) for name in drawn.targets)


def test_draw_one_way_takes_both_directions_over_seeds() -> None:
    drawn = [Partition("one-way").draw(Random(seed), FakeView(), "n1").params["direction"] for seed in range(20)]
    assert set(drawn) == {"from", "to"}


def test_majority_ring_of_three_nodes_is_unavailable() -> None:
    view = FakeView()
    view.brokers = view.brokers[:2]
    ring = Partition("majority-ring")
    assert ring.probe(view) == "a majority ring needs 4 nodes or more, this run has 3"
    with pytest.raises(Unavailable, match="needs 4 nodes"):
        ring.draw(Random(1), view, "one")


def test_isolate_everyone_of_a_single_node_is_unavailable() -> None:
    view = FakeView()
    view.brokers, view.zookeepers = view.brokers[:1], []
    with pytest.raises(Unavailable, match="cuts no link"):
        Partition("isolate").draw(Random(1), view, "all")


def test_claims_two_partitions_never_overlap_and_a_cut_node_is_not_restarted() -> None:
    isolate = Partition("isolate")
    claims = isolate.claims(isolate.draw(Random(1), FakeView(), "n2"))
    assert claims == {"network", "process:n2"}
    assert claims & make_faults()["kill"].claims(Injection("kill", ("n2",)))
    assert not claims & make_faults()["kill"].claims(Injection("kill", ("n1",)))


def test_registry_has_every_kind_of_the_schedule() -> None:
    assert set(make_faults()) == set(KINDS)
