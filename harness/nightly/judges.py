"""Judges of a night's runs: sessions of the checkers that stay warm from one run to the next, one for each lane.

A run that is judged alone spends most of that on Java's start, and on loading and compiling what every judgement runs.
Decides how many there are and when one is replaced. Must not know how a judge works: it is a program that ends with its
standard input, and so with this process, however that ends.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RUNS_EACH = 40
"""A session keeps a little of every run that it has judged."""
_END_S = 20.0


@dataclass(slots=True)
class _Judge:
    socket: Path
    process: subprocess.Popen[bytes]
    runs: int = 0

    def waits(self) -> bool:
        """Whether it can be asked again: one that ends takes its socket away first, and is there for a moment more."""
        return self.socket.exists() and self.process.poll() is None


class Judges:
    """Used from many threads."""

    def __init__(self, log: Path) -> None:
        """log: for what judges say apart from any run."""
        self._log = log
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._free: list[_Judge] = []
        self._all: list[_Judge] = []
        self._started = 0

    @contextmanager
    def one(self) -> Iterator[Path]:
        """A judge's socket, which nobody else has meanwhile; one that was just started takes a moment to be there."""
        judge = self._taken()
        try:
            yield judge.socket
        finally:
            judge.runs += 1
            self._give_back(judge)

    def close(self) -> None:
        """End them all, also those that judge, and remove what they had."""
        with self._lock:
            judges, self._all, self._free = self._all, [], []
            folder, self._folder = self._folder, None
        for judge in judges:
            _end(judge)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _taken(self) -> _Judge:
        with self._lock:
            while self._free:
                judge = self._free.pop()
                if judge.waits():
                    return judge
                self._all.remove(judge)
                _end(judge)
            judge = self._start()
            self._all.append(judge)
            return judge

    def _give_back(self, judge: _Judge) -> None:
        with self._lock:
            if judge not in self._all:
                return
            if judge.runs < RUNS_EACH and judge.waits():
                self._free.append(judge)
                return
            self._all.remove(judge)
        _end(judge)

    def _start(self) -> _Judge:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="highwater-judges-"))
        self._started += 1
        socket = self._folder / f"judge-{self._started}"
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C is for the night, which ends its judges.
            process = subprocess.Popen(
                [sys.executable, "-m", "checkers", "--listen", str(socket)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return _Judge(socket, process)


def _end(judge: _Judge) -> None:
    assert judge.process.stdin is not None
    judge.process.stdin.close()
    try:
        judge.process.wait(_END_S)
    except subprocess.TimeoutExpired:
        judge.process.kill()
        judge.process.wait()
