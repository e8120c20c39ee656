from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def run(work: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "benchmarks", *arguments, "--work", str(work)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_list_names_the_rows_of_all_plans_with_their_times_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "full", "curves", "--list", "--rows", "Footprint|10,000 partitions")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Footprint: three new brokers, before any load  [3 × ")
    assert [line.partition(":")[0] for line in lines if "about" in line] == ["full", "curves"]
    assert list(tmp_path.iterdir()) == []


def test_rows_that_no_plan_has_are_refused_with_those_that_there_are(tmp_path: Path) -> None:
    done = run(tmp_path, "quick", "--rows", "nonsense")
    assert done.returncode == 2
    assert "no row matches 'nonsense'" in done.stderr
    assert "One record in flight: acks=all, 100 B" in done.stderr


def test_rows_that_are_no_regular_expression_are_refused_with_the_reason(tmp_path: Path) -> None:
    done = run(tmp_path, "quick", "--rows", "*kill")
    assert done.returncode == 2
    assert "'*kill' is no regular expression: nothing to repeat at position 0" in done.stderr
