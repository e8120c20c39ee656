"""Indexes that a start writes anew: the same as if nothing had happened, in memory that no segment makes grow."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.log.files.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS
from broker.wire.records import NewRecord, encode_batch
from tests.property.log.kills import attempts
from tests.property.log.log_tools import TP, Clock, batch, folder, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("L6")

CONFIG = {"segment.bytes": "4000", "index.interval.bytes": "150"}
BATCHES = 50_000
MIB = 1 << 20


@pytest.fixture
def path() -> Iterator[str]:
    with folder() as above:
        yield f"{above}/data"


def _indexes(path: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in Path(path, str(TP)).iterdir() if file.suffix.endswith("index")}


def _forget_the_stop(path: str) -> None:
    """The next start looks at every batch."""
    os.unlink(f"{path}/{CLEAN_SHUTDOWN}")
    os.unlink(f"{path}/{RECOVERY_POINTS}")


def _lose_the_indexes(path: str) -> None:
    for file in Path(path, str(TP)).glob("*index"):
        file.unlink()


def _write_some(path: str) -> None:
    """Batches of several sizes, whose timestamps rise, fall and stand still."""
    rng = random.Random(5)
    store = open_store(path, Clock(), CONFIG)
    log = open_log(store)
    for value in range(300):
        log.append_as_leader(batch(value, rng.randint(1, 3), 1000 + value // 3 + rng.randint(-20, 20), value % 90), 0)
        log.write()
    assert len(log.segment_base_offsets) > 5
    store.close(clean=True)


@pytest.mark.parametrize("lose", [_forget_the_stop, _lose_the_indexes])
def test_indexes_written_anew_are_those_of_the_appends(path: str, lose: Callable[[str], None]) -> None:
    _write_some(path)
    before = _indexes(path)
    assert sorted(map(len, before.values()))[1] >= 24
    lose(path)
    store = open_store(path, Clock(), CONFIG)
    for segment in open_log(store)._segments:
        segment.open()
    assert _indexes(path) == before
    # What follows is indexed as it would have been.
    open_log(store).append_as_leader(batch(999, 1, 5000), 0)
    store.close(clean=True)
    after = _indexes(path)
    assert {name: after[name][: len(content)] for name, content in before.items()} == before


def test_indexes_of_a_start_killed_while_it_writes_them_hide_no_timestamp(path: str) -> None:
    """More entries than are kept in memory; the newest timestamp long before the end, where no later entry has it."""
    config = {"index.interval.bytes": "1"}
    store = open_store(path, Clock(), config)
    log = open_log(store)
    for value in range(2300):
        log.append_as_leader(batch(value, 1, 9000 if value == 1500 else 1000 + value, 0), 0)
    log.write()
    kill(store)
    for attempt in attempts():
        _lose_the_indexes(path)
        store = open_store(path, Clock(), config)
        segment = open_log(store)._segments.active
        with attempt.killed():
            segment.rebuild_indexes()
        segment.close()
        segment.open()
        assert segment.max_timestamp == 9000, attempt.number
        kill(store)
    assert attempt.number > 4


def _write_small_ones(path: str) -> None:
    """One segment of them: the base offset, which no CRC covers, is all that differs."""
    store = open_store(path, Clock(), {})
    open_log(store)
    store.close(clean=True)
    content = bytes(encode_batch([NewRecord(None, b"")], timestamps=1000))[8:]
    with open(f"{path}/{TP}/{0:020d}.log", "wb") as file:
        file.write(b"".join(offset.to_bytes(8, "big") + content for offset in range(BATCHES)))
    _lose_the_indexes(path)


@pytest.mark.parametrize("lose", [_forget_the_stop, _lose_the_indexes])
def test_start_over_many_small_batches_takes_little_memory(path: str, lose: Callable[[str], None]) -> None:
    _write_small_ones(path)
    lose(path)
    tracemalloc.start()
    try:
        store = open_store(path, Clock(), {})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert open_log(store).staged_end_offset == BATCHES
    kill(store)
    assert peak < 5 * MIB, peak
