from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nemesis.faults import grudges
from tests.support.examples import examples

NODES = st.integers(2, 9).map(lambda count: [f"n{i + 1}" for i in range(count)])


@st.composite
def nodes_and_victims(draw: st.DrawFn) -> tuple[list[str], frozenset[str]]:
    nodes = draw(NODES)
    return nodes, frozenset(draw(st.sets(st.sampled_from(nodes), min_size=1)))


def both_ways(grudge: grudges.Grudge) -> bool:
    cut = grudges.links(grudge)
    return all((receiver, sender) in cut for sender, receiver in cut)


@examples()
@given(nodes_and_victims())
def test_isolate_any_victims_cuts_exactly_links_that_touch_one(case: tuple[list[str], frozenset[str]]) -> None:
    nodes, victims = case
    cut = grudges.links(grudges.isolate(nodes, victims))
    assert cut == {(a, b) for a in nodes for b in nodes if a != b and (a in victims or b in victims)}


@examples()
@given(NODES)
def test_halves_any_count_cuts_both_ways_between_sizes_that_differ_by_one_at_most(nodes: list[str]) -> None:
    grudge = grudges.halves(nodes)
    first = [node for node in nodes if nodes[0] not in grudge[node]]
    assert 0 <= (len(nodes) - len(first)) - len(first) <= 1
    assert both_ways(grudge)
    assert grudges.links(grudge) == {(a, b) for a in nodes for b in nodes if (a in first) != (b in first)}


@examples()
@given(NODES)
def test_majority_ring_each_node_sees_its_own_majority_and_not_everyone(nodes: list[str]) -> None:
    assume(grudges.ring_possible(len(nodes)))
    grudge = grudges.majority_ring(nodes)
    seen = {node: frozenset(nodes) - grudge[node] for node in nodes}
    assert all(node in view for node, view in seen.items())
    assert all(len(view) > len(nodes) / 2 for view in seen.values())
    assert all(view != frozenset(nodes) for view in seen.values())
    assert len(set(seen.values())) == len(nodes)
    assert both_ways(grudge)


def test_majority_ring_three_nodes_is_refused() -> None:
    assert not grudges.ring_possible(3)
    with pytest.raises(AssertionError, match="cuts nothing"):
        grudges.majority_ring(["n1", "n2", "n3"])


def test_majority_ring_four_nodes_cuts_the_two_opposite_pairs() -> None:
    grudge = grudges.majority_ring(["n1", "zk1", "n2", "n3"])
    assert grudges.links(grudge) == {("n1", "n2"), ("n2", "n1"), ("zk1", "n3"), ("n3", "zk1")}


@examples()
@given(nodes_and_victims())
def test_one_way_each_direction_is_the_other_one_reversed(case: tuple[list[str], frozenset[str]]) -> None:
    nodes, victims = case
    out = grudges.links(grudges.one_way(nodes, victims, "from"))
    into = grudges.links(grudges.one_way(nodes, victims, "to"))
    assert out == {(a, b) for a in victims for b in nodes if b not in victims}
    assert into == {(receiver, sender) for sender, receiver in out}
    assert not out & into


def test_between_broker_and_zookeepers_leaves_other_links() -> None:
    cut = grudges.links(grudges.between(frozenset({"n2"}), frozenset({"zk1", "zk2"})))
    assert cut == {("n2", "zk1"), ("n2", "zk2"), ("zk1", "n2"), ("zk2", "n2")}


def test_complete_overlapping_components_is_refused() -> None:
    with pytest.raises(AssertionError, match="overlap"):
        grudges.complete([frozenset({"a", "b"}), frozenset({"b"})])


def test_isolate_unknown_victim_is_refused() -> None:
    with pytest.raises(AssertionError, match="n9"):
        grudges.isolate(["n1", "n2"], frozenset({"n9"}))
