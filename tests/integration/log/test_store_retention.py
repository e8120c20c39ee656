"""Retention and rolls, by time on a virtual clock and by size."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest

from broker.config.settings import Settings
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog, OffsetOutOfRange
from broker.wire.chunks import FileSlice
from tests.property.log.log_tools import (
    TINY,
    TOPIC_ID,
    TP,
    Clock,
    append_values,
    batch,
    fetch,
    kill,
    open_log,
    open_store,
    read_all,
)

pytestmark = pytest.mark.guarantee("L3")


def test_retention_by_time_on_a_virtual_clock_keeps_seven_days(path: str) -> None:
    day = 24 * 3600 * 1000
    clock = Clock()
    store = open_store(path, clock, {"segment.ms": str(day - 1), "retention.ms": str(7 * day)})
    log = open_log(store)
    for hour in range(24 * 10):
        log.append_as_leader(batch(hour, 1, hour * day // 24), 0)
        log.write()
        clock.now = hour * day / 24
        log.delete_old_segments(clock.now, log.staged_end_offset)
    assert len(log.segment_base_offsets) == 8
    assert log.log_start_offset == log.segment_base_offsets[0] == 24 * 2
    with pytest.raises(OffsetOutOfRange):
        fetch(log, 24 * 2 - 1)
    kill(store)


@pytest.mark.parametrize("roll", [{"log.roll.hours": "24"}, {"log.roll.ms": "86400000", "log.roll.hours": "2"}])
def test_daily_roll_and_seven_days_by_the_brokers_settings_on_a_virtual_clock(path: str, roll: dict[str, str]) -> None:
    hour, days = 3_600_000, 30
    given = {"zookeeper.connect": "zk:2181", "log.retention.hours": "168", **roll}
    clock = Clock()
    store = open_store(path, clock, Settings.parse(given).topic_defaults)
    log = open_log(store)
    for now in range(24 * days):
        log.append_as_leader(batch(now, 1, now * hour), 0)
        log.write()
        clock.now = now * hour
        store.delete_old_segments(clock.now, {TP: log.staged_end_offset})
        # An hour's record is an offset: 168 of them are always there, and what goes with them is one segment's.
        assert log.log_start_offset <= max(0, now - 168)
        assert log.log_start_offset >= now - 168 - 25
        rolled = pairwise(log.segment_base_offsets)
        assert all(later - earlier == 25 for earlier, later in rolled), "at the first record after a day"
    assert log.log_start_offset > 24 * (days - 9)
    kill(store)


def test_retention_never_takes_what_is_above_the_high_watermark(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock, TINY | {"retention.ms": "1"})
    append_values(store, range(40))
    log = open_log(store)
    bases = log.segment_base_offsets
    log.delete_old_segments(1e15, bases[2])
    assert log.segment_base_offsets == bases[2:]
    log.delete_old_segments(1e15, 39)
    assert log.segment_base_offsets == bases[-1:]
    assert [int.from_bytes(row[:8], "big") for row in read_all(log)][-1] == 39
    clock.advance(20)
    assert not [name for name in os.listdir(f"{path}/t-0") if name.endswith(".deleted")]
    kill(store)


def test_retention_renames_at_once_and_removes_after_the_delay(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock, TINY | {"retention.ms": "1", "file.delete.delay.ms": "60000"})
    append_values(store, range(40))
    log = open_log(store)
    base = log.segment_base_offsets[0]
    begun = log.read(base, 1 << 20, 40, True)
    log.delete_old_segments(1e15, 39)

    def renamed() -> set[str]:
        return {name for name in os.listdir(f"{path}/t-0") if name.endswith(".deleted")}

    hidden = renamed()
    assert [name for name in hidden if name.startswith(f"{base:020d}.log.")]
    assert not os.path.exists(f"{path}/t-0/{base:020d}.log")
    clock.advance(59_999)
    assert renamed() == hidden
    assert isinstance(begun, FileSlice)
    assert len(os.pread(begun.fd, begun.length, begun.position)) == begun.length, "a read that had begun goes on"
    clock.advance(1)
    assert renamed() == set()
    kill(store)


def test_retention_lets_an_empty_segment_take_over_before_the_active_one_goes(path: str) -> None:
    store = open_store(path, Clock(), TINY | {"retention.ms": "1"})
    append_values(store, range(40))
    log = open_log(store)
    log.append_as_leader(batch(40), 0)
    log.delete_old_segments(1e15, 40)
    assert log.segment_base_offsets[-1] < 40, "what is staged still goes behind the old one"
    log.write()
    log.delete_old_segments(1e15, 41)
    assert (log.segment_base_offsets, log.log_start_offset, log.staged_end_offset) == ([41], 41, 41)
    assert log.delete_old_segments(1e15, 41) == 0
    append_values(store, range(41, 43))
    assert len(read_all(log)) == 2
    kill(store)
    again = open_store(path, Clock(), TINY)
    assert open_log(again).staged_end_offset == 43
    kill(again)


def test_retention_applies_new_overrides_at_the_next_check(path: str) -> None:
    store = open_store(path, Clock(), TINY | {"retention.ms": "-1"})
    append_values(store, range(40))
    log = open_log(store)
    count = len(log.segment_base_offsets)
    assert log.delete_old_segments(1e15, 40) == 0
    store.update_config("t", {"retention.bytes": "1000"})
    assert log.delete_old_segments(1e15, 40) > 0
    assert 1000 <= log.size_bytes < 1700
    store.update_config("t", {"retention.ms": "100"})
    assert log.delete_old_segments(0, 40) == 0
    store.update_config("t", {"cleanup.policy": "compact", "retention.ms": "100"})
    assert log.delete_old_segments(1e15, 40) == 0
    log.maybe_raise_log_start(39)
    assert log.delete_old_segments(1e15, 40) > 0, "below the log start they go whatever the policy"
    assert len(log.segment_base_offsets) < count
    kill(store)


def test_segments_roll_by_time_up_to_the_jitter_earlier(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock, {"segment.ms": "1000", "segment.jitter.ms": "400"})
    log = open_log(store)
    lives: list[int] = []
    first = 0
    for moment in range(0, 60_000, 50):
        before = len(log.segment_base_offsets)
        log.append_as_leader(batch(moment, timestamp=moment), 0)
        log.write()
        if len(log.segment_base_offsets) > before:
            lives.append(moment - first)
            first = moment
    assert all(600 <= life <= 1050 for life in lives), lives
    assert min(lives[1:]) < 900
    assert max(lives[1:]) > min(lives[1:])
    kill(store)


def test_active_segment_of_a_compacted_log_is_rolled_within_max_compaction_lag(path: str) -> None:
    config = {"cleanup.policy": "compact", "segment.ms": "100000", "max.compaction.lag.ms": "1000"}
    store = open_store(path, Clock(), config)
    log = open_log(store)
    for moment in (0, 900, 1001):
        log.append_as_leader(batch(moment, timestamp=moment), 0)
        log.write()
    assert log.segment_base_offsets == [0, 2]
    kill(store)


def test_retention_by_size_keeps_at_least_that_much(path: str) -> None:
    store = open_store(path, Clock(), TINY | {"retention.ms": "-1", "retention.bytes": "1500"})
    append_values(store, range(40))
    log = open_log(store)
    log.delete_old_segments(1e15, 40)
    assert 1500 <= log.size_bytes < 1500 + 700
    kill(store)


@pytest.mark.patches
def test_retention_of_other_logs_goes_on_beside_a_damaged_one(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(path, Clock(), TINY | {"retention.ms": "1"})
    append_values(store, range(40))
    other = TopicPartition("u", 0)
    log = store.create(other, TOPIC_ID[:-1] + "w", {})
    for value in range(40):
        log.append_as_leader(batch(value, 1, 1000), 0)
    log.write()
    assert list(store.logs()) == [TP, other]
    damage = CorruptLog(TP, "a segment", "a batch has a false length")

    def damaged(*_: object) -> int:
        raise damage

    monkeypatch.setattr(store.logs()[TP], "delete_old_segments", damaged)
    told: list[CorruptLog] = []
    assert store.delete_old_segments(1e15, {TP: 40, other: 40}, told.append) > 0
    assert told == [damage]
    assert log.log_start_offset > 0
    kill(store)
