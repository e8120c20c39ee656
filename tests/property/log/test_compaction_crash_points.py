"""A kill before any file system call of a cleaning and its swap leaves the log as before, as after, or in between."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.log.swap import finish_swaps
from broker.wire.compression import Compression
from tests.property.log.compaction_tools import COMPACTED, cleaner_for, headers_of, keyed, last_values, records_of
from tests.property.log.kills import Killed, attempts, killed_before_call
from tests.property.log.log_tools import TP, Clock, folder, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("L3")


def _ready(path: str, clock: Clock) -> tuple[LogManager, PartitionLog]:
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    for n in range(60):
        value = None if n % 7 == 3 else b"v%d" % n * 8
        records = [(b"k%d" % (n % 5), value), (b"once%d" % (n // 20), b"x")]
        log.append_as_leader(keyed(records, codec=Compression.GZIP), 1)
        log.write()
    # Several segments become one.
    store.update_config(TP.topic, COMPACTED | {"segment.bytes": "2500"})
    return store, log


@pytest.mark.parametrize("foreign", [False, True])
def test_kill_anywhere_in_a_cleaning_leaves_the_last_value_of_every_key(foreign: bool) -> None:
    """foreign: the cleaning of a log that was deleted under this name has left a file with a smaller base."""
    seen_swaps = 0
    for attempt in attempts():
        clock = Clock(now=1e6)
        with folder() as path:
            store, log = _ready(path, clock)
            before = records_of(log)
            bench = cleaner_for(store, clock)
            with attempt.killed():
                bench.cleaner.check()
            kill(store)
            names = os.listdir(f"{path}/{TP}")
            if foreign:
                Path(path, str(TP), f"{1:020d}.index.cleaned").touch()
            seen_swaps += any(name.endswith(".log.swap") for name in names)
            reopened = open_store(path, clock, COMPACTED)
            assert not reopened.offline_logs
            log = reopened.logs()[TP]
            found = records_of(log)
            assert log.staged_end_offset == 120
            assert last_values(found) == last_values(before)
            assert all(record in before for record in found)
            assert not [name for name in os.listdir(f"{path}/{TP}") if name.endswith((".swap", ".cleaned", ".deleted"))]
            if attempt.finished:
                assert len(found) < len(before) / 2
            # It goes on from here: appends, a cleaning to the end, a restart.
            log.append_as_leader(keyed([(b"k0", b"newest")]), 2)
            log.write()
            cleaner_for(reopened, clock).cleaner.check()
            table = last_values(before) | {b"k0": b"newest"}
            assert last_values(records_of(log)) == table
            assert len(records_of(log)) < len(before) / 2
            reopened.close(clean=True)
            again = open_store(path, clock, COMPACTED)
            assert again.reports[0].clean
            assert last_values(records_of(again.logs()[TP])) == table
            again.close(clean=True)
    assert attempt.number > 40
    assert seen_swaps > 5


def test_start_is_killed_while_it_finishes_a_swap_and_the_next_one_does() -> None:
    clock = Clock(now=1e6)
    call = 0
    number, finished = 0, False
    while not finished:
        with folder() as path:
            store, log = _ready(path, clock)
            before = records_of(log)
            with killed_before_call(call), contextlib.suppress(Killed):
                cleaner_for(store, clock).cleaner.check()
            kill(store)
            if not _is_half_swapped(f"{path}/{TP}"):
                # Kill it where the old segments are hidden and the new one is not yet in place.
                call += 1
                continue
            number += 1
            with killed_before_call(number):
                try:
                    finish_swaps(TP, f"{path}/{TP}", os.listdir(f"{path}/{TP}"))
                    finished = True
                except Killed:
                    pass
            reopened = open_store(path, clock, COMPACTED)
            found = records_of(reopened.logs()[TP])
            assert last_values(found) == last_values(before)
            assert headers_of(reopened.logs()[TP])[-1].last_offset == 119
            reopened.close(clean=True)
    assert number > 4


def _is_half_swapped(folder_path: str) -> bool:
    names = os.listdir(folder_path)
    return any(name.endswith(".log.swap") for name in names) and any(name.endswith(".log.deleted") for name in names)
