"""What a log does itself while it is cleaned is never taken for damage: cuts, deletions, a new beginning."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from broker.log.log_manager import LogManager
from broker.wire.compression import Compression
from tests.integration.log.held_cleaner import ENOUGH_READS, HeldCleaner
from tests.property.log.compaction_tools import COMPACTED, append_overwriting, last_values, records_of
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("L3", "L6")


def _cut_low(store: LogManager) -> None:
    store.logs()[TP].truncate_to(3)


def _cut_to_a_segment(store: LogManager) -> None:
    log = store.logs()[TP]
    log.truncate_to(log.segment_base_offsets[2])


def _cut_within_a_segment(store: LogManager) -> None:
    log = store.logs()[TP]
    log.truncate_to(log.segment_base_offsets[1] + 1)


def _begin_anew(store: LogManager) -> None:
    store.logs()[TP].truncate_fully_and_start_at(0)


def _begin_anew_later(store: LogManager) -> None:
    store.logs()[TP].truncate_fully_and_start_at(100)


def _delete_records(store: LogManager) -> None:
    log = store.logs()[TP]
    log.maybe_raise_log_start(log.segment_base_offsets[3])
    log.delete_old_segments(0, log.staged_end_offset)


def _delete(store: LogManager) -> None:
    store.delete(TP)


def _delete_and_make_anew(store: LogManager) -> None:
    store.delete(TP)
    log = store.create(TP, TOPIC_ID, {})
    append_overwriting(log, 20, Compression.GZIP)


OWN_WORK: list[Callable[[LogManager], None]] = [
    _cut_low,
    _cut_to_a_segment,
    _cut_within_a_segment,
    _begin_anew,
    _begin_anew_later,
    _delete_records,
    _delete,
    _delete_and_make_anew,
]


@pytest.mark.parametrize("refilled", [False, True])
@pytest.mark.parametrize("work", OWN_WORK, ids=lambda work: work.__name__.strip("_"))
def test_what_the_log_does_itself_under_a_cleaning_is_never_damage(
    path: str, work: Callable[[LogManager], None], refilled: bool
) -> None:
    """Before each of its reads, and behind the last."""
    for moment in range(1, ENOUGH_READS):
        folder = f"{path}-{moment}"
        clock = Clock()
        store = open_store(folder, clock, COMPACTED)
        append_overwriting(open_log(store), 40, Compression.GZIP)
        bench = HeldCleaner(store)
        done: list[int] = []

        def act(reads: int, store: LogManager = store, clock: Clock = clock, done: list[int] = done) -> None:
            done.append(reads)
            work(store)
            clock.advance(20)  # beyond file.delete.delay.ms
            if refilled and TP in store.logs():
                append_overwriting(store.logs()[TP], 40)

        bench.between = lambda reads, moment=moment, done=done, act=act: (  # type: ignore[misc]
            act(reads) if reads == moment and not done else None
        )
        bench.tick()
        last = not done
        if last:
            act(moment)
        assert bench.cleaner._failures == {}, "it is not to wait for the others"
        for _ in range(2):
            bench.tick()
        assert bench.damages == []
        assert bench.cleaner.uncleanable == {}
        assert store.offline_dirs == []
        if TP in store.logs():
            log = store.logs()[TP]
            append_overwriting(log, 40)
            before = last_values(records_of(log))
            runs = bench.cleaner.runs
            bench.tick()
            assert bench.damages == []
            assert bench.cleaner.runs > runs
            assert last_values(records_of(log)) == before
        kill(store)
        shutil.rmtree(folder)
        if last:
            assert moment > 10
            return
