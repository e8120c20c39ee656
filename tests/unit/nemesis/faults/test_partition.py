from __future__ import annotations

from random import Random

import pytest

from nemesis.base import Injection, Unavailable
from nemesis.catalogue import load_catalogue
from nemesis.faults.partition import CUT_ZOOKEEPER, HALVES, ISOLATE, MAJORITY_RING, ONE_WAY, Partition
from tests.support.fake_cluster import FakeView


def grudge(injection: Injection) -> dict[str, list[str]]:
    found = injection.params["grudge"]
    assert isinstance(found, dict)
    return found


def test_draw_isolate_cuts_zookeeper_too_unless_scope_is_brokers() -> None:
    isolate = Partition(ISOLATE)
    assert grudge(isolate.draw(Random(1), FakeView(), "n2"))["n2"] == ["n1", "n3", "zk1"]
    spared = isolate.draw(Random(1), FakeView(), "n2", {"scope": "brokers"})
    assert grudge(spared) == {"n1": ["n2"], "n2": ["n1", "n3"], "n3": ["n2"]}


def test_draw_cut_zookeeper_leaves_brokers_together() -> None:
    drawn = Partition(CUT_ZOOKEEPER).draw(Random(1), FakeView(), "leader")
    assert drawn.targets == ("n2",)
    assert grudge(drawn) == {"n2": ["zk1"], "zk1": ["n2"]}


def test_draw_halves_targets_are_the_smaller_half() -> None:
    for seed in range(20):
        drawn = Partition(HALVES).draw(Random(seed), FakeView(), "one")
        assert len(drawn.targets) == 2
        assert all(set(grudge(drawn)[name]).isdisjoint(drawn.targets) for name in drawn.targets)


def test_draw_one_way_takes_both_directions_over_seeds() -> None:
    drawn = [Partition(ONE_WAY).draw(Random(seed), FakeView(), "n1").params["direction"] for seed in range(20)]
    assert set(drawn) == {"from", "to"}


def test_majority_ring_of_three_nodes_is_unavailable() -> None:
    view = FakeView()
    view.brokers = view.brokers[:2]
    ring = Partition(MAJORITY_RING)
    assert ring.probe(view) == "a majority ring needs 4 nodes or more, this run has 3"
    with pytest.raises(Unavailable, match="needs 4 nodes"):
        ring.draw(Random(1), view, "one")


def test_isolate_everyone_of_a_single_node_is_unavailable() -> None:
    view = FakeView()
    view.brokers, view.zookeepers = view.brokers[:1], []
    with pytest.raises(Unavailable, match="cuts no link"):
        Partition(ISOLATE).draw(Random(1), view, "all")


def test_claims_two_partitions_never_overlap_and_a_cut_node_is_not_restarted() -> None:
    isolate = Partition(ISOLATE)
    claims = isolate.claims(isolate.draw(Random(1), FakeView(), "n2"))
    assert claims == {"network", "process:n2"}
    assert claims & load_catalogue().make()["kill"].claims(Injection("kill", ("n2",)))
    assert not claims & load_catalogue().make()["kill"].claims(Injection("kill", ("n1",)))
