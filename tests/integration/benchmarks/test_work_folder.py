from __future__ import annotations

import os
from pathlib import Path

from benchmarks.work_folder import remove_left, work_folder


def test_folder_that_a_killed_benchmark_left_is_removed_and_one_in_use_is_not(tmp_path: Path) -> None:
    left = tmp_path / "highwater-bench-left"
    left.mkdir()
    (left / "lock").touch()
    (left / "data").mkdir()
    with work_folder(tmp_path) as mine:
        assert not left.exists()
        assert remove_left(tmp_path) == []
        assert mine.exists()
    assert list(tmp_path.iterdir()) == []


def test_folder_without_a_lock_is_removed_when_it_is_old(tmp_path: Path) -> None:
    for name in ("new", "old"):
        (tmp_path / f"highwater-bench-{name}").mkdir()
    os.utime(tmp_path / "highwater-bench-old", (1, 1))
    assert [path.name for path in remove_left(tmp_path)] == ["highwater-bench-old"]
    assert (tmp_path / "highwater-bench-new").exists()


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "something").mkdir()
    os.utime(tmp_path / "something", (1, 1))
    assert remove_left(tmp_path) == []
