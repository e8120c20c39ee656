"""Made histories of transactions: nothing goes back in time but what is planted, and tables say what they should."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from benchmarks.checkers.chunks import Columns
from benchmarks.cycles.cli import Measured, table
from benchmarks.cycles.shape import A_ROUND, PLANTED, shape_of, tables_of

SHAPE = shape_of(2_000, 3)


def _rows(columns: Columns) -> list[dict[str, Any]]:
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.fixture(scope="module")
def tables() -> dict[str, list[dict[str, Any]]]:
    return {name: _rows(columns) for name, columns in tables_of(SHAPE, 0, SHAPE.rounds).items()}


def test_each_offset_is_given_once_and_in_the_order_of_transactions(
    tables: dict[str, list[dict[str, Any]]],
) -> None:
    logs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in tables["sends"]:
        logs[row["p"]].append((row["offset"], row["txn"]))
    assert len(logs) == A_ROUND
    for log in logs.values():
        ordered = sorted(log)
        assert [offset for offset, _ in ordered] == list(range(0, 4 * SHAPE.rounds, 2))
        assert [txn for _, txn in ordered] == sorted(txn for _, txn in log)
    assert len({row["value"] for row in tables["sends"]}) == 2 * SHAPE.transactions


def test_each_number_of_an_operation_is_there_once(tables: dict[str, list[dict[str, Any]]]) -> None:
    ops = [row["op"] for name in ("sends", "coordination", "requests") for row in tables[name]]
    assert len(ops) == len(set(ops)) == 4 * SHAPE.transactions + 2 * PLANTED


def test_polls_return_what_stands_there_after_it_was_committed(tables: dict[str, list[dict[str, Any]]]) -> None:
    written = {(row["p"], row["offset"]): row for row in tables["sends"]}
    committed = {row["asked"]: row["complete_ns"] for row in tables["coordination"]}
    requests = {row["op"]: row for row in tables["requests"]}
    early = 0
    for record in tables["polls"]:
        poll, sent = requests[record["op"]], written[record["p"], record["offset"]]
        assert (record["value"], record["p"]) == (sent["value"], poll["p"])
        assert poll["position"] <= record["offset"] < poll["next_position"]
        early += committed[sent["txn"]] > poll["invoke_ns"]
    assert early == 2 * PLANTED, "those that are shown too early are planted"
    assert len(tables["polls"]) == 2 * SHAPE.transactions + 2 * PLANTED


def test_pieces_hold_what_the_whole_holds() -> None:
    whole = tables_of(SHAPE, 0, SHAPE.rounds)
    halves = [tables_of(SHAPE, 0, 100), tables_of(SHAPE, 100, SHAPE.rounds)]
    for name, columns in whole.items():
        parts = np.sort(np.concatenate([half[name]["op"] for half in halves]))
        assert (parts == np.sort(columns["op"])).all()


def test_too_few_transactions_are_refused_with_the_least() -> None:
    with pytest.raises(ValueError, match="100 transactions are too few: 800 are the least"):
        shape_of(100, 1)


def test_table_names_what_went_wrong() -> None:
    rows = [
        Measured(1_000, 10.0, 20.0, 5_000_000, 0.5, 4_000),
        Measured(10_000, 20.0, 40.0, 5_000_000, 0.5, 40_000, "found {}"),
    ]
    text = table(rows)
    assert "| 1,000 | 4,000 | 10.0 | 20.0 | 5 | 10 of 10 | 0.5 |" in text
    assert "**wrong: found {}**" in text
