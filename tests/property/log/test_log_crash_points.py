"""A kill before any file system call of any operation leaves a log in a state that the operation passes through."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from tests.property.log.kills import attempts
from tests.property.log.log_tools import TP, Clock, batch, folder, kill, open_log, open_store, read_all

pytestmark = pytest.mark.guarantee("L6")


def _append(log: PartitionLog, values: range, epoch: int) -> None:
    for value in values:
        log.append_as_leader(batch(value, 1 + value % 2, 1000 + value), epoch)
    log.write()


def _append_and_roll(store: LogManager, log: PartitionLog) -> None:
    _append(log, range(100, 120), 7)


def _truncate(store: LogManager, log: PartitionLog) -> None:
    log.truncate_to(11)


def _truncate_then_append(store: LogManager, log: PartitionLog) -> None:
    log.truncate_to(11)
    _append(log, range(200, 204), 9)


def _truncate_fully_above(store: LogManager, log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(500)


def _truncate_fully_below(store: LogManager, log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(3)


def _truncate_fully_in_place(store: LogManager, log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(0)


def _flush(store: LogManager, log: PartitionLog) -> None:
    log.flush()
    store.checkpoint_recovery_points()


def _delete_old(store: LogManager, log: PartitionLog) -> None:
    log.maybe_raise_log_start(14)
    log.delete_old_segments(0, log.staged_end_offset)
    store.checkpoint_log_start_offsets()


def _stop(store: LogManager, log: PartitionLog) -> None:
    store.close(clean=True)


_OPERATIONS = [
    _append_and_roll,
    _truncate,
    _truncate_then_append,
    _truncate_fully_above,
    _truncate_fully_below,
    _truncate_fully_in_place,
    _flush,
    _delete_old,
    _stop,
]


def _ready(path: str, flushed: bool) -> tuple[LogManager, PartitionLog, Clock]:
    clock = Clock()
    store = open_store(path, clock)
    log = open_log(store)
    _append(log, range(10), 1)
    _append(log, range(10, 16), 4)
    if flushed:
        log.flush()
        store.checkpoint_recovery_points()
        store.checkpoint_log_start_offsets()
    return store, log, clock


@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize("operation", _OPERATIONS, ids=lambda operation: operation.__name__.strip("_"))
def test_log_killed_anywhere_in_an_operation_opens_as_a_run_of_its_batches(
    operation: Callable[[LogManager, PartitionLog], None], flushed: bool
) -> None:
    for attempt in attempts():
        with folder() as path:
            store, log, _ = _ready(path, flushed)
            before = read_all(log)
            with attempt.killed():
                operation(store, log)
            after = read_all(log) if attempt.finished and operation is not _stop else before
            kill(store)
            reopened = open_store(path, Clock())
            assert not reopened.offline_logs
            log = open_log(reopened)
            rows = read_all(log)
            if operation in (_append_and_roll, _truncate_then_append):
                # Any run of what was there, then any run of what was being added.
                old = [row for row in rows if row in before]
                assert old == before[: len(old)]
                assert all(int.from_bytes(row[12:16], "big") in (7, 9) for row in rows[len(old) :])
                assert operation is _truncate_then_append or old == before
            elif operation is _delete_old:
                assert rows == before[len(before) - len(rows) :]
                assert len(rows) >= len([row for row in before if int.from_bytes(row[:8], "big") >= 14])
            elif operation in (_flush, _stop):
                assert rows == before
            else:
                assert rows == before[: len(rows)]
            if operation is _truncate:
                assert len(rows) >= len([row for row in before if int.from_bytes(row[:8], "big") < 11]) - 1
            if attempt.finished and operation is not _stop:
                assert rows == after
            for row in rows:
                base = int.from_bytes(row[:8], "big")
                if base >= log.log_start_offset:
                    assert log.epoch_at(base) == int.from_bytes(row[12:16], "big")
            # The log goes on from here.
            log.append_as_leader(batch(999), 11)
            log.write()
            assert len(read_all(log)) == len(rows) + 1
            reopened.close(clean=True)
            again = open_store(path, Clock())
            assert again.reports[0].clean
            assert len(read_all(again.logs()[TP])) == len(rows) + 1
            again.close(clean=True)
    assert attempt.number > 1 or operation is _flush
