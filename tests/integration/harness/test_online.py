"""A run that is judged while it goes on, over a scripted broker: what a judge's answers, and its death, do to it.

The judge is a program of the test's own; what the real one finds: tests/property/checkers/test_prefixes.py, and
tests/mutants/test_online.py for both together.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from checkers.online.growing import GrowingHistory
from harness.operations.history import read_lines, recover
from harness.runs.console import Stats
from harness.runs.run import Ended
from tests.integration.harness.scripted_run import TEXT, World, carry_out, phases

FOUND = {"checker": "duplicate", "count": 3, "detail": "value 7 stands twice", "partition": "hw-0"}
ANSWER = {"lines": 12, "to_ns": 1_500_000_000, "acknowledged": 4}
VALID = json.dumps({**ANSWER, "found": []})
INVALID = json.dumps({**ANSWER, "found": [{**FOUND, "operations": [3, 8], "at_ns": 1_400_000_000}]})
LONG = TEXT.replace("time_limit_s = 1", "time_limit_s = 600")


def _judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    """A program in the place of `python -m checkers.online --niceness N RUN_DIR SCRATCH`; does: what it does, in sh."""
    program = tmp_path / "judge"
    program.write_text(f'#!/bin/sh\ntest "$2 $4" = "checkers.online 10" -a -d "$6" || exit 9\n{does}\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the console was told of the verdict so far."""
    told: list[str] = []
    monkeypatch.setattr(Stats, "so_far", lambda _stats, text: told.append(text))
    return told


def _run_json(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ended.store.run_json.read_text())
    return found


def _left(ended: Ended) -> set[str]:
    return {path.name for path in ended.store.path.iterdir() if path.name.startswith("online")}


def test_run_that_is_invalid_already_ends_its_load_and_is_drained_all_the_same(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: list[str]
) -> None:
    _judge(tmp_path, monkeypatch, f"read line; echo '{VALID}'; read line; echo '{INVALID}'; read line")
    ended = carry_out(tmp_path, f"{LONG}[online]\nevery_s = 1\nstop_on_invalid = true\n")
    assert ended.problem is None
    assert phases(ended.store) == ["setup", "main", "heal", "final", "drain-current", "drain-n1"]
    early = {
        "checker": "duplicate",
        "found": FOUND["detail"],
        "topic_partition": FOUND["partition"],
        "operations": [3, 8],
        "at_ns": 1_400_000_000,
        "lines": 12,
    }
    assert _run_json(ended)["ended_early"] == early
    (line,) = [line for line in read_lines(ended.store.history) if line["f"] == "ended-early"]
    assert {name: line[name] for name in early} == early
    assert line["phase"] == "main"
    assert recover(ended.store.history).open == 0
    assert shown == [
        "so far: nothing judged yet",
        "so far: 4 acknowledged, nothing found, judged to 2 s",
        "INVALID so far: duplicate (3), judged to 2 s",
    ]
    assert _left(ended) == set()


def test_run_goes_to_its_end_where_nobody_said_to_stop_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: list[str]
) -> None:
    _judge(tmp_path, monkeypatch, f"while read line; do echo '{INVALID}'; done")
    ended = carry_out(tmp_path, f"{TEXT.replace('time_limit_s = 1', 'time_limit_s = 2')}[online]\nevery_s = 1\n")
    assert "ended_early" not in _run_json(ended)
    assert shown[-1].startswith("INVALID so far")


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("exit 3", "it ended with exit code 3; see online.log"),
        ('read line; echo \'{"ended": "too much"}\'', "too much"),
    ],
)
def test_run_loses_nothing_but_its_verdict_so_far_with_its_judge(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: list[str], does: str, why: str
) -> None:
    _judge(tmp_path, monkeypatch, does)
    text = TEXT.replace("time_limit_s = 1", "time_limit_s = 2")
    ended = carry_out(tmp_path, f"{text}[online]\nevery_s = 1\nstop_on_invalid = true\n")
    assert (ended.problem, ended.exit_code) == (None, 0)
    assert "ended_early" not in _run_json(ended)
    assert not [line for line in read_lines(ended.store.history) if line["f"] == "online"]
    assert shown[-1] == f"so far: 0 acknowledged, nothing found, judged to 0 s; no longer judged: {why}"
    assert _left(ended) == {"online.log"}


def test_run_that_ends_before_its_judge_answers_ends_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: list[str]
) -> None:
    _judge(tmp_path, monkeypatch, f"echo $$ > {tmp_path}/pid; read line; sleep 600")
    text = TEXT.replace("time_limit_s = 1", "time_limit_s = 2")
    ended = carry_out(tmp_path, f"{text}[online]\nevery_s = 1\nstop_on_invalid = true\n")
    assert (ended.problem, shown) == (None, ["so far: nothing judged yet"])
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
    assert _left(ended) == set()


def test_growing_history_ends_with_a_whole_line_and_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"")
    history = GrowingHistory(path, tmp_path / "copy.jsonl")
    assert (history.take(), history.copy.read_bytes()) == (0, b"")
    long = b"x" * (3 << 20)
    whole = b""
    for piece, ends in ((b"one\ntw", b"one\n"), (b"o", b"one\n"), (b"\n", b"one\ntwo\n"), (long, b"one\ntwo\n")):
        whole += piece
        path.write_bytes(whole)
        assert history.take() == len(ends)
        assert history.copy.read_bytes() == ends
    path.write_bytes(whole + b"\nlast\n")
    assert history.take() == len(whole) + 6
    assert history.copy.read_bytes() == whole + b"\nlast\n"
