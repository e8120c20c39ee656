"""Whole clusters under random faults, in virtual time: nothing committed is lost, and all comes to rest once it heals.

Brokers' real control and data planes, on real log files; network, ZooKeeper, clocks, threads and power failures are the
simulation's. A seed decides everything, so a seed that fails fails again: its trace is in the message.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.core.replication.isr import IsrState, Proposal
from broker.core.replication.leader import Leader
from broker.core.replication.purgatory import OffsetWaiters
from broker.runtime.fetch import partition_reader
from broker.wire.errors import ErrorCode
from tests.support.simulation.schedule import first_failure, run

pytestmark = [pytest.mark.patches, pytest.mark.guarantee("R7", "R10", "R12", "C9", "elections")]

QUICK = range(10)
NIGHTLY = range(1000, 1700)


def test_random_faults_lose_nothing_and_all_comes_to_rest(tmp_path: Path) -> None:
    failed = first_failure(run, QUICK, tmp_path)
    assert failed is None, failed.text()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_many_random_faults_lose_nothing_and_all_comes_to_rest(tmp_path: Path) -> None:
    failed = first_failure(run, NIGHTLY, tmp_path)
    assert failed is None, failed.text()


def test_a_seed_does_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first, second = run(1, tmp_path / "first"), run(1, tmp_path / "second")
    assert first == second
    assert len(first.trace) > 100


def test_other_threads_of_this_python_live_on_in_their_own_time(tmp_path: Path) -> None:
    over, failed = threading.Event(), list[BaseException]()

    def other() -> None:
        while not over.is_set():
            try:
                began_s = time.monotonic()
                time.sleep(0.0005)
                assert time.monotonic() - began_s >= 0.0005
            except BaseException as error:
                failed.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        outcome = run(1, tmp_path)
    finally:
        over.set()
        thread.join()
    assert outcome.failure is None, outcome.text()
    assert not failed


def _acknowledge_at_append(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetWaiters, "reach", lambda self, _: self.take_all())
    patch.setattr(Leader, "check_committed", lambda *_: ErrorCode.NONE)


def _shrink_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    propose = IsrState.propose

    def at_once(self: IsrState, proposal: Proposal) -> None:
        propose(self, proposal)
        self.maximal = frozenset(proposal.isr)

    patch.setattr(IsrState, "propose", at_once)


def _expand_without_catching_up(patch: pytest.MonkeyPatch) -> None:
    def by_time_alone(self: Leader, follower_id: int, now_ms: float) -> Proposal | None:
        progress = self.followers[follower_id]
        if self.isr.pending is not None or follower_id in self.isr.committed or not self._may_join(progress, now_ms):
            return None
        return self._propose("expand", self.isr.committed | {follower_id}, "caught-up")

    patch.setattr(Leader, "propose_expand", by_time_alone)


def _serve_whatever_epoch_is_named(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition_reader, "check_current_leader_epoch", lambda *_: ErrorCode.NONE)


@pytest.mark.parametrize(
    "plant",
    [
        _acknowledge_at_append,
        _shrink_before_it_is_committed,
        _expand_without_catching_up,
        _serve_whatever_epoch_is_named,
    ],
)
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(monkeypatch)
    assert first_failure(run, range(8), tmp_path) is not None
