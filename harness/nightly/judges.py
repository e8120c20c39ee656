"""Judges of a night's runs: sessions of the checkers that stay warm from one run to the next, one for each lane.

A run that is judged alone spends most of that on Java's start, and on loading and compiling what every judgement runs.
Decides how many there are and when one is replaced. Must not know how a judge works: it is a program that ends with its
standard input, and so with this process, however that ends.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.runs.judge_process import JudgeProcess

RUNS_EACH = 40
"""A session keeps a little of every run that it has judged."""
MANY = 10
"""Runs of a session that Java's optimising compiler pays for itself with: by then what all of them took is less."""


class Judges:
    """Used from many threads."""

    def __init__(self, log: Path, runs: float) -> None:
        """log: for what judges say apart from any run. runs: how many each is to judge, about."""
        self._log = log
        self._many = runs >= MANY
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._free: list[JudgeProcess] = []
        self._all: list[JudgeProcess] = []
        self._runs: Counter[JudgeProcess] = Counter()
        self._started = 0

    @contextmanager
    def one(self) -> Iterator[Path]:
        """A judge's socket, which nobody else has meanwhile; one that was just started takes a moment to be there."""
        judge = self._taken()
        try:
            yield judge.socket
        finally:
            self._runs[judge] += 1
            self._give_back(judge)

    def close(self) -> None:
        """End them all, also those that judge, and remove what they had."""
        with self._lock:
            judges, self._all, self._free = self._all, [], []
            folder, self._folder = self._folder, None
        for judge in judges:
            judge.end()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _taken(self) -> JudgeProcess:
        with self._lock:
            while self._free:
                judge = self._free.pop()
                if judge.waits():
                    return judge
                self._forget(judge)
                judge.end()
            judge = self._start()
            self._all.append(judge)
            return judge

    def _give_back(self, judge: JudgeProcess) -> None:
        with self._lock:
            if judge not in self._all:
                return
            if self._runs[judge] < RUNS_EACH and judge.waits():
                self._free.append(judge)
                return
            self._forget(judge)
        judge.end()

    def _forget(self, judge: JudgeProcess) -> None:
        self._all.remove(judge)
        del self._runs[judge]

    def _start(self) -> JudgeProcess:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="highwater-judges-"))
        self._started += 1
        socket = self._folder / f"judge-{self._started}"
        return JudgeProcess(socket, self._log, many=self._many)
