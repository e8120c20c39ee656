"""Components and shortest cycles of edges that are given, against the plain twin, and by hand."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from checkers.transactions.cycle_components import Cycle, cycles
from checkers.transactions.cycle_peeling import DATA, LAYERS, ORDERED, READS, Edge
from tests.support import cycle_twins as twin
from tests.support.cycle_stories import STORIES
from tests.support.model_cycles import CycleModel, random_cycles

pytestmark = pytest.mark.guarantee("V2")


def edge(u: int, v: int, kind: str, p: str | None = "hw-0") -> Edge:
    return Edge(u, v, kind, p, None, None, None, None, None, None)


def of_relations(lines: twin.Lines) -> list[Edge]:
    """Every pair of the twin's relations as an edge."""
    relations = twin.relations(twin.nodes_of(lines))
    return [edge(u, v, kind) for kind, pairs in relations.items() if kind != "part" for u, v in sorted(pairs)]


def found(edges: list[Edge]) -> list[Cycle]:
    return cycles({layer: [one for one in edges if one.edge in kinds] for layer, kinds in LAYERS.items()})


def counted(of: list[Cycle]) -> Counter[tuple[str, str]]:
    return Counter(
        (one.kind, "-".join(part for part in ("reads" if one.reads_only else "", one.form) if part)) for one in of
    )


@pytest.mark.parametrize("seed", range(60))
def test_components_are_those_of_the_twin(seed: int) -> None:
    lines = random_cycles(Random(seed), "hw", steps=60).story.lines
    got = found(of_relations(lines))
    assert counted(got) == twin.cycles(lines)
    for one in got:
        assert [each.v for each in one.edges] == [each.u for each in (*one.edges[1:], one.edges[0])]
        assert len({each.u for each in one.edges}) == len(one.edges) <= one.nodes


@pytest.mark.parametrize("name", STORIES)
def test_planted_cycle_is_all_that_is_found(name: str) -> None:
    checker, rule, story = STORIES[name]
    model = CycleModel("hw", 3)
    model.one_by_one(Random(1))
    story(model)
    model.one_by_one(Random(2))
    assert counted(found(of_relations(model.story.lines))) == {(checker, rule): 1}


def test_random_histories_have_every_kind() -> None:
    kinds: Counter[tuple[str, str]] = Counter()
    for seed in range(60):
        kinds += twin.cycles(random_cycles(Random(seed), "hw", steps=60).story.lines)
    assert {kind for kind, _ in kinds} == {"g0", "g1b", "g1c", "g-single", "g2"}
    assert {form for _, form in kinds} == {"", "session", "strict"}


def test_cycle_shown_is_a_shortest_one() -> None:
    long = [edge(n, (n + 1) % 6, "ww") for n in range(6)]
    (one,) = found([*long, edge(2, 1, "ww", "hw-1")])
    assert [each.u for each in one.edges] in ([1, 2], [2, 1])
    assert one.nodes == 6


def test_component_is_told_once_and_by_the_least_kinds() -> None:
    # 1 and 2 wrote around each other, and read so too; 3 joins them by what it read and wrote.
    both = [edge(1, 2, "ww"), edge(2, 1, "ww", "hw-1"), edge(1, 2, "wr")]
    assert counted(found(both)) == {("g0", ""): 1}
    assert counted(found([*both, edge(2, 3, "wr"), edge(3, 1, "ww")])) == {("g0", ""): 1, ("g1c", ""): 1}


def test_reads_alone_are_found_beside_writes() -> None:
    around = [edge(1, 2, "wr"), edge(2, 1, "wr"), edge(1, 2, "ww"), edge(2, 1, "ww", "hw-1")]
    assert counted(found(around)) == {("g1c", "reads"): 1, ("g0", ""): 1}


def test_one_anti_dependency_makes_a_g_single_wherever_it_is_in_the_component() -> None:
    skew = [edge(1, 2, "rw"), edge(2, 1, "rw", "hw-1")]
    assert counted(found(skew)) == {("g2", ""): 1}
    assert counted(found([*skew, edge(2, 3, "ww"), edge(3, 1, "ww")])) == {("g-single", ""): 1}


def test_layers_hold_the_kinds_of_their_checkers() -> None:
    assert set(LAYERS[READS]) == {"wr", "process", "real-time"}
    assert set(LAYERS[ORDERED]) == {*LAYERS[DATA], "process", "real-time"}
