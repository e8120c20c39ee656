"""Planted cycles among made transactions are found by the checkers' own family, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.cycles.cli import main

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


def test_planted_cycles_are_found_and_no_others(tmp_path: Path) -> None:
    folder, results = tmp_path / "made", tmp_path / "results"
    assert main(["--sizes", "1000", "--folder", str(folder), "--results", str(results)]) == 0
    (row,) = json.loads((results / "cycles.json").read_text())
    assert (row["transactions"], row["problem"]) == (1000, None)
    assert row["edges"] > 4 * 1000
