"""Benchmarks in parts: what counts of an earlier part, and where results are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.process import BenchmarkFailed
from benchmarks.report.results import file_name, set_aside, write
from benchmarks.report.resume import SAME, Earlier, earlier
from benchmarks.report.summary import RowRuns, Run

ENVIRONMENT: dict[str, object] = {key: f"this {key}" for key in SAME} | {"minutes": 12.5}
A, B = ("Produce", "a"), ("Produce", "b")


def measured(name: tuple[str, str], *systems: str, part: int = 1) -> RowRuns:
    runs = [Run(system, {"mb_per_s": 2.0}, None, "2026-01-01T00:00:00Z", 3.5, part) for system in systems]
    return RowRuns(*name, ("mb_per_s",), (), {"kafka": 1, "highwater": 1}, runs=runs)


def test_what_was_written_is_read_again_and_needs_no_file(tmp_path: Path) -> None:
    assert earlier(tmp_path, "full", ENVIRONMENT, [A]) == Earlier()
    void = RowRuns(*B, ("mb_per_s",), (), {"kafka": 1}, runs=[Run("kafka", {"mb_per_s": 1.0}, "its ISR shrank")])
    rows = [measured(A, "kafka", part=2), void]
    write(tmp_path, "full", ENVIRONMENT, rows)
    found = earlier(tmp_path, "full", ENVIRONMENT, [A, B])
    assert found == Earlier({A: tuple(rows[0].runs), B: tuple(rows[1].runs)}, 12.5, 2)


@pytest.mark.parametrize("key", SAME)
def test_results_of_another_environment_are_refused_by_what_differs(tmp_path: Path, key: str) -> None:
    write(tmp_path, "full", ENVIRONMENT | {key: "another one"}, [measured(A, "kafka")])
    with pytest.raises(BenchmarkFailed, match=f"another {key}: 'another one', now 'this {key}'"):
        earlier(tmp_path, "full", ENVIRONMENT, [A])


def test_results_with_runs_of_rows_that_are_not_requested_are_not_lost(tmp_path: Path) -> None:
    write(tmp_path, "full", ENVIRONMENT, [measured(A, "kafka"), measured(B, "kafka")])
    with pytest.raises(BenchmarkFailed, match="'Produce: b' for one; name another --out"):
        earlier(tmp_path, "full", ENVIRONMENT, [A])


def test_rows_that_were_not_run_and_are_not_requested_are_nothing_to_lose(tmp_path: Path) -> None:
    write(tmp_path, "full", ENVIRONMENT, [measured(A, "kafka"), measured(B)])
    assert set(earlier(tmp_path, "full", ENVIRONMENT, [A]).runs) == {A, B}


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"environment": {"minutes": 1}, "rows": [{}]})])
def test_file_that_is_no_result_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "full.json").write_text(text)
    with pytest.raises(BenchmarkFailed, match=r"full\.json is no result of a benchmark"):
        earlier(tmp_path, "full", ENVIRONMENT, [A])


def test_part_of_the_rows_has_a_file_of_its_own() -> None:
    assert (file_name("full", False), file_name("full", True)) == ("full", "full-part")


def test_results_that_are_there_are_set_aside_with_their_plot(tmp_path: Path) -> None:
    assert set_aside(tmp_path, "full") is None
    write(tmp_path, "full", ENVIRONMENT, [measured(A, "kafka")])
    kept = set_aside(tmp_path, "full")
    assert kept is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{kept}{suffix}" for suffix in (".json", ".md", ".svg")
    ]
    assert f"({kept}.svg)" in (tmp_path / f"{kept}.md").read_text()
