"""A cleaning that is under way while its log is cut, deleted, made anew, or not compacted any more."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from functools import partial

import pytest

from broker.log.cleaner.cleaner import CleaningJob, LogCleaning
from broker.log.cleaner.process import OnEvent, Stop, perform
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.cleaner.throttle import unlimited
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.wire.compression import Compression
from tests.integration.log.cleanings import file_names, ready_log
from tests.property.log.compaction_tools import COMPACTED, Replicas, append_overwriting, keyed, last_values, records_of
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, kill

pytestmark = pytest.mark.guarantee("L1", "L3")


class _HoldingRunner:
    """Cleans at once; what it has to say waits."""

    def __init__(self) -> None:
        self._said: list[Callable[[], None]] = []

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        perform(LogCleaning(job, unlimited()), lambda event: self._said.append(partial(on_event, event)))
        return lambda: None

    def tell(self, count: int = 1 << 30) -> None:
        told, self._said = self._said[:count], self._said[count:]
        for each in told:
            each()


class _LateRunner(_HoldingRunner):
    """Does nothing before it is told to: a process that is slow to start, or to find out that it is not wanted."""

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        self._said.append(lambda: perform(LogCleaning(job, unlimited()), on_event))
        return lambda: None


def _held(
    path: str, runner: _HoldingRunner | None = None
) -> tuple[LogManager, PartitionLog, LogCleaner, _HoldingRunner]:
    store, log, _ = ready_log(path, Clock())
    runner = runner or _HoldingRunner()
    cleaner = LogCleaner(store, Replicas(store.logs), runner, CleanerSettings(), lambda: 1e6)
    cleaner.check()
    return store, log, cleaner, runner


@pytest.mark.parametrize("refilled", [False, True])
def test_cut_before_the_first_swap_calls_the_cleaning_off(path: str, refilled: bool) -> None:
    store, log, cleaner, runner = _held(path)
    bases = log.segment_base_offsets
    log.truncate_to(bases[1] + 1)
    assert log.segment_base_offsets == bases[:2]
    while refilled and log.staged_end_offset < 60:
        # The segment that was cut is filled anew and closed: the same object, other bytes.
        log.append_as_leader(keyed([(b"k%d" % (log.staged_end_offset % 3), b"other" * 4)], codec=Compression.GZIP), 9)
        log.write()
    rows = records_of(log)
    runner.tell()
    assert records_of(log) == rows
    assert cleaner.runs == 0
    assert not cleaner.uncleanable
    assert (log.cleaning.cleaned_until or 0) <= bases[1] + 1
    assert not file_names(path, ".swap", ".cleaned")
    cleaner.check()
    runner.tell()
    assert cleaner.runs == 1
    assert last_values(records_of(log)) == last_values(rows)
    kill(store)


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("told", [0, 1])
def test_topic_that_is_not_compacted_any_more_loses_nothing_to_a_cleaning_under_way(
    path: str, told: int, looked: bool
) -> None:
    store, log, cleaner, runner = _held(path)
    stops: list[str] = []
    (cleaning,) = cleaner._running.values()
    cleaning.stop = lambda: stops.append("stopped")
    runner.tell(told)
    rows = records_of(log)
    store.update_config("t", COMPACTED | {"cleanup.policy": "delete"})
    if looked:
        cleaner.check()
        assert stops == ["stopped"], "its process is not left to go on for hours"
    runner.tell()
    assert records_of(log) == rows
    assert (cleaner.runs, cleaner.uncleanable, log.cleaning.cleaned_until) == (0, {}, 0)
    assert not file_names(path, ".swap", ".cleaned")
    store.update_config("t", COMPACTED)
    cleaner.check()
    runner.tell()
    assert cleaner.runs == 1
    assert last_values(records_of(log)) == last_values(rows)
    kill(store)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("anew", [False, True])
def test_group_of_a_log_that_was_deleted_touches_nothing(path: str, anew: bool, late: bool) -> None:
    store, _, cleaner, runner = _held(path, _LateRunner() if late else None)
    store.delete(TP)
    rows = []
    if anew:
        log = store.create(TP, TOPIC_ID, {})
        append_overwriting(log, 60, Compression.GZIP)
        rows = records_of(log)
    runner.tell()
    assert store.offline_dirs == []
    assert cleaner.runs == 0
    if anew:
        assert records_of(store.logs()[TP]) == rows
        assert not file_names(path, ".cleaned"), "the next cleaning would find them there"
        cleaner.check()
        runner.tell()
        assert cleaner.runs == 1
        assert store.offline_dirs == []
        assert last_values(records_of(store.logs()[TP])) == last_values(rows)
    kill(store)


@pytest.mark.parametrize("told", [1, 1 << 30])
def test_log_knows_that_values_below_a_cut_went_for_ones_beyond_it(path: str, told: int) -> None:
    store, log, cleaner, runner = _held(path)
    assert not log.lacks_values_below(1)
    runner.tell(told)
    assert (cleaner.runs == 1) is (told > 1)
    assert log.lacks_values_below(5)
    assert log.lacks_values_below(log.segment_base_offsets[-1] - 1)
    assert not log.lacks_values_below(log.segment_base_offsets[-1])
    log.truncate_fully_and_start_at(0)
    assert not log.lacks_values_below(0)
    kill(store)


def test_cleaned_segment_that_cannot_be_removed_ends_its_cleaning(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, log, cleaner, runner = _held(path)
    log.maybe_raise_log_start(50)
    assert log.delete_old_segments(0, 60) > 0

    def broken(name: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("broker.log.files.names.remove_if_there", broken)
        for _ in range(100):
            # The loop outlives what a callback raises.
            with contextlib.suppress(OSError):
                runner.tell(1)
    assert cleaner._running == {}, "another dir's logs would wait for it"
    assert store.offline_dirs == [os.path.dirname(log.path)]
    kill(store)
