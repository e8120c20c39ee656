"""A compacted log beside a dict of last values: random batches, codecs, tombstones, cleanings, cuts and restarts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.cleaner.offset_map import ENTRY_BYTES
from broker.log.cleaner.schedule import CleanerSettings
from broker.wire.compression import Compression
from broker.wire.records import Record
from tests.property.log.compaction_tools import (
    COMPACTED,
    cleaner_for,
    headers_of,
    keyed,
    last_values,
    records_of,
)
from tests.property.log.log_tools import TP, Clock, folder, kill, open_log, open_store
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("L3")

TINY_MAP = CleanerSettings(dedupe_bytes=ENTRY_BYTES * 8)
STEPS = ("append", "append", "append", "append", "clean", "clean", "wait", "cut", "restart", "kill", "delete")


@examples(150)
@given(seed=st.integers(0, 2**32), small_map=st.booleans(), keys=st.integers(1, 12))
def test_compacted_log_has_the_last_value_of_every_key_and_nothing_that_was_not_written(
    seed: int, small_map: bool, keys: int
) -> None:
    rng = random.Random(seed)
    clock = Clock(now=1e6)
    with folder() as path:
        store = open_store(path, clock, COMPACTED)
        log = open_log(store)
        bench = cleaner_for(store, clock, TINY_MAP if small_map else CleanerSettings())
        written: dict[int, Record] = {}
        newest_of_producer: dict[int, int] = {}
        number = 0
        for _ in range(rng.randrange(5, 60)):
            match rng.choice(STEPS):
                case "append":
                    records = []
                    for _ in range(rng.randrange(1, 5)):
                        number += 1
                        value = None if rng.random() < 0.25 else b"%d" % number * rng.randrange(1, 20)
                        records.append((b"k%d" % rng.randrange(keys), value))
                    producer = rng.randrange(3)
                    codec = rng.choice(list(Compression))
                    timestamp = int(clock.now) - rng.randrange(100)
                    batch = keyed(records, timestamp, codec, producer_id=producer, producer_epoch=0, base_sequence=0)
                    info = log.append_as_leader(batch, 1)
                    log.write()
                    newest_of_producer[producer] = info.last_offset
                    for offset, (key, value) in enumerate(records, info.base_offset):
                        written[offset] = Record(offset, timestamp, key, value)
                case "clean":
                    newest_of_producer = {p: o for p, o in newest_of_producer.items() if rng.random() < 0.7}
                    bench.replicas.producers = dict(newest_of_producer)
                    anywhere = rng.randrange(log.log_start_offset, log.staged_end_offset + 1)
                    bench.replicas.stable = rng.choice([None, log.staged_end_offset, anywhere])
                    before = last_values(records_of(log))
                    bench.cleaner.check()
                    assert last_values(records_of(log)) == before
                    assert not bench.cleaner.uncleanable
                case "wait":
                    clock.advance(rng.choice([1, 600, 1500]))
                case "cut":
                    # Never below what may have been cleaned: that is committed.
                    floor = max(log.cleaning.cleaned_until or 0, log.log_start_offset)
                    log.truncate_to(rng.randrange(floor, log.staged_end_offset + 1))
                    written = {offset: record for offset, record in written.items() if offset < log.staged_end_offset}
                    newest_of_producer.clear()
                    bench.replicas.producers.clear()
                case "delete":
                    log.maybe_raise_log_start(rng.randrange(log.log_start_offset, log.staged_end_offset + 1))
                    log.delete_old_segments(clock.now, log.staged_end_offset)
                case ending:
                    if ending == "kill":
                        kill(store)
                    else:
                        store.close(clean=True)
                    leo = log.staged_end_offset
                    store = open_store(path, clock, COMPACTED)
                    log = store.logs()[TP]
                    assert log.staged_end_offset == leo
                    bench = cleaner_for(store, clock, TINY_MAP if small_map else CleanerSettings())
            found = records_of(log)
            assert all(written[record.offset] == record for record in found)
            there = {record.offset for record in found}
            start = log.log_start_offset
            uncleaned = max(log.cleaning.cleaned_until or 0, start)
            assert all(offset in there for offset in written if offset >= uncleaned)
            expected = last_values([record for _, record in sorted(written.items()) if record.offset >= start])
            held = last_values(found)
            assert held == expected
            moment = int(clock.now) - rng.randrange(3000)
            first = next((r for r in found if r.timestamp >= moment), None)
            at = log.offset_for_timestamp(moment, log.staged_end_offset)
            assert (at and at[:2]) == (first and (first.timestamp, first.offset))
            ends = {header.last_offset for header in headers_of(log)}
            active = bench.replicas.producers
            assert all(
                offset in ends for offset in active.values() if offset >= start and offset < log.staged_end_offset
            )
        kill(store)


@pytest.mark.parametrize("codec", list(Compression))
def test_clean_log_is_not_cleaned_again_until_it_is_dirty(codec: Compression) -> None:
    clock = Clock(now=1e6)
    with folder() as path:
        store = open_store(path, clock, COMPACTED)
        log = open_log(store)
        for n in range(60):
            log.append_as_leader(keyed([(b"k%d" % (n % 3), b"v" * 50)], codec=codec), 0)
            log.write()
        bench = cleaner_for(store, clock)
        bench.cleaner.check()
        assert bench.cleaner.runs == 1
        after = headers_of(log)
        bench.cleaner.check()
        assert (bench.cleaner.runs, headers_of(log)) == (1, after)
        assert len(records_of(log)) < 20
        kill(store)
