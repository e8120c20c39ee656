"""Which node drops whose packets, for each shape of partition. Pure.

A grudge maps a node to the nodes whose packets it drops. Knows names only: no addresses, no rules, no processes.
Invariants: no node has a grudge against itself; every shape but `one_way` is symmetric.
Source: the partition shapes of jepsen.nemesis (complete-grudge, majorities-ring), named as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

Grudge = Mapping[str, frozenset[str]]
Direction = Literal["from", "to"]


def complete(components: Sequence[AbstractSet[str]]) -> Grudge:
    """Nodes of different components hear nothing of each other; the components are disjoint."""
    members = [node for component in components for node in component]
    assert len(members) == len(set(members)), "components overlap"
    everyone = frozenset(members)
    return _without_empty({node: everyone - component for component in components for node in component})


def isolate(nodes: Sequence[str], victims: AbstractSet[str]) -> Grudge:
    """Each victim alone, cut from every other node; the others stay together."""
    _assert_among(victims, nodes)
    alone: list[frozenset[str]] = [frozenset({node}) for node in nodes if node in victims]
    rest = frozenset(nodes) - victims
    return complete([*alone, rest] if rest else alone)


def halves(nodes: Sequence[str]) -> Grudge:
    """Two components in the order given; the first is the smaller one when the count is odd."""
    middle = len(nodes) // 2
    return complete([frozenset(nodes[:middle]), frozenset(nodes[middle:])])


def ring_reach(count: int) -> int:
    """How many neighbours on each side a node of a majority ring must keep so that it sees a majority."""
    majority = count // 2 + 1
    return -(-(majority - 1) // 2)


def ring_possible(count: int) -> bool:
    """Whether a ring in which everyone sees a majority cuts any link at all."""
    return 1 + 2 * ring_reach(count) < count


def majority_ring(nodes: Sequence[str]) -> Grudge:
    """Nodes on a ring in the order given; each sees a majority, no two the same, and nobody sees all.

    Needs at least four nodes: of three, a majority on both sides is everyone.
    """
    count = len(nodes)
    assert ring_possible(count), f"a majority ring of {count} nodes cuts nothing"
    reach = ring_reach(count)
    return {
        node: frozenset(
            other for there, other in enumerate(nodes) if min((here - there) % count, (there - here) % count) > reach
        )
        for here, node in enumerate(nodes)
    }


def one_way(nodes: Sequence[str], victims: AbstractSet[str], direction: Direction) -> Grudge:
    """Packets `from` the victims to the others, or `to` the victims from the others, are lost; the other way works."""
    _assert_among(victims, nodes)
    rest = frozenset(nodes) - victims
    if direction == "from":
        return _without_empty({node: frozenset(victims) for node in rest})
    return _without_empty(dict.fromkeys(victims, rest))


def between(left: AbstractSet[str], right: AbstractSet[str]) -> Grudge:
    """Every link between the two sides is cut, in both directions; links inside a side stay."""
    return complete([frozenset(left), frozenset(right)])


def links(grudge: Grudge) -> frozenset[tuple[str, str]]:
    """The directed links (sender, receiver) that the grudge cuts."""
    return frozenset((sender, receiver) for receiver, senders in grudge.items() for sender in senders)


def _without_empty(grudge: Mapping[str, frozenset[str]]) -> Grudge:
    return {node: dropped for node, dropped in grudge.items() if dropped}


def _assert_among(victims: AbstractSet[str], nodes: Sequence[str]) -> None:
    assert victims <= set(nodes), f"{sorted(victims - set(nodes))} are not among {list(nodes)}"
