"""Strongly connected components of what peeling left, by which kinds of edges close them, and a shortest cycle of each.

A level is a set of kinds of edges. Components of lower levels are drawn together first: what is then connected at a
level needs its kinds, and is told once, at the lowest level that shows it. Its cycle is a shortest one among those
that no lower level has.

G0: `ww` alone. G1c: `ww` and `wr`; of `wr` alone in a list of its own. G-single: one `rw`, and G2 where there is none
with one `rw` alone. G1b: two nodes, of which one read a record of the other, and read to the end of a partition in
which another record of it came later; each such pair is told. Each kind has its session form, with edges of one
process's order, and its strict form, with those of real time too. Pure: edges in, cycles out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

import rustworkx as rx

from checkers.transactions.cycle_edges import PROCESS, REAL_TIME, RW, WR, WW
from checkers.transactions.cycle_peeling import DATA, ORDERED, READS, Edge

G0, G1B, G1C, G_SINGLE, G2 = "g0", "g1b", "g1c", "g-single", "g2"
PLAIN, SESSION, STRICT = "", "session", "strict"
FORMS: dict[str, AbstractSet[str]] = {
    PLAIN: frozenset(),
    SESSION: frozenset({PROCESS}),
    STRICT: frozenset({PROCESS, REAL_TIME}),
}
MOST_SEARCHES = 2_000
"""In one component so many edges are tried for a shortest cycle; of more, the first. Its kind may then be G2 where a
G-single is in it."""

Pair = tuple[int, int]
_STRENGTH = {kind: nth for nth, kind in enumerate((WW, WR, RW, PROCESS, REAL_TIME))}


def _order(edge: Edge) -> tuple[int, str, int]:
    return _STRENGTH[edge.edge], edge.p or "", edge.from_offset or 0


@dataclass(frozen=True, slots=True)
class Cycle:
    """kind: as above. reads_only: of `wr` edges, and orders of time. edges: of a shortest cycle, each from where the
    last one leads. nodes: how many its component has.
    """

    kind: str
    form: str
    reads_only: bool
    edges: tuple[Edge, ...]
    nodes: int


def cycles(layers: Mapping[str, Sequence[Edge]]) -> list[Cycle]:
    """layers: edges by name of the layer; what is missing has none. Shortest first."""
    found: list[Cycle] = []
    reads: list[AbstractSet[int]] = []
    lower: dict[str, list[AbstractSet[int]]] = {}
    ordered = {name: sorted(edges, key=_order) for name, edges in layers.items()}
    for form, orders in FORMS.items():
        of_reads = _Graph(ordered.get(READS, ()), {WR} | orders)
        new = of_reads.connected(reads)
        found += [_cycle(of_reads, one, form, G1C, reads_only=True) for one in new]
        reads = _with(reads, new)
        layer = ordered.get(DATA if form == PLAIN else ORDERED, ())
        lower = _levels(layer, form, orders, lower, reads, found)
    return sorted(found, key=by_length)


def by_length(cycle: Cycle) -> tuple[int, list[int]]:
    """What cycles are sorted by: shortest first."""
    return len(cycle.edges), [edge.u for edge in cycle.edges]


def _levels(
    layer: Sequence[Edge],
    form: str,
    orders: AbstractSet[str],
    lower: Mapping[str, list[AbstractSet[int]]],
    reads: list[AbstractSet[int]],
    found: list[Cycle],
) -> dict[str, list[AbstractSet[int]]]:
    """Adds to found; kind → components with these kinds of edges in this form."""
    over = _Graph(layer, {WW} | orders)
    known = lower.get(G0, [])
    new = over.connected(known)
    found += [_cycle(over, one, form, G0) for one in new]
    written = _with(known, new)

    mixed = _Graph(layer, {WW, WR} | orders)
    known = [*written, *lower.get(G1C, []), *reads]
    new = mixed.connected(known)
    found += [_cycle(mixed, one, form, G1C) for one in new]
    seen = _with(known, new)

    every = _Graph(layer, {WW, WR, RW} | orders)
    known = [*seen, *lower.get(G2, [])]
    if form == PLAIN:
        parts = every.part_reads()
        found += parts
        known += [{edge.u for edge in part.edges} for part in parts]
    new = every.connected(known)
    for one in new:
        single = mixed.shortest(one, every.crossing(one, RW))
        found.append(Cycle(G_SINGLE, form, False, single, len(one.nodes)) if single else _cycle(every, one, form, G2))
    return {G0: written, G1C: seen, G2: _with(known, new)}


def _cycle(graph: _Graph, component: _Component, form: str, kind: str, *, reads_only: bool = False) -> Cycle:
    edges = graph.shortest(component, graph.crossing(component))
    return Cycle(kind, form, reads_only, edges, len(component.nodes))


@dataclass(frozen=True, slots=True)
class _Component:
    """parts: node → which of the known components it lies in, by a number. pairs: those of its nodes with an edge."""

    parts: Mapping[int, int]
    pairs: Sequence[Pair]

    @property
    def nodes(self) -> AbstractSet[int]:
        return self.parts.keys()


class _Graph:
    """Edges of some kinds, given in their order; of several between two nodes the first."""

    def __init__(self, edges: Iterable[Edge], kinds: AbstractSet[str]) -> None:
        self._edges: dict[Pair, Edge] = {}
        self._kinds: dict[Pair, dict[str, Edge]] = {}
        for edge in edges:
            if edge.edge in kinds:
                self._edges.setdefault((edge.u, edge.v), edge)
                self._kinds.setdefault((edge.u, edge.v), {}).setdefault(edge.edge, edge)
        self._numbers: dict[int, int] = {}
        for pair in self._edges:
            for node in pair:
                self._numbers.setdefault(node, len(self._numbers))

    def connected(self, known: Iterable[AbstractSet[int]]) -> list[_Component]:
        """Components that are more than one of those known."""
        parts = _joined(known)
        graph = rx.PyDiGraph(multigraph=False)
        numbers: dict[int, int] = {}
        nodes: list[list[int]] = []
        for node in self._numbers:
            part = parts.get(node, node)
            if part not in numbers:
                numbers[part] = graph.add_node(None)
                nodes.append([])
            nodes[numbers[part]].append(node)
        between = {(parts.get(u, u), parts.get(v, v)) for u, v in self._edges}
        graph.extend_from_edge_list([(numbers[u], numbers[v]) for u, v in between if u != v])
        found = [one for one in rx.strongly_connected_components(graph) if len(one) > 1]
        parts_of = [{node: number for number in one for node in nodes[number]} for one in found]
        home = {node: nth for nth, parts in enumerate(parts_of) for node in parts}
        pairs: list[list[Pair]] = [[] for _ in found]
        for u, v in self._edges:
            if u in home and home[u] == home.get(v):
                pairs[home[u]].append((u, v))
        return [_Component(*one) for one in zip(parts_of, pairs, strict=True)]

    def crossing(self, component: _Component, kind: str | None = None) -> list[Edge]:
        """Edges from one known component to another; kind: with an edge of that kind, which is given."""
        apart = [pair for pair in component.pairs if component.parts[pair[0]] != component.parts[pair[1]]]
        if kind is None:
            return [self._edges[pair] for pair in apart]
        return [self._kinds[pair][kind] for pair in apart if kind in self._kinds[pair]]

    def shortest(self, component: _Component, closing: Sequence[Edge]) -> tuple[Edge, ...]:
        """A shortest cycle of one of these edges and edges of this graph within the component; empty: none.

        component: of this graph, or of one that has all of its edges.
        """
        graph = rx.PyDiGraph(multigraph=False)
        nodes = sorted(component.nodes)
        numbers = {node: graph.add_node(None) for node in nodes}
        own = (pair for pair in component.pairs if pair in self._edges)
        graph.extend_from_edge_list([(numbers[u], numbers[v]) for u, v in own])
        best: tuple[Edge, ...] = ()
        for edge in sorted(closing, key=lambda edge: (edge.u, edge.v))[:MOST_SEARCHES]:
            paths = rx.digraph_dijkstra_shortest_paths(graph, numbers[edge.v], target=numbers[edge.u])
            if numbers[edge.u] not in paths:
                continue
            path = [nodes[number] for number in paths[numbers[edge.u]]]
            if not best or len(path) < len(best):
                best = (edge, *(self._edges[pair] for pair in pairwise(path)))
            if len(best) == 2:
                break
        return best

    def part_reads(self) -> list[Cycle]:
        """G1b: each pair of nodes of which one read a part of what the other wrote."""
        found = []
        for (u, v), kinds in self._kinds.items():
            back = self._kinds.get((v, u), {})
            if WR in kinds and RW in back:
                found.append(Cycle(G1B, PLAIN, False, (kinds[WR], back[RW]), 2))
        return found


def _with(known: Iterable[AbstractSet[int]], new: Iterable[_Component]) -> list[AbstractSet[int]]:
    """Those known and the new ones, joined where they meet."""
    whole: dict[int, set[int]] = {}
    for node, least in _joined([*known, *(one.nodes for one in new)]).items():
        whole.setdefault(least, set()).add(node)
    return list(whole.values())


def _joined(known: Iterable[AbstractSet[int]]) -> dict[int, int]:
    """Node → the least node of the known components that it lies in, joined where they meet."""
    parents: dict[int, int] = {}

    def root(node: int) -> int:
        while parents.setdefault(node, node) != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    for component in known:
        first, *others = component
        for other in others:
            low, high = sorted((root(first), root(other)))
            parents[high] = low
    return {node: root(node) for node in list(parents)}
