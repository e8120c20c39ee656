"""What a run recorded is told from what its folder holds later, by both sides of the format."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.evidence.recorded import changed
from harness.runs.digests import digests
from harness.runs.store import RunStore
from tests.support.run_info import run_info

FILES = (
    "history.jsonl",
    "evidence/n1/events.jsonl",
    "evidence/n1/data/hw-0/00000000000000000000.log",
    "evidence/n1/data/hw-0/leader-epoch-checkpoint",
    "evidence/n1/data/replication-offset-checkpoint",
    "evidence/n1/data/second/hw-1/00000000000000000000.log",
    "evidence/n1/logs/broker.log",
    "evidence/n1/logs-after/broker.log",
    "evidence/zk1/zookeeper/version-2/log.1",
)
NOT_JUDGED = ("evidence/n1/data/hw-0/00000000000000000000.index", "evidence/n1/server.properties", "report.html")


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    for name in (*FILES, *NOT_JUDGED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return RunStore(tmp_path)


def _changed(store: RunStore, recorded: dict[str, str]) -> tuple[bool, list[str]]:
    return changed(store.path, run_info(recorded=recorded))


def test_folder_that_is_what_was_recorded_is_not_changed(store: RunStore) -> None:
    recorded = digests(store)
    assert set(recorded) == {"history.jsonl", "evidence/n1", "evidence/zk1"}
    for name in NOT_JUDGED:
        (store.path / name).write_text("made anew")
    assert _changed(store, recorded) == (False, [])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["changed", "emptied", "removed", "renamed"])
def test_file_that_is_not_what_was_recorded_is_told_by_its_node(store: RunStore, name: str, how: str) -> None:
    recorded, path = digests(store), store.path / name
    if how == "changed":
        path.write_bytes(b"X" + path.read_bytes()[1:])
    elif how == "emptied":
        path.write_bytes(b"")
    elif name == "history.jsonl":
        return
    elif how == "removed":
        path.unlink()
    else:
        path.rename(path.with_name("events.jsonl" if path.name != "events.jsonl" else "other"))
    expected = (True, []) if name == "history.jsonl" else (False, [name.split("/")[1]])
    assert _changed(store, recorded) == expected


def test_file_that_came_later_is_told(store: RunStore) -> None:
    recorded = digests(store)
    (store.evidence / "n1" / "data" / "hw-0" / "00000000000000000009.log").write_text("later")
    assert _changed(store, recorded) == (False, ["n1"])


def test_run_without_digests_is_taken_as_it_is(store: RunStore) -> None:
    (store.path / "history.jsonl").write_text("anything")
    assert _changed(store, {}) == (False, [])
