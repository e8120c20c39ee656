"""A client's process that answers, ends, hangs, or says what is no line. The client itself is played by a script."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.clients.java import process as java_process
from harness.clients.java import program as java_program
from harness.clients.java.lines import Failure
from harness.clients.java.process import CallRefused, ClientDied, ClientProcess, Event
from harness.clients.java.program import ClientMissing, Program, client_program
from tests.support.brokers import wait_until

_SCRIPT = """
import json, sys, time
for line in sys.stdin:
    command = json.loads(line)
    answer = {"answer": command["id"]}
    if command["do"] == "call back":
        print(json.dumps({"event": "assigned", "partitions": [1]}), flush=True)
    if command["do"] == "refuse":
        answer["failed"] = {"class": "CommitFailedException", "error": None, "causes": [], "message": "m"}
    if command["do"] == "chatter":
        print("Exception in thread", flush=True)
    if command["do"] == "end":
        sys.exit("out of memory")
    if command["do"] == "hang":
        time.sleep(600)
    print(json.dumps(answer), flush=True)
"""


@contextmanager
def running(events: list[Event]) -> Iterator[ClientProcess]:
    process = ClientProcess(Program((sys.executable, "-c", _SCRIPT), "0", 0), events.append)
    try:
        yield process
    finally:
        process.close()


def test_event_comes_before_the_answer_of_its_call() -> None:
    events: list[Event] = []
    with running(events) as process:
        process.tell("told")
        assert process.ask("call back", 1)["answer"] == 2
        assert [event["partitions"] for event in events] == [[1]]


def test_call_that_threw_is_refused_and_the_process_goes_on() -> None:
    with running([]) as process:
        with pytest.raises(CallRefused) as refused:
            process.ask("refuse", 1)
        assert refused.value.failure == Failure("CommitFailedException", None, (), "m")
        assert process.ask("anything", 1)["answer"] == 2


@pytest.mark.parametrize(
    ("do", "why"),
    [
        ("end", "it ended; exit code 1; it told: out of memory"),
        ("chatter", "it said b'Exception in thread"),
        ("hang", r"no answer to hang within 0\.3 s; exit code -9"),
    ],
)
def test_process_that_is_of_no_more_use_says_why_for_ever(monkeypatch: pytest.MonkeyPatch, do: str, why: str) -> None:
    with running([]) as process:
        # It runs by now, however long that took.
        process.ask("anything", 1)
        monkeypatch.setattr(java_process, "ANSWER_S", 0.2 if do == "hang" else 30.0)
        for _ in range(2):
            with pytest.raises(ClientDied, match=why):
                process.ask(do, 0.1)
        with pytest.raises(ClientDied, match=why):
            process.serve(0)
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


def test_process_that_is_killed_while_nothing_is_asked_is_met_by_the_next_call() -> None:
    with running([]) as process:
        process.ask("anything", 1)
        os.kill(process.pid, signal.SIGKILL)

        def gone() -> bool:
            try:
                process.tell("told")
                process.serve(0)
            except ClientDied as died:
                return "exit code -9" in str(died)
            return False

        wait_until(gone, "the death is met")


def test_closed_process_has_ended() -> None:
    with running([]) as process:
        pid = process.pid
        process.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        with pytest.raises(ClientDied, match="it was closed"):
            process.ask("anything", 1)


def test_client_without_its_jars_says_which_and_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(java_program, "_compiling_java", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(ClientMissing, match=r"kafka-clients:3\.9\.1.*mvn.*apt-get install -y maven"):
        client_program("3.9.1")


def test_client_without_a_compiler_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_program, "installed_javas", list)
    with pytest.raises(ClientMissing, match=r"javac.*found Java: none.*apt-get install -y openjdk-17-jdk-headless"):
        client_program("3.9.1")


def test_what_java_says_itself_is_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another one has the same process id, in another sandbox: two that share a folder for temporary files."""
    # Java warns of it where the machine has no large pages, by default on standard output.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseLargePages")
    program = client_program("3.9.1")
    process = ClientProcess(program, lambda _event: None)
    try:
        with pytest.raises(CallRefused):
            process.ask("what there is not", 30)
    finally:
        process.close()
