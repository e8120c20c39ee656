"""Indexes hold no descriptor: what a search, a spill, a rename, or somebody who removes the file find."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.log.indexes.offset_index import OffsetIndex
from broker.log.indexes.sparse_index import SPILL_ENTRIES, IndexDamaged
from tests.property.log.compaction_tools import (
    COMPACTED,
    append_overwriting,
    cleaner_for,
    last_values,
    records_of,
)
from tests.property.log.log_tools import TINY, TP, Clock, append_values, fetch, kill, open_log, open_store
from tests.support.descriptors import descriptors_left

DENSE = TINY | {"segment.bytes": "1000000", "index.interval.bytes": "0", "segment.index.bytes": "1000000"}
"""One segment with an index entry for each batch but the first."""


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _index(folder: str, entries: int) -> OffsetIndex:
    index = OffsetIndex(folder, 0)
    index.create()
    for number in range(1, entries + 1):
        index.push(number * 3, number * 31)
    return index


def test_index_takes_no_descriptor_whatever_is_done_with_it(tmp_path: Path) -> None:
    before = _descriptors()
    index = _index(str(tmp_path), 5000)
    assert _descriptors() == before
    index.spill()
    assert [index.floor(0, key) for key in (2, 3, 7000, 15_000, 99_999)] == [-1, 0, 2332, 4999, 4999]
    index.truncate(100)
    index.close()
    index.open()
    assert len(index) == 100
    assert _descriptors() == before


def test_entries_that_no_descriptor_is_free_to_spill_stay_in_memory_until_there_is_one(tmp_path: Path) -> None:
    index = OffsetIndex(str(tmp_path), 0)
    index.create()
    with descriptors_left(0):
        for number in range(1, 5 * SPILL_ENTRIES):
            index.push(number * 3, number * 31)
        assert index.floor(1, 31 * 2000) == 1999
    assert os.stat(index.path).st_size == 0
    index.push(100_000, 1_000_000)
    assert os.stat(index.path).st_size == 8 * 5 * SPILL_ENTRIES
    assert index.entry(1999) == (6000, 62_000)


def test_index_whose_file_has_another_name_goes_on_where_it_was_held(tmp_path: Path) -> None:
    index = _index(str(tmp_path), 3000)
    index.spill()
    index.hold()
    os.rename(index.path, index.path + ".deleted")
    assert index.floor(0, 6000) == 1999
    index.truncate(2500)
    assert os.stat(index.path + ".deleted").st_size == 8 * 2500
    os.rename(index.path + ".deleted", index.path)
    before = _descriptors()
    index.let_go()
    assert _descriptors() == before - 1
    assert index.floor(0, 99_999) == 2499


def test_index_whose_file_is_gone_is_damaged_for_who_reads_and_no_obstacle_for_who_appends(tmp_path: Path) -> None:
    index = _index(str(tmp_path), 3000)
    index.spill()
    os.unlink(index.path)
    with pytest.raises(IndexDamaged, match="No such file"):
        index.floor(0, 6000)
    for number in range(3001, 6000):
        index.push(number * 3, number * 31)
    with pytest.raises(IndexDamaged):
        index.spill()
    with pytest.raises(IndexDamaged):
        index.descriptor()
    assert not os.path.exists(index.path)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("then", ["read", "look up", "flush", "cut", "roll", "close"])
def test_log_whose_index_is_removed_under_it_goes_on_and_has_it_again(path: str, suffix: str, then: str) -> None:
    store = open_store(path, Clock(), DENSE)
    append_values(store, range(3000))
    log = open_log(store)
    log.flush()
    removed = f"{path}/{TP}/{0:020}{suffix}"
    assert os.path.exists(removed)
    os.unlink(removed)
    if then == "read":
        assert fetch(log, 100, 1, limit=101)
    elif then == "look up":
        assert log.offset_for_timestamp(1500, 3000) == (1500, 500, 0)
    elif then == "flush":
        append_values(store, range(3000, 3001))
        log.flush()
    elif then == "cut":
        log.truncate_to(500)
        append_values(store, range(500, 3000))
    elif then == "roll":
        append_values(store, range(3000, 12_000))
        assert len(log.segment_base_offsets) > 1
    store.close(clean=True)
    store = open_store(path, Clock(), DENSE)
    log = open_log(store)
    for value in (0, 100, 1500, 2999):
        assert log.offset_for_timestamp(1000 + value, 3000) == (1000 + value, value, 0)
        assert fetch(log, value, 1, limit=value + 1)
    assert not store.offline_dirs
    assert not store.offline_logs
    assert os.stat(removed).st_size > 0
    kill(store)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_segment_whose_index_is_removed_before_it_is_swapped_is_swapped_all_the_same(path: str, suffix: str) -> None:
    clock = Clock()
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    append_overwriting(log, 60)
    before = last_values(records_of(log))
    first = log.cleaning.inactive_segments(log.staged_end_offset)[0]
    assert first.is_open
    os.unlink(first.path(suffix))
    bench = cleaner_for(store, clock)
    bench.cleaner.check()
    assert bench.cleaner.runs == 1
    assert last_values(records_of(log)) == before
    assert not store.offline_dirs
    kill(store)
