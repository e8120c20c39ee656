"""A judge for one run, started while the run still reads its logs to the end: Java's start costs the verdict no time.

Decides when there is one: not where the checkers run elsewhere, or a judge waits already. Must not know how a judge
works. Invariant: whether it could be started changes no verdict; without it the checkers are a process of their own.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from types import TracebackType

from harness.runs.checkers_process import Where, log_of
from harness.runs.judge_process import SOCKET, JudgeProcess
from harness.runs.store import RunStore

LISTENS_WITHIN_S = 30.0
"""It listens before Java has started: Python's imports take a second or two."""
_LOOK_EVERY_S = 0.05
MOST_BYTES = 40_000_000
"""Of a history: with a longer one a run is more than such a session takes, its event logs being twice as long."""


class EarlyJudge:
    """None until it is started; ended with the block."""

    def __init__(self, where: Where, store: RunStore) -> None:
        """where: checkers run without it."""
        self._where = where
        self._store = store
        self._judge: JudgeProcess | None = None

    def __enter__(self) -> EarlyJudge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        judge, self._judge = self._judge, None
        if judge is not None:
            judge.end()

    def start(self) -> None:
        """Begin to start it, if this run is to have one, and return."""
        if self._judge is not None or self._where != Where():
            return
        with suppress(OSError):
            if self._store.history.stat().st_size < MOST_BYTES:
                self._judge = JudgeProcess(self._store.path / SOCKET, log_of(self._store))

    def ready(self) -> Where:
        """Where the run is to be judged: by this judge, once it listens; else as if there were none."""
        judge = self._judge
        if judge is None:
            return self._where
        deadline_s = time.monotonic() + LISTENS_WITHIN_S
        while not judge.waits():
            if judge.process.poll() is not None or time.monotonic() > deadline_s:
                return self._where
            time.sleep(_LOOK_EVERY_S)
        return replace(self._where, judge=judge.socket)
