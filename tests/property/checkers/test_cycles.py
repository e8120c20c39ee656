"""Cycles that Spark's edges and peeling lead to, against the plain twin: on one cycle planted among transactions that
do not overlap, and on random ones. Each history begins when the last one is over, so that no order of time joins two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts, build_facts
from checkers.history.load import load_history
from checkers.history.schema import LEADER_CHANGE
from checkers.spark import running
from checkers.transactions import cycle_edges, cycle_peeling
from checkers.transactions.cycle_edges import REAL_TIME, RW, WR, WW, dependencies
from checkers.transactions.cycle_peeling import DATA, LAYERS, ORDERED, READS, peel
from checkers.transactions.cycle_stretches import search
from checkers.transactions.cycles import SHOWN, cycle_checks
from checkers.verdicts.verdict import WITNESSES, Row
from tests.support.cycle_stories import STORIES
from tests.support.cycle_twins import Lines, cycles
from tests.support.histories import merged, write_history
from tests.support.judging import pyspark_sockets
from tests.support.model_cycles import CycleModel, random_cycles

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

RANDOM, SERIAL = 16, 3
DatedEdge = tuple[int, int, str, str | None, int, int]
"""u, v, edge, p, at_u, at_v."""


def _histories() -> dict[str, Lines]:
    histories = {}
    for nth, (name, (_, _, story)) in enumerate(STORIES.items()):
        model = CycleModel(f"planted-{name}", 3)
        model.one_by_one(Random(nth))
        story(model)
        model.one_by_one(Random(100 + nth))
        histories[f"planted-{name}"] = model.story.lines
    for seed in range(SERIAL):
        model = CycleModel(f"serial{seed}", 3)
        model.one_by_one(Random(seed), 6)
        histories[f"serial{seed}"] = model.story.lines
    for seed in range(RANDOM):
        histories[f"random{seed}"] = random_cycles(Random(seed), f"random{seed}", steps=60).story.lines
    return histories


HISTORIES = _histories()


@dataclass(frozen=True)
class Judged:
    facts: Facts
    edges: DataFrame
    rows: list[Row]
    figures: dict[tuple[str, str, str], float]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    folder = tmp_path_factory.mktemp("cycles")
    with pyspark_sockets():
        path = write_history(folder / "history.jsonl", merged(HISTORIES, HISTORIES))
        history, health = load_history(spark, path, folder / "parquet")
        assert not health.problems
        facts = build_facts(history, spark.createDataFrame([], LEADER_CHANGE), expiry=None)
        family = cycle_checks(facts)
        figures = {(row.checker, row.p, row["name"]): row.value for row in family.figures.collect()}
        yield Judged(facts, dependencies(facts), list(family.rows), figures)


def _topic(p: str | None) -> str:
    return str(p).rpartition("-")[0]


def _found(rows: list[Row], topic: str) -> Counter[tuple[str, str]]:
    counts = {(row.checker, row.rule, row.p): row.count for row in rows if row.kind in ("invalid", "allowed")}
    found: Counter[tuple[str, str]] = Counter()
    for (checker, rule, p), count in counts.items():
        if _topic(p) == topic:
            found[checker, rule] += count
    return found


@pytest.mark.parametrize("topic", HISTORIES)
def test_every_history_has_the_cycles_of_its_twin(judged: Judged, topic: str) -> None:
    assert _found(judged.rows, topic) == cycles(HISTORIES[topic])


@pytest.mark.parametrize("name", STORIES)
def test_exactly_the_cycle_that_was_planted_is_found(judged: Judged, name: str) -> None:
    checker, rule, _ = STORIES[name]
    assert _found(judged.rows, f"planted-{name}") == {(checker, rule): 1}


def test_reads_alone_are_invalid_and_all_else_is_allowed(judged: Judged) -> None:
    assert {row.rule.partition("-")[0] for row in judged.rows if row.kind == "invalid"} == {"reads"}
    assert not any(row.rule.startswith("reads") for row in judged.rows if row.kind == "allowed")
    assert not any(row.kind == "unknown" for row in judged.rows)


def test_witness_names_its_operations_and_each_step_in_words(judged: Judged) -> None:
    shown = [row for row in judged.rows if row.cycle]
    assert {row.checker for row in shown} == {"g0", "g1b", "g1c", "g-single", "g2"}
    for row in shown:
        assert len(row.ops) >= 2
        assert row.from_ns is not None
        assert row.to_ns is not None
        assert [edge["to"] for edge in row.cycle] == [*(edge["from"] for edge in row.cycle[1:]), row.cycle[0]["from"]]
        assert all(edge["text"] in row.detail for edge in row.cycle)
        assert all(edge["partition"] for edge in row.cycle if edge["edge"] in (WW, WR, RW))


def test_shortest_cycles_are_shown_and_few_of_what_is_permitted(judged: Judged) -> None:
    lengths: dict[tuple[str, str], list[int]] = {}
    for row in judged.rows:
        if row.kind == "allowed":
            lengths.setdefault((row.checker, row.rule), []).append(len(row.cycle))
    assert all(of == sorted(of) for of in lengths.values())
    homes = Counter((row.checker, row.rule, row.p) for row in judged.rows if row.kind == "allowed")
    assert all(count <= SHOWN for count in homes.values())


@pytest.mark.parametrize("topic", [topic for topic in HISTORIES if topic.startswith("serial")])
def test_figures_say_what_there_was_to_be_found(judged: Judged, topic: str) -> None:
    needed = {
        ("g0", "writes_in_order"),
        ("g1b", "transactions_read"),
        ("g1c", "read_by_transactions"),
        ("g-single", "reads_to_the_end"),
        ("g2", "reads_to_the_end"),
    }
    for number in range(3):
        assert all(judged.figures[checker, f"{topic}-{number}", name] >= 1 for checker, name in needed)


def test_peeling_leaves_nothing_of_transactions_that_do_not_overlap(judged: Judged) -> None:
    with pyspark_sockets():
        left = peel(judged.edges, 100_000)
    assert not left.over
    of_serial = [
        edge for edge in (*left.edges[DATA], *left.edges[READS]) if edge.p and _topic(edge.p).startswith("serial")
    ]
    assert not of_serial
    # Reads of one another go forward in time but where something was shown before it was committed.
    assert {_topic(edge.p) for edge in left.edges[READS] if edge.p is not None} == {"planted-g1c-reads"}


def _within_stretches(edges: list[DatedEdge], kinds: Collection[str]) -> Counter[DatedEdge]:
    """What peeling leaves of a layer, plainly: back edges merged to stretches, and the edges that lie in one."""
    spans = [(min(at), max(at)) for u, v, edge, p, *at in edges if edge in kinds and at[1] <= at[0]]
    stretches: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if stretches and low <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(high, stretches[-1][1]))
        else:
            stretches.append((low, high))
    return Counter(
        one
        for one in edges
        if one[2] in kinds and any(low <= min(one[4:]) and max(one[4:]) <= high for low, high in stretches)
    )


@pytest.mark.parametrize(("bits", "most"), [(0, 0), (20, 3), (27, 4096), (62, 1)])
def test_peeling_leaves_what_lies_in_a_stretch_however_time_is_sliced(
    judged: Judged, monkeypatch: pytest.MonkeyPatch, bits: int, most: int
) -> None:
    monkeypatch.setattr(cycle_peeling, "_SLICE_BITS", bits)
    monkeypatch.setattr(cycle_peeling, "_MOST_SLICES", most)
    with pyspark_sockets():
        left = peel(judged.edges, 100_000)
        rows = judged.edges.select("u", "v", "edge", "p", "at_u", "at_v").collect()
    edges: list[DatedEdge] = [tuple(row) for row in rows]
    for layer, kinds in LAYERS.items():
        found = Counter((one.u, one.v, one.edge, one.p, one.at_u, one.at_v) for one in left.edges[layer])
        assert found == _within_stretches(edges, kinds)
        assert len(found) > 10 or layer == READS


def test_real_time_is_reduced_to_what_its_closure_needs(judged: Judged) -> None:
    with pyspark_sockets():
        rows = judged.edges.where(F.col("edge") == REAL_TIME).select("u", "v").collect()
        transactions = judged.edges.where(F.col("u") >= 0).select("u").distinct().count()
    # All pairs would be some thousands; a process of its own is under way beside two or three others.
    assert len(rows) < 6 * transactions
    assert len({(row.u, row.v) for row in rows}) == len(rows)


@pytest.mark.parametrize("bits", [16, 30])
def test_real_time_is_the_same_however_time_is_sliced(
    judged: Judged, monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    monkeypatch.setattr(running, "in_one_piece", lambda _: False)
    monkeypatch.setattr(cycle_edges, "_SLICE_BITS", bits)
    with pyspark_sockets():
        expected = judged.edges.where(F.col("edge") == REAL_TIME).collect()
        found = dependencies(judged.facts).where(F.col("edge") == REAL_TIME).collect()
    assert Counter(found) == Counter(expected)
    assert len(expected) > 100


def test_beyond_the_bound_of_a_stretch_the_verdict_is_unknown(judged: Judged) -> None:
    with pyspark_sockets():
        rows = cycle_checks(judged.facts, bound=5).rows
    unknown = {(row.checker, row.rule) for row in rows if row.kind == "unknown"}
    data = {(checker, DATA) for checker in ("g0", "g1b", "g1c", "g-single", "g2")}
    ordered = {(checker, ORDERED) for checker in ("g0", "g1c", "g-single", "g2")}
    assert unknown == {("g1c", READS)} | data | ordered
    assert all("more than 5 dependencies" in row.detail for row in rows if row.kind == "unknown")


def test_beyond_the_bound_of_the_driver_workers_find_the_same_cycles(judged: Judged) -> None:
    with pyspark_sockets():
        left = peel(judged.edges, 10**6).edges[ORDERED]
        found = search(judged.edges, len(left) - 1, WITNESSES)
        rows = cycle_checks(judged.facts, bound=len(left) - 1).rows
    assert not found.over
    assert found.edges == len(left)
    assert sorted(map(_told, rows)) == sorted(map(_told, judged.rows))


def _told(row: Row) -> tuple[str, ...]:
    return (row.checker, row.kind, row.rule, str(row.p), str(row.count), str(row.figure), row.detail)
