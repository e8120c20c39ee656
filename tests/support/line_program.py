"""Programs in other languages that real clients need: they take a line on stdin and answer each with one on stdout."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.zookeeper import _die_with_parent

Ask = Callable[[str], str]


@contextmanager
def line_program(command: Sequence[str]) -> Iterator[Ask]:
    """The running program's answer to a line; "" where it has ended. It and its children are killed afterwards."""
    program = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    to_it, from_it = program.stdin, program.stdout

    def ask(line: str) -> str:
        to_it.write(f"{line}\n")
        to_it.flush()
        return from_it.readline().strip()

    try:
        yield ask
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        to_it.close()
        from_it.close()


def java_program(source: Path, classpath: str, *words: str) -> list[str]:
    """The command that runs a Java source file. Skips the test where there is no compiler."""
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK: Java's compiler is missing")
    return ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", classpath, str(source), *words]
