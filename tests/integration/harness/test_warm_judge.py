"""A judge that waits for runs: what its client makes of each of its answers, and of none."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.runs.analysis import analyze
from harness.runs.checkers_process import HERE, JUDGE, AnalysisFailed, AnalysisTooLong, Where, where_checkers_run
from harness.runs.store import RunStore, write_json
from tests.support.descriptors import many_descriptors

Request = dict[str, Any]
Answer = Callable[[Request, socket.socket], None]


@pytest.fixture(autouse=True)
def own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of the checkers' own says *unknown*; a judge of these tests says something else."""
    program = tmp_path / "program"
    results = json.dumps({"verdict": "unknown", "sentence": "It is.", "checkers": {}})
    program.write_text(f"#!/bin/sh\necho '{results}' > \"$3/results.json\"\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


@contextmanager
def judge_at(path: Path, answer: Answer) -> Iterator[None]:
    """Listens there for one request."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as lines:
                answer(json.loads(lines.readline()), connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(30)
        assert not thread.is_alive()


def says(code: int, verdict: str) -> Answer:
    def answer(request: Request, connection: socket.socket) -> None:
        Path(request["log"]).write_text("as the checkers print\n")
        Path(request["progress"]).write_text("3 4\n")
        run = RunStore(Path(request["run_dir"]))
        write_json(run.results, {"verdict": verdict, "sentence": f"It is {verdict}.", "checkers": {}})
        # In two pieces: an answer is over at its line's end alone.
        connection.sendall(json.dumps({"code": code}).encode())
        connection.sendall(b"\n")

    return answer


@pytest.mark.parametrize(("code", "verdict"), [(0, "valid"), (1, "invalid")])
def test_run_is_judged_where_a_judge_waits(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, verdict: str
) -> None:
    monkeypatch.setenv(JUDGE, str(tmp_path / "judge"))
    with judge_at(tmp_path / "judge", says(code, verdict)):
        judged = analyze(store, 30, where=where_checkers_run(None))
    assert (judged.verdict, judged.exit_code) == (verdict, code)
    assert (store.path / "analysis.log").read_text() == "as the checkers print\n"
    assert not (store.path / "scratch").exists()


def test_judge_answers_a_process_of_many_descriptors(store: RunStore, tmp_path: Path) -> None:
    with many_descriptors(), judge_at(tmp_path / "judge", says(0, "valid")):
        assert analyze(store, 30, where=Where(judge=tmp_path / "judge")).verdict == "valid"


def test_judge_of_a_path_that_is_no_address_is_found(store: RunStore, tmp_path: Path) -> None:
    """The address of a socket has 108 letters."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    (tmp_path / "short").symlink_to(folder)
    with judge_at(tmp_path / "short" / "judge", says(0, "valid")):
        assert analyze(store, 30, where=Where(judge=folder / "judge")).verdict == "valid"


def refuses(_request: Request, connection: socket.socket) -> None:
    connection.sendall(b'{"refused": "too large"}\n')


def goes_away(_request: Request, _connection: socket.socket) -> None:
    pass


@pytest.mark.parametrize("answer", [refuses, goes_away])
def test_run_that_the_judge_does_not_take_is_judged_all_the_same(
    store: RunStore, tmp_path: Path, answer: Answer
) -> None:
    with judge_at(tmp_path / "judge", answer):
        assert analyze(store, 30, where=Where(judge=tmp_path / "judge")).verdict == "unknown"


def test_run_is_judged_where_no_judge_is(store: RunStore, tmp_path: Path) -> None:
    assert analyze(store, 30, where=Where(judge=tmp_path / "none")).verdict == "unknown"
    assert analyze(store, 30, where=HERE).verdict == "unknown"


def test_a_cluster_of_the_users_goes_before_a_judge(store: RunStore, tmp_path: Path) -> None:
    where = Where(spark_master="spark://somewhere:1", judge=tmp_path / "judge")
    assert analyze(store, 30, where=where).verdict == "unknown"


def test_judge_that_crashes_over_a_run_is_no_verdict(store: RunStore, tmp_path: Path) -> None:
    with (
        judge_at(tmp_path / "judge", says(255, "valid")),
        pytest.raises(AnalysisFailed, match=r"(?s)crashed with exit code 255.*as the checkers print"),
    ):
        analyze(store, 30, where=Where(judge=tmp_path / "judge"))


def test_judge_that_takes_too_long_is_left(store: RunStore, tmp_path: Path) -> None:
    left = threading.Event()

    def never(_request: Request, connection: socket.socket) -> None:
        assert connection.recv(1) == b""
        left.set()

    with judge_at(tmp_path / "judge", never), pytest.raises(AnalysisTooLong):
        analyze(store, 1, where=Where(judge=tmp_path / "judge"))
    assert left.is_set()
