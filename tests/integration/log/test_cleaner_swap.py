"""A log while a cleaned segment takes the place of others: readers, cuts, deletions, restarts, dirs that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial

import pytest

from broker.model.log_errors import LogDirFailed
from broker.wire.chunks import FileSlice
from tests.integration.log.cleanings import file_names, ready_log
from tests.property.log.compaction_tools import COMPACTED, PatientClock, keyed, last_values, records_of
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, kill, open_store

pytestmark = pytest.mark.guarantee("L1", "L3")

STEPS = range(4)
"""Background jobs of one swap that are done: none, the names of .swap, those of .deleted, all."""


@pytest.mark.parametrize("steps", STEPS)
def test_reads_go_on_at_every_step_also_those_that_began_before(path: str, steps: int) -> None:
    clock = PatientClock()
    store, log, bench = ready_log(path, clock)
    before = last_values(records_of(log))
    early = log.read(0, 500, log.staged_end_offset, True)
    assert isinstance(early, FileSlice)
    expected = os.pread(early.fd, early.length, early.position)
    bench.cleaner.check()
    clock.work(steps)
    assert last_values(records_of(log)) == before
    assert os.pread(early.fd, early.length, early.position) == expected
    clock.work()
    assert bench.cleaner.runs == 1
    assert os.pread(early.fd, early.length, early.position) == expected
    clock.advance(20)
    assert last_values(records_of(log)) == before
    assert not file_names(path, ".deleted", ".swap", ".cleaned")
    kill(store)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("anew", [False, True])
def test_cut_in_the_middle_of_a_swap_comes_first(path: str, steps: int, anew: bool) -> None:
    clock = PatientClock()
    store, log, bench = ready_log(path, clock)
    bench.cleaner.check()
    clock.work(steps)
    if anew:
        log.truncate_fully_and_start_at(1000)
    else:
        log.truncate_to(5)
    clock.work()
    clock.advance(20)
    bench.cleaner.check()
    assert log.staged_end_offset == (1000 if anew else log.staged_end_offset) <= (1000 if anew else 5)
    assert (log.cleaning.cleaned_until or 0) <= log.staged_end_offset
    rows = records_of(log)
    assert all(record.offset < 5 for record in rows)
    info = log.append_as_leader(keyed([(b"after", b"the cut")]), 9)
    assert info.base_offset == log.staged_end_offset - 1
    log.write()
    rows = records_of(log)
    kill(store)
    again = open_store(path, Clock(), COMPACTED)
    assert records_of(again.logs()[TP]) == rows
    assert not file_names(path, ".swap", ".cleaned")
    kill(again)


@pytest.mark.parametrize("steps", STEPS)
def test_partition_deleted_in_the_middle_of_a_swap_takes_no_dir_offline(path: str, steps: int) -> None:
    clock = PatientClock()
    store, _, bench = ready_log(path, clock)
    bench.cleaner.check()
    clock.work(steps)
    store.delete(TP)
    clock.work()
    clock.advance(20)
    clock.work()
    assert store.offline_dirs == []
    fresh = store.create(TP, TOPIC_ID, {})
    assert (fresh.staged_end_offset, fresh.cleaning.cleaned_until) == (0, 0)
    kill(store)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("clean", [True, False])
def test_stop_in_the_middle_of_a_swap_is_finished_by_the_next_start(path: str, steps: int, clean: bool) -> None:
    clock = PatientClock()
    store, log, bench = ready_log(path, clock)
    before = last_values(records_of(log))
    bench.cleaner.check()
    clock.work(steps)
    bench.cleaner.close()
    store.close(clean=clean) if clean else kill(store)
    again = open_store(path, Clock(), COMPACTED)
    assert again.reports[0].clean is clean
    log = again.logs()[TP]
    assert log.staged_end_offset == 60
    assert last_values(records_of(log)) == before
    assert [log.epoch_at(offset) for offset in (59,)] == [2]
    assert not file_names(path, ".swap", ".cleaned", ".deleted")
    kill(again)


def test_retention_waits_for_a_swap(path: str) -> None:
    clock = PatientClock()
    store, log, bench = ready_log(path, clock)
    bench.cleaner.check()
    log.maybe_raise_log_start(50)
    assert log.delete_old_segments(0, 60) == 0
    clock.work()
    assert log.delete_old_segments(0, 60) > 0
    assert records_of(log)[0].offset >= 50
    kill(store)


def test_segments_deleted_during_a_cleaning_call_it_off(path: str) -> None:
    clock = PatientClock()
    store, log, bench = ready_log(path, clock)
    old = log.cleaning.inactive_segments(60)
    log.maybe_raise_log_start(50)
    assert log.delete_old_segments(0, 60) > 0
    outcomes: list[bool] = []
    assert log.cleaning.swap_in(old, outcomes.append) is False
    assert not outcomes
    assert bench.cleaner.uncleanable == {}
    assert records_of(log)[0].offset >= 50
    kill(store)


def test_failing_dir_ends_a_swap_and_its_cleaning(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = PatientClock()
    store, _, bench = ready_log(path, clock)
    bench.cleaner.check()

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("broker.log.swap.fsync_dir", broken)
    clock.work()
    monkeypatch.undo()
    assert store.offline_dirs == [path]
    assert bench.cleaner.runs == 0
    bench.cleaner.check()
    assert len(bench.runner.jobs) == 1
    kill(store)
    again = open_store(path, Clock(), COMPACTED)
    assert again.logs()[TP].staged_end_offset == 60
    kill(again)


def _nothing_is_hidden_after_the_swap(path: str) -> Callable[[str, str], None]:
    """`os.rename` that fails for old segments once the new one has its name."""
    rename = os.rename

    def failing(before: str, after: str) -> None:
        if after.endswith(".deleted") and not file_names(path, ".swap"):
            raise OSError(errno.EIO, "Input/output error")
        rename(before, after)

    return failing


def test_swap_whose_last_step_fails_ends_its_cleaning(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = PatientClock()
    store, _, bench = ready_log(path, clock)
    bench.cleaner.check()
    clock.work(2)
    assert file_names(path, ".swap")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", _nothing_is_hidden_after_the_swap(path))
        clock.work()
    assert store.offline_dirs == [path]
    assert bench.cleaner._running == {}, "another dir's logs would wait for it"
    kill(store)
    again = open_store(path, Clock(), COMPACTED)
    assert again.logs()[TP].staged_end_offset == 60
    kill(again)


def test_dir_that_fails_before_the_last_step_of_a_swap_ends_its_cleaning(path: str) -> None:
    clock = PatientClock()
    store, log, bench = ready_log(path, clock)
    bench.cleaner.check()
    clock.work(2)
    log.cleaning.report_io_error(OSError(errno.EIO, "Input/output error"))
    clock.work()
    assert file_names(path, ".swap"), "nothing more is done in that dir"
    assert bench.cleaner._running == {}
    kill(store)


@pytest.mark.parametrize("steps", range(3))
def test_cut_that_cannot_settle_a_swap_ends_its_cleaning(
    path: str, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    clock = PatientClock()
    store, log, bench = ready_log(path, clock)
    before = last_values(records_of(log))
    bench.cleaner.check()
    clock.work(steps)
    broken = OSError(errno.EIO, "Input/output error")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", _nothing_is_hidden_after_the_swap(path))
        patch.setattr("broker.log.swap.remove_if_there", partial(_raise, broken))
        with pytest.raises(LogDirFailed):
            log.truncate_to(5)
    clock.work()
    bench.cleaner.check()
    assert store.offline_dirs == [path]
    assert bench.cleaner._running == {}
    kill(store)
    again = open_store(path, Clock(), COMPACTED)
    assert last_values(records_of(again.logs()[TP])) == before, "nothing was cut"
    kill(again)


def _raise(error: OSError, *_: object) -> None:
    raise error
