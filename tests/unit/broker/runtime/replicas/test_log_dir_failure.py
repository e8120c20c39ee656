"""Log dirs that fail together are one notice to the controller, written once ZooKeeper can be reached."""

from __future__ import annotations

import contextlib

import pytest

from broker.core.controller.cluster_state import StoreUnavailable
from broker.runtime.replicas.log_dir_failure import LogFailureNotice
from tests.support.fake_loop import FakeLoop
from tests.support.step_worker import StepWorker, step


class FailureStore:
    def __init__(self) -> None:
        self.reports = 0
        self.fails: Exception | None = None

    def report_log_failure(self) -> None:
        if self.fails is not None:
            raise self.fails
        self.reports += 1


def test_log_failures_of_one_moment_are_one_notice_and_later_ones_another() -> None:
    loop, worker, store = FakeLoop(), StepWorker(), FailureStore()
    notice = LogFailureNotice(store, worker, loop)
    for _ in range(100):
        notice.report()
    loop.run_soon()
    # Something fails while the first notice is being written: the controller may have asked already.
    notice.report()
    for _ in range(3):
        step(loop, worker)
        loop.run_due(loop.now)
    assert store.reports == 2


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), RuntimeError("nobody foresaw this")])
def test_log_failure_is_reported_once_zookeeper_is_back(failure: Exception) -> None:
    loop, worker, store = FakeLoop(), StepWorker(), FailureStore()
    store.fails = failure
    LogFailureNotice(store, worker, loop).report()
    for _ in range(3):
        # The worker outlives what a task raises.
        with contextlib.suppress(RuntimeError):
            step(loop, worker)
        loop.run_due(loop.now + 1000)
    store.fails = None
    step(loop, worker)
    loop.run_due(loop.now + 1000)
    step(loop, worker)
    assert store.reports == 1
