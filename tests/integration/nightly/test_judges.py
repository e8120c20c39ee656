"""The judges of a night, with the real checkers in them: many runs in one session, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from harness.nightly import judges as module
from harness.nightly.judges import MANY, Judges
from harness.runs import judge_process
from harness.runs.analysis import analyze
from harness.runs.checkers_process import AnalysisTooLong, Where
from harness.runs.store import RunStore
from tests.property.checkers.damaged_runs import no_event_log
from tests.support.evidence_files import write_run
from tests.support.model_cluster import random_life
from tests.support.shared_session import checkers_in
from tests.support.wait import eventually

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("H7")]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    life = random_life(Random(3), "hw", steps=30, partitions=2, current=True)
    return write_run(tmp_path_factory.mktemp("run") / "r", life)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything temporary goes."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def judges(temporary: Path, tmp_path: Path) -> Iterator[Judges]:
    made = Judges(tmp_path / "judges.log", runs=3)
    yield made
    made.close()


@pytest.mark.parametrize("runs", [MANY - 0.5, MANY])
def test_judge_of_many_runs_is_started_as_such(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: float
) -> None:
    """What is started only says what it was started with."""
    said = tmp_path / "said"
    monkeypatch.setattr(sys, "executable", "/bin/sh")
    monkeypatch.setattr(judge_process, "PROGRAM", ("-c", 'echo "$@" > "$0"', str(said)))
    with closing(Judges(tmp_path / "judges.log", runs)) as made, made.one() as socket:
        eventually(lambda: said.exists() and said.read_text(), "it says so", timeout_s=60)
    assert said.read_text().split() == ["--listen", str(socket), *(["--many"] if runs == MANY else [])]


def running(session: int) -> set[str]:
    """Names of the programs of a judge, which began a session."""
    names = set()
    for process in psutil.process_iter(["name", "status"]):
        with suppress(OSError):
            if os.getsid(process.pid) == session and process.info["status"] != psutil.STATUS_ZOMBIE:
                names.add(process.info["name"])
    return names


def ready(judges: Judges, judge: Path) -> int:
    """Once it takes runs, and its Java runs: its session."""
    (session,) = [one.process.pid for one in judges._all if one.socket == judge]
    eventually(judge.exists, "the judge listens", timeout_s=60)
    eventually(lambda: "java" in running(session), "its Java runs", timeout_s=60)
    return session


def judged(folder: Path, where: Where, limit_s: float = 600) -> dict[str, Any]:
    analyze(RunStore(folder), limit_s, where=where)
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    results.pop("analysis")
    return results


@pytest.mark.nightly
def test_runs_are_judged_one_after_the_other_as_if_each_were_judged_alone(
    run_dir: Path, tmp_path: Path, judges: Judges, temporary: Path, spark: SparkSession
) -> None:
    good, bad, alone = (Path(shutil.copytree(run_dir, tmp_path / name)) for name in ("good", "bad", "alone"))
    no_event_log(bad)
    shown = []
    for folder in (bad, good):
        with judges.one() as judge:
            session = ready(judges, judge)
            shown.append((judge, judged(folder, Where(judge=judge))))
    assert len({judge for judge, _ in shown}) == 1
    first, after = (results for _, results in shown)
    assert (first["verdict"], after["verdict"]) == ("unknown", "valid")
    with checkers_in(spark):
        assert judged(alone, Where()) == after
    judges.close()
    # Its Java is killed with it, and is nobody's to wait for.
    eventually(lambda: not running(session), "the judge and its Java have ended")
    assert list(temporary.iterdir()) == []


@pytest.mark.nightly
def test_judge_whose_run_takes_too_long_ends_and_another_takes_its_place(
    run_dir: Path, tmp_path: Path, judges: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(run_dir, tmp_path / "late"))
    with judges.one() as first:
        session = ready(judges, first)
        with pytest.raises(AnalysisTooLong):
            judged(folder, Where(judge=first), 0.5)
        eventually(lambda: not running(session), "the judge and its Java have ended")
        eventually(lambda: not first.exists(), "its socket is gone")
    monkeypatch.setattr(module, "RUNS_EACH", 1)
    with judges.one() as second:
        assert second != first
        session = ready(judges, second)
        assert judged(folder, Where(judge=second))["verdict"] == "valid"
    eventually(lambda: not running(session), "it ends, for it has judged as many as one may")


def test_judge_answers_what_is_no_request_and_ends_with_whom_it_works_for(
    judges: Judges, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with judges.one() as judge:
        session = ready(judges, judge)
        monkeypatch.chdir(judge.parent)  # an address of a socket is short
        for line in (b"judge this\n", b'{"run_dir": 3}\n', b"[]\n"):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(judge.name)
                client.sendall(line)
                assert b"refused" in client.recv(4096)
        stdin = judges._all[0].process.stdin
        assert stdin is not None
        # As at the death of the night's process, which closes all that it has.
        with open(os.devnull, "wb") as other:
            os.dup2(other.fileno(), stdin.fileno())
        eventually(lambda: not running(session), "the judge and its Java have ended")
        assert list(temporary.glob("*/*")) == []
