"""Time indexes that were cut, or whose last entry has a wrong bit: lookups skip nothing, retention keeps nothing for
ever; and what they cost where nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.log.segments.segment import Segment
from tests.property.log.log_tools import TP, Clock, batch, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("L6")

CONFIG = {"segment.bytes": "1500", "index.interval.bytes": "100", "file.delete.delay.ms": "10"}
COUNT = 40
ENTRY = 12


def filled(path: str, timestamps: Callable[[int], int] = lambda value: 1000 + value) -> list[int]:
    """A log of several segments, stopped in order; their base offsets."""
    store = open_store(path, Clock(), CONFIG)
    log = open_log(store)
    for value in range(COUNT):
        log.append_as_leader(batch(value, 1, timestamps(value)), 0)
        log.write()
    bases = log.segment_base_offsets
    assert len(bases) > 3
    store.close(clean=True)
    return bases


def started(path: str, more: dict[str, str] | None = None) -> tuple[LogManager, PartitionLog]:
    store = open_store(path, Clock(), CONFIG | (more or {}))
    return store, open_log(store)


def time_index(path: str, base: int) -> Path:
    return Path(path, str(TP), f"{base:020d}.timeindex")


def flip(name: Path, bit: int) -> None:
    """A bit of the last entry's timestamp; 0 is the lowest."""
    content = bytearray(name.read_bytes())
    content[-ENTRY + 7 - bit // 8] ^= 1 << bit % 8
    name.write_bytes(content)


def assert_all_found(log: PartitionLog) -> None:
    """From the end on: a lookup that opens a segment learns what the next ones need."""
    for value in reversed(range(COUNT)):
        assert log.offset_for_timestamp(1000 + value, COUNT) == (1000 + value, value, 0)


@pytest.mark.parametrize("place", [0, 1, -2])
def test_lookup_skips_nothing_where_a_time_index_was_cut_at_the_end_of_an_entry(path: str, place: int) -> None:
    bases = filled(path)
    name = time_index(path, bases[place])
    whole = name.read_bytes()
    assert len(whole) >= 3 * ENTRY
    for entries in range(len(whole) // ENTRY):
        name.write_bytes(whole[: entries * ENTRY])
        store, log = started(path)
        assert_all_found(log)
        store.close(clean=True)


@pytest.mark.parametrize("place", [0, -2, -1])
def test_lookup_skips_nothing_where_the_last_entry_of_a_time_index_has_a_wrong_bit(path: str, place: int) -> None:
    bases = filled(path)
    name = time_index(path, bases[place])
    whole = name.read_bytes()
    for bit in range(64):
        name.write_bytes(whole)
        flip(name, bit)
        store, log = started(path)
        assert_all_found(log)
        assert log.newest_timestamp() == 1000 + COUNT - 1
        store.close(clean=True)


def test_newest_timestamp_is_a_batch_s_where_a_time_index_promises_more(path: str) -> None:
    """Where the newest does not stand at a segment's end nothing but the batch itself tells that its entry is wrong."""
    bases = filled(path, lambda value: 1100 - value)
    flip(time_index(path, bases[1]), 40)
    store, log = started(path)
    assert log.newest_timestamp() == 1100
    assert log.offset_for_timestamp(log.newest_timestamp(), COUNT) == (1100, 0, 0)
    kill(store)


def test_retention_by_time_is_not_ended_by_a_wrong_bit_in_a_time_index(path: str) -> None:
    # The newest of each segment is its first: nothing at its end contradicts the entry.
    bases = filled(path, lambda value: 2000 - value)
    flip(time_index(path, bases[0]), 45)
    store, log = started(path, {"retention.ms": "100"})
    log.delete_old_segments(1e6, COUNT)
    assert log.log_start_offset == COUNT
    kill(store)


@pytest.mark.patches
def test_records_of_a_producer_whose_clock_is_ahead_are_looked_at_once(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bases = filled(path, lambda value: 10**9 - value)
    store, log = started(path, {"retention.ms": "100"})
    opened: list[int] = []
    real = Segment.open

    def counted(segment: Segment) -> None:
        if not segment.is_open:
            opened.append(segment.base_offset)
        real(segment)

    monkeypatch.setattr(Segment, "open", counted)
    for _ in range(3):
        assert log.delete_old_segments(1e6, COUNT) == 0
    assert opened == [bases[0]]
    assert log.delete_old_segments(2e9, COUNT) == len(bases)
    kill(store)


@pytest.mark.patches
@pytest.mark.parametrize(
    "timestamps",
    [
        lambda value: 1000 + value,
        lambda value: 2000 - value,
        lambda value: 1000,
        lambda value: 1000 + value * 7919 % 97,
        lambda value: 1000 + value // 10,
    ],
    ids=["rising", "falling", "equal", "mixed", "steps"],
)
def test_lookup_opens_no_segment_whose_time_index_is_whole_and_says_that_it_is_older(
    path: str, monkeypatch: pytest.MonkeyPatch, timestamps: Callable[[int], int]
) -> None:
    filled(path, timestamps)
    store, log = started(path)
    opened: list[int] = []
    monkeypatch.setattr(Segment, "_open_all", lambda segment: opened.append(segment.base_offset))
    assert log.offset_for_timestamp(10**6, COUNT) is None
    assert opened == []
    monkeypatch.undo()
    kill(store)
