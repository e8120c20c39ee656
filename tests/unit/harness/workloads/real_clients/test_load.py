"""The application's threads: what becomes of the run where one of them does not end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

from harness.workloads.base import RunContext
from harness.workloads.real_clients.load import Load


class Notes:
    """A history and a run in one."""

    phase = "main"

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.history = self

    def harness(self, f: str, *, error: str) -> None:
        assert f == "heal"
        self.errors.append(error)


def waited(_seconds: float) -> None:
    threading.Event().wait(0.001)


def test_run_goes_on_without_a_member_that_hangs_and_says_so() -> None:
    notes, free = Notes(), threading.Event()

    def hangs(_going: Callable[[], bool]) -> None:
        free.wait()

    load = Load(cast(RunContext, notes), [lambda _going: None], [hangs])
    stop = threading.Event()
    running = threading.Thread(target=load.run, args=(stop,), daemon=True)
    running.start()
    load.wait_for_producers(waited, 60)
    load.end_members(waited, 0)
    assert notes.errors == ["members of the application did not end within 0 s"]
    free.set()
    load.end_members(waited, 60)
    running.join()
    assert len(notes.errors) == 1
