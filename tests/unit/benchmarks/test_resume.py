"""Benchmarks in parts: what counts of an earlier part, and which runs are left to make."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.plan import Phase, Plan
from benchmarks.process import BenchmarkFailed
from benchmarks.report.results import write
from benchmarks.report.resume import SAME, Earlier, earlier
from benchmarks.report.summary import RowRuns, Run
from benchmarks.rows.base import Bench
from benchmarks.runner import carry_out

ENVIRONMENT: dict[str, object] = {key: f"this {key}" for key in SAME} | {"minutes": 12.5}
A, B = ("Produce", "a"), ("Produce", "b")


class FakeRow:
    group = "Produce"
    metrics = ("mb_per_s",)
    targets = ()

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, bench: Bench) -> dict[str, float]:
        cast("list[str]", bench).append(self.name)
        return {"mb_per_s": 1.0}


def measured(name: tuple[str, str], *systems: str) -> RowRuns:
    return RowRuns(*name, ("mb_per_s",), (), [Run(system, {"mb_per_s": 2.0}) for system in systems])


def made(
    rounds: int, before: dict[tuple[str, str], Sequence[Run]], stop_after: int | None = None
) -> tuple[bool, dict[str, list[str]], list[RowRuns]]:
    """Of a plan of two rows: whether it was completed, rows run by system, and what was kept last."""
    plan = Plan("p", 0, (Phase(cast(Any, (FakeRow("a"), FakeRow("b"))), rounds),))
    ran: dict[str, list[str]] = {"kafka": [], "highwater": []}
    kept: list[list[RowRuns]] = []
    complete = carry_out(
        plan,
        cast(Any, ran),
        lambda _: None,
        lambda rows: kept.append(list(rows)),
        before,
        lambda: stop_after is not None and len(kept) >= stop_after,
    )
    return complete, ran, kept[-1] if kept else []


def test_only_runs_that_are_missing_are_made() -> None:
    before = {A: measured(A, "kafka", "highwater").runs, B: measured(B, "kafka").runs}
    complete, ran, kept = made(1, before)
    assert complete
    assert ran == {"kafka": [], "highwater": ["b"]}
    assert [[run.system for run in row.runs] for row in kept] == [["kafka", "highwater"]] * 2


def test_later_rounds_go_on_where_the_earlier_ended() -> None:
    before = {A: measured(A, "kafka", "highwater").runs}
    _, ran, kept = made(2, before)
    assert ran == {"kafka": ["b", "a", "b"], "highwater": ["b", "a", "b"]}
    assert [run.system for run in kept[0].runs] == ["kafka", "highwater", "highwater", "kafka"]


def test_out_of_time_begins_no_row_and_keeps_those_that_have_runs() -> None:
    complete, ran, kept = made(3, {}, stop_after=1)
    assert not complete
    assert ran == {"kafka": ["a"], "highwater": ["a"]}
    assert [row.name for row in kept] == ["a"]


def test_what_was_written_is_read_again_and_needs_no_file(tmp_path: Path) -> None:
    assert earlier(tmp_path, "full", ENVIRONMENT, [A]) == Earlier()
    rows = [measured(A, "kafka"), RowRuns(*B, ("mb_per_s",), (), [Run("kafka", {}, "its ISR shrank")])]
    write(tmp_path, "full", ENVIRONMENT, rows)
    found = earlier(tmp_path, "full", ENVIRONMENT, [A, B])
    assert found == Earlier({A: tuple(rows[0].runs), B: tuple(rows[1].runs)}, 12.5)


@pytest.mark.parametrize("key", SAME)
def test_results_of_another_environment_are_refused_by_what_differs(tmp_path: Path, key: str) -> None:
    write(tmp_path, "full", ENVIRONMENT | {key: "another one"}, [measured(A, "kafka")])
    with pytest.raises(BenchmarkFailed, match=f"another {key}: 'another one', now 'this {key}'"):
        earlier(tmp_path, "full", ENVIRONMENT, [A])


def test_results_with_rows_that_are_not_asked_for_are_not_lost(tmp_path: Path) -> None:
    write(tmp_path, "full", ENVIRONMENT, [measured(A, "kafka"), measured(B, "kafka")])
    with pytest.raises(BenchmarkFailed, match="'Produce: b' for one; name another --out"):
        earlier(tmp_path, "full", ENVIRONMENT, [A])


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"environment": {"minutes": 1}, "rows": [{}]})])
def test_file_that_is_no_result_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "full.json").write_text(text)
    with pytest.raises(BenchmarkFailed, match=r"full\.json is no result of a benchmark"):
        earlier(tmp_path, "full", ENVIRONMENT, [A])
