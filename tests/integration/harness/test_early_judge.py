"""A judge that is started before its run has ended: when there is one, and what becomes of it."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from harness.runs import early_judge, judge_process
from harness.runs.analysis import analyze
from harness.runs.checkers_process import HERE, Where
from harness.runs.early_judge import EarlyJudge
from harness.runs.store import RunStore
from tests.support.wait import eventually

RESULTS = '{"verdict": "valid", "sentence": "It is.", "checkers": {}}'
_JUDGE = """
import json, os, socket, sys, threading
path = sys.argv[sys.argv.index("--listen") + 1]
server = socket.socket(socket.AF_UNIX)
os.chdir(os.path.dirname(path))  # The whole path may be too long for an address.
server.bind(os.path.basename(path))
server.listen()
def end():
    os.read(0, 1)
    os.unlink(path)
    os._exit(0)
threading.Thread(target=end).start()
connection, _ = server.accept()
run_dir = json.loads(connection.makefile().readline())["run_dir"]
with open(run_dir + "/results.json", "w") as results:
    json.dump({"verdict": "valid", "sentence": "It is.", "checkers": {}}, results)
connection.sendall(b'{"code": 0}\\n')
connection.close()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What runs as Python; a shell script that tests write."""
    program = tmp_path / "program"
    monkeypatch.setattr(sys, "executable", str(program))
    return program


def runs(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_run_is_judged_by_the_judge_that_was_started_for_it(store: RunStore, tmp_path: Path, program: Path) -> None:
    (tmp_path / "judge.py").write_text(_JUDGE)
    runs(program, f'exec {sys.orig_argv[0]} {tmp_path / "judge.py"} "$@"')
    with EarlyJudge(HERE, store) as early:
        early.start()
        where = early.ready()
        assert where.judge is not None
        assert analyze(store, 30, where=where).verdict == "valid"
    assert not where.judge.exists()


@pytest.mark.parametrize("where", [Where(spark_master="spark://somewhere:1"), Where(judge=Path("/a/judge"))])
def test_checkers_that_run_elsewhere_get_no_judge(store: RunStore, program: Path, where: Where) -> None:
    runs(program, f"touch {program.with_name('started')}")
    with EarlyJudge(where, store) as early:
        early.start()
        assert early.ready() == where
    assert not program.with_name("started").exists()


def test_run_without_its_judge_is_judged_by_a_process(store: RunStore, program: Path) -> None:
    with EarlyJudge(HERE, store) as early:
        assert early.ready() == HERE
        # There is no such program.
        early.start()
        assert early.ready() == HERE
        runs(program, "exit 3")
        early.start()
        assert early.ready() == HERE


def test_judge_that_is_not_asked_ends_with_the_run(store: RunStore, program: Path) -> None:
    runs(program, f"cat; touch {program.with_name('ended')}")
    with EarlyJudge(HERE, store) as early:
        early.start()
    assert program.with_name("ended").exists()


def test_long_run_gets_no_judge(store: RunStore, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_judge, "MOST_BYTES", store.history.stat().st_size)
    runs(program, "cat")
    with EarlyJudge(HERE, store) as early:
        early.start()
        assert early.ready() == HERE


def test_judge_that_does_not_end_is_ended_with_all_that_it_started(
    store: RunStore, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while Java starts, when nobody looks at the standard input."""
    monkeypatch.setattr(judge_process, "_END_S", 0.1)
    pids = program.with_name("pids")
    runs(
        program, f'sleep 1000 & touch "$4"; mkdir "$4.files"; echo $! $$ > {pids}.new; mv {pids}.new {pids}; sleep 1000'
    )
    with EarlyJudge(HERE, store) as early:
        early.start()
        assert early.ready().judge == store.path / "judge"
        eventually(pids.exists, "it has started what it starts", timeout_s=30)
    assert not (store.path / "judge").exists()
    assert not (store.path / "judge.files").exists()
    eventually(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()), "all have ended", timeout_s=30)


def test_what_a_dead_judge_left_goes_with_the_next_analysis(store: RunStore, program: Path) -> None:
    (store.path / "judge").touch()
    (store.path / "judge.files").mkdir()
    runs(program, f"echo '{RESULTS}' > \"$3/results.json\"")
    assert analyze(store, 30, where=HERE).verdict == "valid"
    assert {path.name for path in store.path.glob("judge*")} == set()


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
