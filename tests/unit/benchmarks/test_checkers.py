"""Made histories: what is planted, that pieces are the same however they are made, growth, table and plots."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.checkers import chunks
from benchmarks.checkers.fit import beyond_fixed, slope
from benchmarks.checkers.lines import history
from benchmarks.checkers.planted import APART, COPIES, expected, plan
from benchmarks.checkers.report import CHECKERS, DUCKDB, Measured, svg, table
from benchmarks.checkers.shape import (
    CHUNK_BLOCKS,
    LEAST_BLOCKS,
    PARTITIONS,
    PER_BLOCK_MICRO,
    READERS,
    Shape,
    Unit,
    shape_of,
)
from checkers.verdicts.catalogue import BY_NAME

SMALL = Shape(LEAST_BLOCKS, 3)


def test_size_is_met_to_a_block() -> None:
    for size in (10**5, 10**6, 10**9):
        assert abs(shape_of(size, 1).micro_operations - size) <= PARTITIONS * PER_BLOCK_MICRO


def test_size_without_room_for_anomalies_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"50000 micro-operations are too few .* at least 97200"):
        shape_of(50_000, 1)


@pytest.mark.parametrize("blocks", [LEAST_BLOCKS, 309, 30_864])
def test_as_many_anomalies_are_planted_at_every_size_and_apart(blocks: int) -> None:
    for seed in range(5):
        anomalies = plan(Shape(blocks, seed))
        assert Counter(one.kind for one in anomalies) == COPIES
        places = sorted((one.p, one.block) for one in anomalies)
        assert all(p != q or b - a >= APART for (p, a), (q, b) in pairwise(places))


def test_seed_alone_says_where_they_are() -> None:
    assert plan(SMALL) == plan(SMALL)
    assert plan(SMALL) != plan(Shape(SMALL.blocks, 4))


def test_every_expected_finding_is_of_a_checker() -> None:
    found = expected(SMALL, plan(SMALL))
    assert {one.checker for one in found} <= set(BY_NAME)
    assert {"lost-write", "vanished-read", "fabricated-value", "duplicate", "hole"} <= {one.checker for one in found}


@pytest.mark.parametrize("reader", READERS)
def test_a_piece_is_the_same_each_time_and_of_its_blocks_alone(reader: str) -> None:
    unit = Unit(reader, 2, 10, 20)
    one, other = (chunks.tables_of(SMALL, unit, plan(SMALL)) for _ in range(2))
    for name, columns in one.items():
        for column, values in columns.items():
            assert np.array_equal(values, other[name][column]), (name, column)
    assert set(one["polls"]["offset"] // 100) <= set(range(9, 20))
    assert set(one["polls"]["p"]) == {"bench-2"}


def test_no_piece_is_larger_than_a_chunk_at_any_size() -> None:
    units = list(Shape(3 * CHUNK_BLOCKS + 1, 1).units())
    assert max(unit.last - unit.first for unit in units) == CHUNK_BLOCKS
    of_one = [unit for unit in units if (unit.reader, unit.p) == ("wire", 0)]
    assert next((unit.first, unit.last) for unit in of_one) == (0, CHUNK_BLOCKS)
    assert sum(unit.last - unit.first for unit in of_one) == 3 * CHUNK_BLOCKS + 1


def test_lines_name_their_invocations_and_values_are_sent_once() -> None:
    lines = list(history(SMALL))
    assert len(lines) == SMALL.line(SMALL.operations) + 2 * PARTITIONS
    for at, line in enumerate(lines):
        if line["kind"] == "client" and line["type"] != "invoke":
            invocation = lines[line["invoke"]]
            assert at == line["invoke"] + 1
            assert (invocation["type"], invocation["f"]) == ("invoke", line["f"])
            assert invocation["time_ns"] < line["time_ns"]
    sent = Counter(value for line in lines if line["type"] == "invoke" for value in line.get("values", ()))
    assert set(sent.values()) == {1}
    json.dumps(lines[-1])


def test_processes_send_one_thing_at_a_time() -> None:
    lines = list(history(SMALL))
    spans: dict[int, list[tuple[int, int]]] = {}
    for line in lines:
        if line["kind"] == "client" and line["type"] != "invoke":
            spans.setdefault(line["process"], []).append((lines[line["invoke"]]["time_ns"], line["time_ns"]))
    for of_process in spans.values():
        assert all(over <= begun for (_, over), (begun, _) in pairwise(sorted(of_process)))


def test_planted_loss_is_acknowledged_and_returned_by_no_poll() -> None:
    lost = {one.value for one in expected(SMALL, plan(SMALL)) if one.checker == "lost-write"}
    lines = list(history(SMALL))
    read = {record["value"] for line in lines for record in line.get("records", ())}
    acked = {
        value
        for line in lines
        if line["type"] == "ok" and line["f"] == "send"
        for value in lines[line["invoke"]]["values"]
    }
    assert lost
    assert lost <= acked - read


def test_growth_of_a_power_and_what_is_fixed() -> None:
    points = [(10.0**n, 3 * 10.0 ** (2 * n)) for n in range(4)]
    assert slope(points) == pytest.approx(2)
    assert slope(points[:1]) is None
    assert beyond_fixed([(10, 105), (20, 110)]) == pytest.approx(0.5)


def row(judge: str, size: int, *wrong: str, problem: str | None = None) -> Measured:
    return Measured(judge, size, size / 1e6, size / 5e5, size * 100, 1.0, 96, 96 - len(wrong), wrong, 0.5, problem)


def test_table_names_what_is_wrong_and_the_growth() -> None:
    rows = [row(CHECKERS, 10**5), row(CHECKERS, 10**6, "not found: X"), row(DUCKDB, 10**5, problem="exit code 1: no")]
    text = table(rows, ["head"])
    assert "| checkers, tables | 100,000 | 0.1 | 1.0 | 0.2 | 1,000,000 | 10 | 96 of 96 | 0.5 |" in text
    assert "**wrong: 1: not found: X**" in text
    assert "**wrong: exit code 1: no**" in text
    assert "| checkers, tables | 1.00 | 1.00 | 1.00 | 2.00 | 100.00 |" in text


def test_plots_are_xml_with_a_line_for_each_judge() -> None:
    root = ET.fromstring(svg([row(CHECKERS, 10**5), row(CHECKERS, 10**6), row(DUCKDB, 10**6)]))
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 6
