"""What a command prints in a container arrives whole, though the engine loses some of it; the command runs once."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.nodes import docker_exec
from harness.nodes.base import CommandFailed
from harness.nodes.docker_exec import Commands, Ended


class Engine:
    """Runs commands here. losses: of each in turn, how many bytes of both streams arrive (None: all); then all do."""

    def __init__(self, losses: Sequence[int | None]) -> None:
        self._losses = iter(losses)
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> Ended:
        self.commands.append(command)
        done = subprocess.run(command, capture_output=True, check=False)
        arrive = next(self._losses, None)
        return Ended(done.returncode, done.stdout[:arrive], done.stderr[:arrive])


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of the memory of a container; that of this machine has files of others."""
    folder = tmp_path / "memory"
    folder.mkdir()
    monkeypatch.setattr(docker_exec, "MEMORY", str(folder))
    return folder


def appends(place: Path) -> list[str]:
    return ["sh", "-c", 'echo run >> "$1"; printf out; printf err >&2; exit 3', "sh", str(place)]


@pytest.mark.parametrize("losses", [[], [0], [0, 0], [5, 5, 0, 7]], ids=str)
def test_command_runs_once_and_all_that_it_printed_arrives(tmp_path: Path, losses: list[int | None]) -> None:
    engine = Engine(losses)
    assert Commands(engine).run(appends(tmp_path / "runs"), "node n1: it") == (3, b"out", b"err")
    assert (tmp_path / "runs").read_text() == "run\n"
    assert len(engine.commands) == 1 + len(losses)


def test_command_that_prints_nothing_is_known_from_one_whose_output_was_lost() -> None:
    engine = Engine([0])
    assert Commands(engine).run(["true"], "node n1: true") == (0, b"", b"")
    assert len(engine.commands) == 2


def test_output_that_never_arrives_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="node n1: it exited 3; the engine lost what it printed, 5 times"):
        Commands(Engine([1] * 6)).run(appends(tmp_path / "runs"), "node n1: it")
    assert (tmp_path / "runs").read_text() == "run\n"


def test_output_that_is_gone_is_an_error(memory: Path) -> None:
    def forgetful(command: Sequence[str]) -> Ended:
        ended = Engine([0])(command)
        for path in memory.iterdir():
            path.unlink()
        return ended

    with pytest.raises(CommandFailed, match="node n1: ls exited 0; what it printed is gone"):
        Commands(forgetful).run(["ls"], "node n1: ls")


def test_what_was_read_is_removed_with_the_next_command(memory: Path) -> None:
    commands = Commands(Engine([]))
    for _ in range(5):
        commands.run(["echo", "x"], "node n1: echo")
    assert len(list(memory.iterdir())) == 2


def test_bytes_and_ends_of_lines_stay_as_they_are() -> None:
    assert Commands(Engine([])).run(["printf", r"a\n\0\377\n\n"], "node n1: printf").out == b"a\n\0\xff\n\n"
