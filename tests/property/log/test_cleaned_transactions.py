"""A cleaning, and a kill anywhere in one, leaves readers of committed records what was committed and nothing else."""

from __future__ import annotations

import os

import pytest

from broker.log.indexes.aborted_txn import AbortedTxn, encode
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from tests.property.log.compaction_tools import COMPACTED, PatientClock, cleaner_for, keyed
from tests.property.log.killed_starts import started
from tests.property.log.kills import attempts
from tests.property.log.log_tools import TP, Clock, folder, kill, open_log, open_store
from tests.support.committed_reader import read_committed
from tests.support.transactions import end_marker, transactional

pytestmark = pytest.mark.guarantee("L3")

STEPS = range(4)
"""Background jobs of one swap that are done: none, the names of .swap, those of .deleted, all."""


def _ready(path: str, clock: Clock) -> tuple[LogManager, PartitionLog]:
    """Producers 7 and 8 take turns in transactions, some of which are aborted, over keys that are overwritten."""
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    log.restore_producers()
    for n in range(24):
        producer = 7 + n % 2
        log.append_as_leader(transactional(f"{n}", producer, n // 2, key=b"t%d" % n), 1)
        log.append_as_leader(keyed([(b"k%d" % (n % 3), b"v%d" % n * 8)]), 1)
        log.append_as_leader(end_marker(producer, committed=_commits(n)), 1)
        log.write()
    store.update_config(TP.topic, COMPACTED | {"segment.bytes": "2500"})
    return store, log


def _in_swap(path: str, clock: PatientClock, steps: int) -> tuple[LogManager, PartitionLog]:
    """A log that is ready, and cleaned up to this many steps of the first swap."""
    store, log = _ready(path, clock)
    clock.work()
    cleaner_for(store, clock).cleaner.check()
    clock.work(steps)
    return store, log


def _commits(n: int) -> bool:
    """The aborted ones are all among the first, which become one segment."""
    return n % 3 > 0 or n > 7


COMMITTED = [b"%d" % n for n in range(24) if _commits(n)]


def _committed(log: PartitionLog, max_bytes: int = 400) -> list[bytes]:
    return [value for _, value in read_committed(log, 0, max_bytes) if not value.startswith(b"v")]


def _reopened(path: str) -> tuple[LogManager, PartitionLog]:
    store = open_store(path, Clock(), COMPACTED)
    log = store.logs()[TP]
    log.restore_producers()
    return store, log


def test_kill_anywhere_in_a_cleaning_shows_nothing_that_was_aborted() -> None:
    for attempt in attempts():
        clock = Clock(now=1e6)
        with folder() as path:
            store, log = _ready(path, clock)
            bench = cleaner_for(store, clock)
            with attempt.killed():
                bench.cleaner.check()
            kill(store)
            for _ in range(2):
                store, log = _reopened(path)
                assert _committed(log) == COMMITTED
                kill(store)
            if attempt.finished:
                assert bench.cleaner.runs == 1
                assert not bench.cleaner.uncleanable
    assert attempt.number > 40


@pytest.mark.parametrize("steps", STEPS)
def test_start_killed_anywhere_after_a_stop_in_a_swap_shows_nothing_that_was_aborted(steps: int) -> None:
    number, finished = 0, False
    while not finished:
        number += 1
        clock = PatientClock(now=1e6)
        with folder() as path:
            store, _ = _in_swap(path, clock, steps)
            store.close(clean=True)
            with started(path, COMPACTED, {}, number) as (killed, finished):
                if finished:
                    killed.logs()[TP].restore_producers()
            store, log = _reopened(path)
            assert _committed(log) == COMMITTED
            kill(store)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("clean", [True, False])
def test_reads_go_on_at_every_step_of_a_swap_and_after_a_stop_there(steps: int, clean: bool) -> None:
    clock = PatientClock(now=1e6)
    with folder() as path:
        store, log = _in_swap(path, clock, steps)
        assert _committed(log) == COMMITTED
        store.close(clean=True) if clean else kill(store)
        store, log = _reopened(path)
        assert _committed(log) == COMMITTED
        kill(store)


@pytest.mark.parametrize("steps", STEPS)
def test_cut_at_every_step_of_a_swap_takes_the_entries_with_the_records(steps: int) -> None:
    clock = PatientClock(now=1e6)
    with folder() as path:
        store, log = _in_swap(path, clock, steps)
        log.truncate_to(30)
        clock.work()
        assert _committed(log) == COMMITTED[: sum(map(_commits, range(10)))]
        log.append_as_leader(transactional("after", 7, 20), 2)
        log.append_as_leader(end_marker(7, committed=True), 2)
        log.write()
        assert _committed(log)[-1] == b"after"
        kill(store)


def test_index_whose_segment_an_interrupted_swap_replaced_is_derived_from_the_log() -> None:
    """As Apache Kafka may leave it, whose cleaner takes aborted records away, and with them their entries."""
    clock = PatientClock(now=1e6)
    with folder() as path:
        store, _ = _in_swap(path, clock, 2)
        store.close(clean=True)
        index = f"{path}/{TP}/{0:020d}.txnindex"
        os.unlink(f"{index}.swap")
        os.unlink(f"{index}.deleted")
        with open(index, "wb") as file:
            file.write(encode([AbortedTxn(8, 3, 5, 6), AbortedTxn(7, 6, 8, 9)]))
        store, log = _reopened(path)
        assert _committed(log) == COMMITTED
        kill(store)


def test_log_whose_index_is_damaged_is_cleaned_once_that_is_derived_again() -> None:
    clock = Clock(now=1e6)
    with folder() as path:
        store, log = _ready(path, clock)
        with open(f"{path}/{TP}/{0:020d}.txnindex", "ab") as file:
            file.write(b"half an entry")
        bench = cleaner_for(store, clock)
        for _ in range(2):
            bench.cleaner.check()
        assert bench.cleaner.runs == 1
        assert not bench.cleaner.uncleanable
        assert _committed(log) == COMMITTED
        kill(store)


def test_swap_gives_the_offset_index_its_name_first_and_the_segment_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Kafka's start removes what has its name already, and derives all indexes for want of an .index alone."""
    names: list[str] = []
    rename = os.rename

    def record(before: str, after: str) -> None:
        if before.endswith(".swap"):
            names.append(os.path.basename(after)[20:])
        rename(before, after)

    for steps in (2, 3):
        names.clear()
        clock = PatientClock(now=1e6)
        with folder() as path, monkeypatch.context() as patch:
            store, _ = _in_swap(path, clock, 2)
            patch.setattr(os, "rename", record)
            if steps == 3:
                clock.work(1)
            kill(store)
            kill(_reopened(path)[0])
        assert (names[0], sorted(names[1:-1]), names[-1]) == (".index", [".timeindex", ".txnindex"], ".log")
