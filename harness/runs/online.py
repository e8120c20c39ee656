"""Has a run judged while it goes on: what is recorded so far, by a process beside it (`python -m checkers.online`).

Decides when a prefix is asked for, what the console shows of it, and when a run has been seen to be invalid. Must not
know what checkers look for. Invariants: one prefix is judged at a time, and one whose time comes meanwhile is left out;
nothing of the run waits for a judge, and one that fails costs the run nothing but the verdict so far; neither a process
nor a file of it is left behind.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from harness.plan.plan import OnlinePlan
from harness.runs.console.picture import INVALID_SO_FAR
from harness.runs.process_group import end_group
from harness.runs.run_control import Background
from harness.runs.store import RunStore

_LOOK_EVERY_S = 0.2


class JudgeEnded(Exception):
    """There will be no verdict so far any more; the text says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a checker found in a prefix. operations: indices of their invocations; at_s: run time of the finding.
    partition: `topic-0`, where it is of one.
    """

    checker: str
    count: int
    detail: str
    operations: tuple[int, ...]
    at_s: float
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class SoFar:
    """The verdict over the first so many lines. to_s: run time of the last. found: the earliest first."""

    lines: int = 0
    to_s: float = 0.0
    acknowledged: int = 0
    found: tuple[Found, ...] = ()

    def text(self) -> str:
        """For people."""
        to = f"judged to {self.to_s:.0f} s"
        if self.found:
            return f"{INVALID_SO_FAR}: {', '.join(f'{one.checker} ({one.count})' for one in self.found)}, {to}"
        return f"so far: {self.acknowledged:,} acknowledged, nothing found, {to}"

    def after(self, before: SoFar) -> SoFar:
        """This one, with what only the one before had found: it stands all the same."""
        named = {one.checker for one in self.found}
        kept = tuple(one for one in before.found if one.checker not in named)
        return SoFar(self.lines, self.to_s, self.acknowledged, (*kept, *self.found))


def so_far_of(answer: Mapping[str, Any]) -> SoFar:
    """What the judge answered. Raises JudgeEnded for its last answer, KeyError for none of its answers."""
    if "ended" in answer:
        raise JudgeEnded(str(answer["ended"]))
    found = tuple(
        Found(
            one["checker"], one["count"], one["detail"], tuple(one["operations"]), one["at_ns"] / 1e9, one["partition"]
        )
        for one in answer["found"]
    )
    return SoFar(answer["lines"], answer["to_ns"] / 1e9, answer["acknowledged"], found)


class OnlineJudge:
    """Of one run. `start`, then `end`; both by the thread that carries the run out.

    plan: how often, and how nice. show: told what to show, from a thread of its own.
    """

    def __init__(self, store: RunStore, plan: OnlinePlan, show: Callable[[str], None]) -> None:
        self._store = store
        self._plan = plan
        self._show = show
        self._so_far = SoFar()
        self._background = Background("online", self._judge)

    @property
    def found(self) -> Found | None:
        """What was found first, and stands whatever comes; None: nothing yet."""
        return next(iter(self._so_far.found), None)

    @property
    def so_far(self) -> SoFar:
        """The last verdict."""
        return self._so_far

    def start(self) -> None:
        """Begin to judge, in a process that takes what nobody else wants of the machine."""
        self._show("so far: nothing judged yet")
        self._background.start()

    def end(self) -> None:
        """End the judge, whatever it is doing; idempotent. What it said last stays shown."""
        self._background.end()

    def raise_error(self) -> None:
        """Raises RunFailed when the judge was lost. Only after `end`."""
        self._background.raise_error()

    def _judge(self, stop: threading.Event) -> None:
        scratch, log_path = self._store.online, self._store.path / "online.log"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        command = [sys.executable, "-m", "checkers.online", "--niceness", str(self._plan.niceness)]
        try:
            with log_path.open("wb") as log:
                process = subprocess.Popen(
                    [*command, str(self._store.path), str(scratch)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
            try:
                self._ask_now_and_then(process, stop)
            finally:
                _end(process)
            log_path.unlink()
        except JudgeEnded as ended:
            self._show(f"{self._so_far.text()}; no longer judged: {ended}")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _ask_now_and_then(self, process: subprocess.Popen[bytes], stop: threading.Event) -> None:
        due_s = time.monotonic()
        while True:
            # A prefix whose time came while another one was judged is left out.
            every_s = self._plan.every_s
            due_s += every_s * max(1, -(-(time.monotonic() - due_s) // every_s))
            if stop.wait(due_s - time.monotonic()):
                return
            answer = _answer(process, stop)
            if answer is None:
                return
            self._so_far = so_far_of(answer).after(self._so_far)
            self._show(self._so_far.text())


def _answer(process: subprocess.Popen[bytes], stop: threading.Event) -> Mapping[str, Any] | None:
    """What the judge says of what there is by now; None where nobody wants to know any more. Raises JudgeEnded."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.write(b"\n")
        process.stdin.flush()
    readable = select.poll()
    readable.register(process.stdout, select.POLLIN)
    said = b""
    while not said.endswith(b"\n"):
        if stop.is_set():
            return None
        if readable.poll(_LOOK_EVERY_S * 1000):
            piece = os.read(process.stdout.fileno(), 65_536)
            if not piece:
                raise JudgeEnded(f"it ended with exit code {process.wait()}; see online.log")
            said += piece
    answer: Mapping[str, Any] = json.loads(said)
    return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    end_group(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
