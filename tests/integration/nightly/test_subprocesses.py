from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.nightly.jobs import Job
from harness.nightly.runner import Subprocesses
from harness.nightly.schedule import Schedule
from harness.nightly.standstill import end_of
from harness.runs.store import create, write_json
from harness.runs.trouble import INFRASTRUCTURE, LAB, SIGNAL
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("H7")


@pytest.mark.parametrize(
    ("verdict", "said"), [(None, "no run was recorded"), ("valid", "results.json says valid"), ("invalid", "")]
)
def test_exit_code_without_results_of_the_same_verdict_is_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: str | None, said: str
) -> None:
    """Python itself ends with 1 where a program cannot be started, which would be taken for invalid."""

    store = create(tmp_path / "store", "a")
    if verdict is not None:
        write_json(store.results, {"verdict": verdict, "sentence": "It is.", "checkers": {}})
    monkeypatch.setattr(sys, "executable", program(tmp_path, "echo run: $PWD" if verdict else "true", "exit 1"))
    monkeypatch.chdir(store.path)
    result = Subprocesses(None)(Job("a.toml", "a", "d", 7, "valid"), tmp_path)
    assert result.exit_code == (1 if verdict == "invalid" else 255)
    assert said in result.sentence
    assert result.trouble == (None if verdict == "invalid" else LAB)


@pytest.mark.parametrize("end", ["kill -KILL $$", "exit 255", "exit 0", "kill -INT $$"])
def test_results_that_say_invalid_stand_however_the_run_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """As a crash whose nodes failed it would be tried again, and a valid second try be shown alone."""
    store = create(tmp_path / "store", "a")
    write_json(store.path / "run.json", {"seed": 7, "trouble": INFRASTRUCTURE})
    checks = {"lost-write": {"verdict": "invalid"}, "duplicate": {"verdict": "valid"}}
    write_json(store.results, {"verdict": "invalid", "sentence": "It is.", "checkers": checks})
    monkeypatch.setattr(sys, "executable", program(tmp_path, "echo run: $PWD", end))
    monkeypatch.chdir(store.path)
    job = Job("a.toml", "a", "d", 7, "valid")
    result = Subprocesses(None)(job, tmp_path)
    assert (result.verdict(), result.found, result.trouble) == ("invalid", ("lost-write",), None)
    assert result.sentence.startswith("It is. (The run ended with exit code ")
    schedule = Schedule([job], {}, 1, lambda: None, lambda _job: None)
    assert schedule.next() == job
    assert (schedule.done(job, result), schedule.next()) == (False, None)


def program(folder: Path, *lines: str) -> str:
    """A shell script in the place of Python, which takes its arguments for `highwater test`."""
    path = folder / "program"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("lines", "trouble", "said"),
    [
        (["kill -KILL $$"], INFRASTRUCTURE, "exit code -9"),
        (["echo no nodes >&2", "exit 255"], INFRASTRUCTURE, "no nodes"),
        (["echo wrong >&2", "exit 254"], LAB, "wrong"),
        (["kill -TERM $$"], SIGNAL, "exit code -15"),
    ],
)
def test_run_without_a_verdict_says_whose_trouble_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], trouble: str, said: str
) -> None:
    monkeypatch.setattr(sys, "executable", program(tmp_path, *lines))
    result = Subprocesses(None)(Job("a.toml", "a", "d", 7, "valid"), tmp_path)
    assert (result.trouble, result.run_dir) == (trouble, None)
    assert said in result.sentence


def test_killed_run_is_found_by_its_seed_and_says_itself_whose_trouble_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two lanes write below one store: a run that was killed did not say where it stands."""
    runs = tmp_path / "store" / "a"
    make = [f"mkdir -p {runs}/{seed} && echo '{{\"seed\": {seed}}}' > {runs}/{seed}/run.json" for seed in (6, 7, 8)]
    monkeypatch.setattr(sys, "executable", program(tmp_path, *make, "kill -KILL $$"))
    result = Subprocesses(None)(Job("a.toml", "a", "d", 7, "valid"), tmp_path)
    assert result.run_dir == str(runs / "7")
    (runs / "7" / "run.json").write_text('{"seed": 7, "trouble": "system"}')
    monkeypatch.setattr(sys, "executable", program(tmp_path, f"echo run: {runs}/7", "exit 255"))
    assert Subprocesses(None)(Job("a.toml", "a", "d", 7, "valid"), tmp_path).trouble == "system"


def test_runs_under_way_are_ended_as_by_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = tmp_path / "began"
    script = tmp_path / "run"
    # Not in the shell's language: where SIGINT was ignored from the start, as in a job in the background, it stays so.
    script.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, signal, sys\n"
        "def end(*_):\n    print('ended', flush=True)\n    sys.exit(255)\n"
        "signal.signal(signal.SIGINT, end)\n"
        f"pathlib.Path({str(began)!r}).touch()\n"
        "while True:\n    signal.pause()\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    runner = Subprocesses(None)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner, Job("a.toml", "a", "d", 7, "valid"), tmp_path)
        eventually(began.exists, "the run begins")
        runner.end()
        assert running.result(timeout=30).sentence == "ended"
    assert runner(Job("a.toml", "a", "d", 8, "valid"), tmp_path).trouble == SIGNAL


def test_run_that_stands_still_is_ended_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a client's library waits for ever with Python's lock held: no thread of the run gets to its limits."""
    frozen = tmp_path / "frozen"
    frozen.mkdir()
    # In the place of the command line's own module, which its first steps import.
    (frozen / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'harness.commands.main':\n"
        "            stand_still()\n"
        "def stand_still():\n"
        "    import ctypes\n"
        "    print('begins', flush=True)\n"
        "    ctypes.PyDLL(None).pause()\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{frozen}{os.pathsep}{Path(__file__).parents[3]}")
    result = Subprocesses(None, still_s=1.0)(Job("a.toml", "a", "d", 7, "valid"), tmp_path)
    assert (result.exit_code, result.trouble) == (255, LAB)
    assert result.sentence.startswith("stood still: nothing new in its output for 1 s")
    said = Path(result.sentence.split()[-1]).read_text()
    assert said.startswith("begins")
    assert "in stand_still" in said


def test_run_that_hears_no_signal_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        deaf = ["sh", "-c", "trap '' QUIT; echo begins; while :; do sleep 0.05; done"]
        process = subprocess.Popen(deaf, stdout=output, start_new_session=True)
    eventually(lambda: log.stat().st_size > 0, "it begins")
    now = iter(range(1_000_000))
    code, still = end_of(process, log, still_s=3, grace_s=0.2, look_s=0.01, clock_s=lambda: next(now))
    assert (code, still) == (-signal.SIGKILL, True)
