"""File work off the loop, where there are threads for it and where there are no more."""

from __future__ import annotations

import errno
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from broker.server.workers import DeletionWorker, FileWorker, FlushWorkers
from tests.support.thread_limit import refuse_threads

pytestmark = pytest.mark.guarantee("no-thread")

WAIT_S = 20.0


class Loop:
    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.call_soon_threadsafe = self._calls.put

    def run_one(self) -> None:
        self._calls.get(timeout=WAIT_S)()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def flushes(loop: Loop, tmp_path: Path) -> Iterator[FlushWorkers]:
    workers = FlushWorkers(loop, [str(tmp_path)])
    yield workers
    workers.close()


def test_flushes_are_carried_out_where_no_further_thread_can_be_started(
    flushes: FlushWorkers, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_threads(monkeypatch)
    done: list[tuple[int, OSError | None]] = []
    for number in range(20):
        flushes.run(os.path.realpath(tmp_path), lambda: None, lambda error, n=number: done.append((n, error)))  # type: ignore[misc]
    for _ in range(20):
        loop.run_one()
    assert done == [(number, None) for number in range(20)]


def test_flush_that_hangs_does_not_hold_up_seven_others_nor_those_after_them(
    flushes: FlushWorkers, loop: Loop, tmp_path: Path
) -> None:
    hangs = threading.Event()
    done: list[str] = []
    path = os.path.realpath(tmp_path)
    together = threading.Barrier(7)

    def hang() -> None:
        hangs.wait(WAIT_S)

    def meet() -> None:
        together.wait(WAIT_S)

    flushes.run(path, hang, lambda error: done.append("hung"))
    for _ in range(7):
        flushes.run(path, meet, lambda error: done.append("passed"))
    for _ in range(7):
        loop.run_one()
    flushes.run(path, lambda: None, lambda error: done.append("after"))
    loop.run_one()
    hangs.set()
    loop.run_one()
    assert done == ["passed"] * 7 + ["after", "hung"]


def test_file_work_is_done_in_order_reports_its_error_and_survives_other_exceptions(loop: Loop) -> None:
    worker = FileWorker(loop)
    outcomes: list[OSError | None] = []

    def fail() -> None:
        raise OSError(errno.EIO, "bad sector")

    def break_off() -> None:
        raise ValueError("as no job should")

    worker.run(fail, outcomes.append)
    worker.run(break_off, outcomes.append)
    worker.run(lambda: None, outcomes.append)
    worker.close()
    loop.run_one()
    loop.run_one()
    assert [error and error.errno for error in outcomes] == [errno.EIO, None]


@pytest.mark.parametrize("make", [FileWorker, partial(FlushWorkers, directories=["/"])])
def test_start_without_a_single_thread_says_so(
    make: Callable[[Loop], object], loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_threads(monkeypatch)
    with pytest.raises(OSError, match=r"no thread for log-\w+ can be started: can't start new thread"):
        make(loop)


def test_deletions_that_wait_are_left_to_the_next_start(loop: Loop) -> None:
    worker = DeletionWorker(loop)
    begun, go_on = threading.Event(), threading.Event()
    ran: list[int] = []

    def at_hand() -> None:
        begun.set()
        assert go_on.wait(WAIT_S)
        ran.append(0)

    worker.run(at_hand, lambda error: None)
    for number in range(1, 5):
        worker.run(partial(ran.append, number), lambda error: None)
    assert begun.wait(WAIT_S)
    closing = threading.Thread(target=worker.close)
    closing.start()
    while worker._threads._jobs.qsize() != 1:  # the word that it is over
        time.sleep(0)
    go_on.set()
    closing.join(WAIT_S)
    worker.run(partial(ran.append, 9), lambda error: None)
    assert ran == [0]
