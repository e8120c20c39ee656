"""A recovery that is killed: what it had decided to cut is not believed by the next start.

The topics have a `cleanup.policy` of their own, so nobody knows whether they were compacted, and holes are believed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.log.files import checkpoints
from broker.log.files.run_mark import FILE_NAME
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from tests.property.log.killed_starts import is_restored, put_back, save, started
from tests.property.log.kills import attempts
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, batch, folder, kill, open_store, read_all

pytestmark = pytest.mark.guarantee("L6")

CONFIG = {"segment.bytes": "700"}
OVERRIDES = {"cleanup.policy": "delete"}
END = 20


@pytest.fixture
def path() -> Iterator[str]:
    with folder() as above:
        yield f"{above}/data"


def _written(path: str) -> tuple[LogManager, PartitionLog]:
    """END batches of a record each, in several segments."""
    store = open_store(path, Clock(), CONFIG, topic_configs={TP.topic: OVERRIDES})
    log = store.create(TP, TOPIC_ID, OVERRIDES)
    for value in range(END):
        log.append_as_leader(batch(value), 0)
        log.write()
    return store, log


def _vouch_for(path: str, recovery_point: int) -> None:
    Path(path, checkpoints.RECOVERY_POINTS).write_text(checkpoints.format_offsets({TP: recovery_point}))


def _spoil(path: str, base: int, batches: int) -> None:
    """The batch behind so many of the segment."""
    file = Path(path, str(TP), f"{base:020d}.log")
    with file.open("r+b") as opened:
        opened.seek(batches * len(batch(0)) + 70)
        opened.write(b"\xff\xff")


def _ends(path: str) -> int:
    """Where the log ends in the eyes of the next start, which must know that it ended further on."""
    with started(path, CONFIG, OVERRIDES) as (store, _):
        assert TP in store.unclean
        if TP in store.offline_logs:
            assert is_restored(store, OVERRIDES)
            assert TP in store.unclean
        log = store.logs()[TP]
        assert len(read_all(log, holes=True)) == log.staged_end_offset, "a hole"
        return log.staged_end_offset


def test_start_killed_while_it_cuts_leaves_no_hole(path: str) -> None:
    store, log = _written(path)
    second = log.segment_base_offsets[1]
    assert len(log.segment_base_offsets) > 3
    kill(store)
    _vouch_for(path, second)
    _spoil(path, second, 2)
    save(path, f"{path}-saved")
    for attempt in attempts():
        put_back(f"{path}-saved", path)
        with started(path, CONFIG, OVERRIDES, attempt.number) as (_, attempt.finished):
            pass
        assert _ends(path) == second + 2, attempt.number
    assert attempt.number > 10


def test_restoration_killed_while_it_cuts_leaves_no_hole(path: str) -> None:
    store, log = _written(path)
    second = log.segment_base_offsets[1]
    kill(store)
    _vouch_for(path, second + 4)
    _spoil(path, second, 2)
    _kill_restorations(path, second + 2)


def test_restoration_killed_before_it_has_cut_believes_no_hole_either(path: str) -> None:
    """A power failure took the end of a segment, of which what was on disk is missing too: that hole is damage."""
    store, log = _written(path)
    second = log.segment_base_offsets[1]
    kill(store)
    Path(path, FILE_NAME).unlink()
    first = Path(path, str(TP), f"{0:020d}.log")
    os.truncate(first, first.stat().st_size // second * (second - 2))
    _vouch_for(path, second - 1)
    with started(path, CONFIG, OVERRIDES) as (store, _):
        assert list(store.offline_logs) == [TP]
    _kill_restorations(path, second - 2)


def _kill_restorations(path: str, end: int) -> None:
    save(path, f"{path}-saved")
    for attempt in attempts():
        put_back(f"{path}-saved", path)
        with started(path, CONFIG, OVERRIDES) as (store, _):
            assert list(store.offline_logs) == [TP]
            attempt.finished = is_restored(store, OVERRIDES, attempt.number)
        assert _ends(path) == end, attempt.number
    assert attempt.number > 8


def test_start_killed_while_it_begins_anew_at_the_log_start_has_not_lost_the_log(path: str) -> None:
    """What ends below its log start is thrown away: without a segment the next start would take it for missing."""
    store, log = _written(path)
    log.maybe_raise_log_start(END)
    store.checkpoint_log_start_offsets()
    kill(store)
    for base in log.segment_base_offsets[2:]:
        os.unlink(f"{path}/{TP}/{base:020d}.log")
    save(path, f"{path}-saved")
    for attempt in attempts():
        put_back(f"{path}-saved", path)
        with started(path, CONFIG, OVERRIDES, attempt.number) as (_, attempt.finished):
            pass
        with started(path, CONFIG, OVERRIDES) as (store, _):
            assert not store.offline_logs, attempt.number
            log = store.logs()[TP]
            assert (log.log_start_offset, log.staged_end_offset) == (END, END)
            assert log.segment_base_offsets[-1] == END
    assert attempt.number > 10
