"""`highwater import` and `highwater export`: what they leave on disk, what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.verdicts.catalogue import BY_NAME
from harness.commands.main import main
from harness.exchange.edn import to_edn
from harness.exchange.jepsen_export import Exported
from harness.exchange.jepsen_import import as_map
from harness.exchange.operations import Poll, Send, read_history
from tests.support.histories import TICK_NS, Story

GOLDENS = Path(__file__).parents[3] / "jepsen"


def _run_of(story: Story, folder: Path) -> Path:
    folder.mkdir()
    (folder / "history.jsonl").write_text(story.text())
    (folder / "run.json").write_text(json.dumps({"schema": 1, "name": "r", "topic": {"name": "hw", "partitions": 1}}))
    return folder


def test_import_makes_a_run_of_which_nothing_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, source = tmp_path / "store", GOLDENS / "valid.edn"
    assert main(["import", str(source), "--store", str(store), "--name", "theirs"]) == 0
    run_dir = (store / "latest").resolve()
    assert run_dir == (store / "theirs" / "latest").resolve()
    assert capsys.readouterr().out.splitlines()[0] == f"run: {run_dir}"
    run = json.loads((run_dir / "run.json").read_text())
    assert run["imported"] == {"from": "jepsen", "file": "source/valid.edn", "keys": [0, 1]}
    assert (run["finished"], run["topic"]["partitions"]) == (True, 2)
    assert set(run["checkers"]) <= set(BY_NAME)
    assert (run_dir / "source" / "valid.edn").read_bytes() == source.read_bytes()
    lines = [json.loads(line) for line in (run_dir / "history.jsonl").read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(run["lines"]))
    assert {path.name for path in (store / "theirs").iterdir()} == {run_dir.name, "latest"}


def test_import_of_what_is_no_history_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, bad = tmp_path / "store", tmp_path / "bad.edn"
    bad.write_text((GOLDENS / "valid.edn").read_text()[:-20])
    assert main(["import", str(bad), "--store", str(store)]) == 254
    assert f"highwater: {bad}: line 38: the text ends within" in capsys.readouterr().err
    assert not store.exists()
    assert main(["import", str(GOLDENS / "valid.edn"), "--store", str(store), "--name", "../x"]) == 254
    assert "--name: '../x' is not a name" in capsys.readouterr().err
    assert not store.exists()


def test_import_that_cannot_be_written_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    assert main(["import", str(GOLDENS / "valid.edn"), "--store", str(store)]) == 0
    before = {path: path.lstat().st_mtime_ns for path in store.rglob("*") if not path.is_dir()}

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device", str(store))

    monkeypatch.setattr("harness.runs.store.write_json", full)
    assert main(["import", str(GOLDENS / "valid.edn"), "--store", str(store)]) == 254
    assert "no space left" in capsys.readouterr().err
    assert {path: path.lstat().st_mtime_ns for path in store.rglob("*") if not path.is_dir()} == before
    assert len(list((store / "jepsen").iterdir())) == 2


def test_export_of_an_imported_run_is_its_history_and_overwrites_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, out = tmp_path / "store", tmp_path / "out.edn"
    assert main(["import", str(GOLDENS / "valid.edn"), "--store", str(store)]) == 0
    assert main(["export", str(store / "latest"), "--to", "jepsen", str(out)]) == 0
    first = read_history(GOLDENS / "valid.edn").operations
    again = read_history(out).operations
    assert [as_map(one) for one in again] == [as_map(one) for one in first]
    written = out.read_bytes()
    capsys.readouterr()
    assert main(["export", str(store / "latest"), "--to", "jepsen", str(out)]) == 254
    assert f"{out}: is there already" in capsys.readouterr().err
    assert out.read_bytes() == written
    assert main(["export", str(store / "latest"), "--to", "jepsen", str(tmp_path / "no" / "out.edn")]) == 254


def test_export_says_what_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    story.send(1, 5_000_000, acks=1)
    story.poll(5_000_000, [(5_000_000, 1)])
    story.list_offsets(5_000_001)
    run = _run_of(story, tmp_path / "run")
    assert main(["export", str(run), "--to", "jepsen", str(tmp_path / "a.edn")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 sends with acks=1: Jepsen takes them for ones that may not be lost",
        "left out, for Jepsen's history has no such operations: 1 list_offsets",
        "offsets up to 5,000,000: with --dense-offsets Jepsen's checker needs less memory",
        f"6 operations: {tmp_path / 'a.edn'}",
    ]
    assert main(["export", str(run), "--to", "jepsen", str(tmp_path / "b.edn"), "--dense-offsets"]) == 0
    dense = read_history(tmp_path / "b.edn").operations
    assert [one.micro for one in dense if one.type == "ok" and one.micro] == [[Send(0, 1, 0)], [Poll({0: [(0, 1)]})]]


def test_export_says_that_jepsen_knows_no_deletion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    for value in range(4):
        story.send(value + 1, value)
    story.poll(0, [(0, 1)])
    story.delete(2)
    story.poll(3, [(3, 4)], log_start=3)
    run = _run_of(story, tmp_path / "run")
    assert main(["export", str(run), "--to", "jepsen", str(tmp_path / "a.edn")]) == 0
    assert (
        "log starts up to 3: Jepsen knows no deletion, and takes for lost what was acknowledged below them and read by "
        "nobody (2), and for a skip what a consumer that was behind jumped over"
    ) in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("policy", "said"), [("compact", True), ("compact,delete", True), ("delete", False)])
def test_export_says_that_jepsen_knows_no_compaction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str, said: bool
) -> None:
    story = Story()
    story.send(1, 0)
    run = _run_of(story, tmp_path / "run")
    topic = {"name": "hw", "partitions": 1, "config": {"cleanup.policy": policy}}
    (run / "run.json").write_text(json.dumps({"schema": 1, "name": "r", "topic": topic}))
    assert main(["export", str(run), "--to", "jepsen", str(tmp_path / "a.edn")]) == 0
    assert ("compaction: Jepsen takes a value for lost" in capsys.readouterr().out) == said


def _exported(story: Story) -> list[dict[str, Any]]:
    return [
        {str(name): value for name, value in as_map(operation).items()}
        for operation in Exported(story.lines).operations()
    ]


def _text(operation: dict[str, Any]) -> str:
    return f"{operation['process']} {operation['type']} {operation['f']} {to_edn(operation['value'])}"


def test_open_operations_are_closed_and_their_process_is_over() -> None:
    story = Story()
    story.invoke("send", values=[1], acks=-1)
    story.send(2, outcome="info", process=1)
    story.send(3, 0, process=1)
    story.send(4, outcome="fail", process=1)
    story.send(5, acks=0, process=1)
    assert [_text(one) for one in _exported(story)] == [
        "0 invoke send [[:send 0 1]]",
        "1 invoke send [[:send 0 2]]",
        "1 info send [[:send 0 [nil 2]]]",
        "2 invoke send [[:send 0 3]]",
        "2 ok send [[:send 0 [0 3]]]",
        "2 invoke send [[:send 0 4]]",
        "2 fail send [[:send 0 [nil 4]]]",
        "2 invoke send [[:send 0 5]]",
        "0 info send [[:send 0 [nil 1]]]",
        "2 info send [[:send 0 [nil 5]]]",
    ]


def test_batch_that_was_sent_again_is_one_send() -> None:
    story = Story()
    first = story.send([1, 2], outcome="info", process=0)
    story.send([1, 2], 7, process=1, resends=first)
    assert [_text(one) for one in _exported(story)] == [
        "0 invoke send [[:send 0 1] [:send 0 2]]",
        "0 ok send [[:send 0 [7 1]] [:send 0 [8 2]]]",
    ]


def test_consumer_that_seeks_is_another_one_from_then_on() -> None:
    story = Story()
    for value in range(3):
        story.send(value + 1, value)
    story.poll(0, [(0, 1)], process=5)
    story.poll(1, [(1, 2)], process=5)
    story.poll(2, process=5)
    story.poll(2, outcome="fail", process=5)
    story.poll(0, [(0, 1), (1, 2)], process=5)
    story.poll(0, [(0, 1)], process=6, consumer="c1", intact=False)
    assert [_text(one) for one in _exported(story) if one["f"] != "send" and one["type"] != "invoke"] == [
        "1 ok assign [0]",
        "1 ok poll [[:poll {0 [[0 1]]}]]",
        "1 ok poll [[:poll {0 [[1 2]]}]]",
        "1 ok poll [[:poll {}]]",
        "1 fail poll [[:poll {}]]",
        "2 ok assign [0]",
        "2 ok poll [[:poll {0 [[0 1] [1 2]]}]]",
        "3 ok assign [0]",
        "3 ok poll [[:poll {0 [[0 nil]]}]]",
    ]


def test_operations_of_one_process_follow_one_another_within_one_instant() -> None:
    story = Story()
    story.send(1, 0, invoked=1, completed=5)
    story.send(2, 1, invoked=5, completed=5)
    story.send(3, 2, invoked=5, completed=9)
    story.send(4, 3, process=1, invoked=3, completed=5)
    open_now: set[object] = set()
    times = []
    for one in _exported(story):
        assert (one["process"] in open_now) == (one["type"] != "invoke")
        open_now ^= {one["process"]}
        times.append(one["time"])
    assert times == sorted(times)
    assert len({one["process"] for one in _exported(story)}) == 2


def test_faults_are_operations_of_the_nemesis() -> None:
    story = Story()
    story.nemesis("start", "kill", 1, ["n1"], began_ns=TICK_NS // 2)
    story.nemesis("stop", "kill", 1, ["n1"])
    assert [(one["process"], one["type"], one["f"], one["time"]) for one in _exported(story)] == [
        ("nemesis", "info", "start-kill", TICK_NS // 2),
        ("nemesis", "info", "start-kill", TICK_NS),
        ("nemesis", "info", "stop-kill", 2 * TICK_NS),
        ("nemesis", "info", "stop-kill", 2 * TICK_NS),
    ]
    assert _exported(story)[1]["value"] == {"targets": ["n1"], "observed": True, "observation": "seen"}


def test_transaction_is_one_operation() -> None:
    story = Story()
    of_it: dict[str, Any] = {"txn": 3, "transactional_id": "t"}
    story.send(1, 4, **of_it)
    story.poll(0, [(0, 9)], isolation=1, txn=3, topic="in")
    story.coordinate("end_txn", commit=True, **of_it)
    story.send(2, 6, txn=4, transactional_id="t")
    exported = Exported(story.lines)
    assert exported.notes() == ["keys: 0 is hw-0, 1 is in-0"]
    assert [f"{one.process} {one.type} {one.f} {to_edn(as_map(one)['value'])}" for one in exported.operations()] == [
        "0 invoke txn [[:send 0 1] [:poll]]",
        "0 ok txn [[:send 0 [4 1]] [:poll {1 [[0 9]]}]]",
        "1 invoke txn [[:send 0 2]]",
        "1 fail txn [[:send 0 [6 2]]]",
    ]


def test_topics_that_are_made_anew_are_left_out_and_counted() -> None:
    story = Story()
    story.send(1, 0)
    story.send(2, 0, topic="hw-anew0", topic_id="A")
    story.poll(0, [(0, 1)])
    exported = Exported(story.lines)
    assert {part.value for one in exported.operations() for part in one.micro if isinstance(part, Send)} == {1}
    assert exported.notes() == [
        "2 lines on topics that are made anew left out, for Jepsen knows a log by its name: hw-anew0"
    ]
