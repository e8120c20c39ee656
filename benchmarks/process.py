"""Server processes of a benchmark: started, watched, and never left behind.

Decides how a process is started and ended. Must not know what runs in it. Invariant: a process is killed by the kernel
when the benchmark dies, so start only from the main thread, whose end is the benchmark's.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1
STOP_TIMEOUT_S = 60.0
_LIBC = ctypes.CDLL(None)


class BenchmarkFailed(Exception):
    """Something needed for measuring is missing or did not come up; the text says what and how to get on."""


class Daemon:
    """A process with its output in a file; `start` may be called again after it ended."""

    def __init__(self, name: str, argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.output = folder / f"{name}.out"
        self._argv = list(argv)
        self._folder = folder
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0

    @property
    def age_s(self) -> float:
        """Since its last start."""
        return time.monotonic() - self._started_s

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        assert not self.alive, f"{self.name} is already running"
        self._started_s = time.monotonic()
        with self.output.open("ab") as out:
            self._process = subprocess.Popen(
                self._argv,
                cwd=self._folder,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                # A Ctrl-C is for the benchmark, which then ends its daemons itself.
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; the process is still to be reaped by `wait`."""
        assert self._process is not None, f"{self.name} is not running"
        self._process.send_signal(number)

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Until it has ended; False when that took longer and it was killed."""
        if self._process is None:
            return True
        by_itself = True
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            by_itself = False
            self._process.kill()
            self._process.wait()
        self._process = None
        return by_itself

    def stop(self) -> bool:
        """SIGTERM, and wait; False when it had to be killed."""
        if self.alive:
            self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """SIGKILL, and wait."""
        if self.alive:
            self.signal(signal.SIGKILL)
        self.wait()

    def tail(self, size: int = 2000) -> str:
        """The end of its output."""
        return self.output.read_text(errors="replace")[-size:] if self.output.exists() else ""


def wait_for(what: str, condition: Callable[[], bool], timeout_s: float, pause_s: float = 0.02) -> None:
    """Until the condition holds. Raises BenchmarkFailed that names `what`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            raise BenchmarkFailed(f"{what}: not within {timeout_s:g} s")
        time.sleep(pause_s)


class Said(NamedTuple):
    """What a program printed."""

    output: str
    errors: str


class Client:
    """A client that runs beside others; what it prints must fit into a pipe until `finish`."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._name = Path(argv[0]).name
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_die_with_parent,
        )

    def finish(self, timeout_s: float) -> Said:
        """Wait for its end. Raises BenchmarkFailed with what it complained of."""
        try:
            output, errors = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BenchmarkFailed(f"{self._name}: did not end within {timeout_s:g} s") from None
        except BaseException:
            self.kill()
            raise
        if self._process.returncode != 0:
            said = (errors.strip() or output.strip() or "nothing")[-400:]
            raise BenchmarkFailed(f"{self._name}: exit code {self._process.returncode}: {said}")
        return Said(output, errors)

    def kill(self) -> None:
        """End it, whatever it does; idempotent."""
        self._process.kill()
        self._process.communicate()


def run_program(argv: Sequence[str], timeout_s: float) -> Said:
    """Run a client to its end. Raises BenchmarkFailed with what it complained of."""
    return Client(argv).finish(timeout_s)


def run_tool(argv: Sequence[str], timeout_s: float) -> str:
    """The same; its standard output alone."""
    return run_program(argv, timeout_s).output


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
