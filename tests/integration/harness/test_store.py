from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.runs.store import StoreError, create, open_run, read_json, write_json


def test_create_makes_the_folder_and_points_both_links_at_it(tmp_path: Path) -> None:
    run = create(tmp_path, "demo", datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC))
    assert run.path == tmp_path / "demo" / "20260102T030405.678Z"
    assert run.evidence.is_dir()
    assert (tmp_path / "latest").resolve() == run.path
    assert (tmp_path / "demo" / "latest").resolve() == run.path


def test_create_again_moves_the_links(tmp_path: Path) -> None:
    create(tmp_path, "demo")
    other = create(tmp_path, "other")
    last = create(tmp_path, "demo")
    assert (tmp_path / "latest").resolve() == last.path
    assert (tmp_path / "demo" / "latest").resolve() == last.path
    assert (tmp_path / "other" / "latest").resolve() == other.path


def test_create_twice_in_one_millisecond_gives_two_folders(tmp_path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert len({create(tmp_path, "demo", now).path for _ in range(3)}) == 3


def test_links_survive_a_move_of_the_store(tmp_path: Path) -> None:
    run = create(tmp_path / "store", "demo")
    (tmp_path / "store").rename(tmp_path / "moved")
    assert (tmp_path / "moved" / "latest").resolve() == tmp_path / "moved" / "demo" / run.path.name


def test_create_where_nothing_can_be_made_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"a run.s folder cannot be made in .*file/demo"):
        create(tmp_path / "file", "demo")


def test_create_in_a_path_that_log_dirs_would_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="one,two/demo: a comma in the path"):
        create(tmp_path / "one,two", "demo")
    assert not (tmp_path / "one,two").exists()


def test_update_run_changes_keys_and_keeps_the_others(tmp_path: Path) -> None:
    run = create(tmp_path, "demo")
    run.write_run({"schema": 1, "finished": False})
    run.update_run(finished=True, aborted=None)
    assert run.read_run() == {"schema": 1, "finished": True, "aborted": None}
    assert [path.name for path in run.path.glob("run.json*")] == ["run.json"]


def test_open_run_takes_links_and_refuses_what_is_no_run(tmp_path: Path) -> None:
    run = create(tmp_path, "demo")
    with pytest.raises(StoreError, match=r"no history\.jsonl"):
        open_run(tmp_path / "latest")
    run.history.write_text("")
    with pytest.raises(StoreError, match=r"no run\.json"):
        open_run(tmp_path / "latest")
    write_json(run.run_json, {})
    assert open_run(tmp_path / "latest") == run


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_read_json_of_something_else_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(StoreError, match=r"x\.json"):
        read_json(tmp_path / "x.json")
