"""Descriptors of segments that are being cleaned."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest

from broker.log.cleaner.cleaner import CleanedGroup, CleaningJob, LogCleaning
from broker.log.cleaner.process import Event, OnEvent, Stop, perform
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.cleaner.throttle import unlimited
from broker.model.log_errors import CorruptLog
from tests.integration.log.many_segments import MANY, Turns, open_descriptors, stopped_with_many_segments
from tests.property.log.compaction_tools import (
    COMPACTED,
    Replicas,
    append_overwriting,
    cleaner_for,
    last_values,
    records_of,
)
from tests.property.log.log_tools import TP, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("L2")


class _IdleRunner:
    """Takes jobs and does none."""

    def __init__(self) -> None:
        self.jobs: list[CleaningJob] = []

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        self.jobs.append(job)
        return lambda: None


class _LateRunner:
    """Cleans at once; what it has to say waits in `said`."""

    def __init__(self, said: list[Callable[[], None]]) -> None:
        self.groups: list[tuple[int, ...]] = []
        self._said = said

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        def hear(event: Event) -> None:
            if isinstance(event, CleanedGroup):
                self.groups.append(event.bases)
            self._said.append(partial(on_event, event))

        perform(LogCleaning(job, unlimited()), hear)
        return lambda: None


def test_cleaner_that_looks_up_how_old_segments_are_leaves_none_open(path: str) -> None:
    stopped_with_many_segments(path)
    clock = Turns()
    store = open_store(path, clock, MANY | {"cleanup.policy": "compact", "max.compaction.lag.ms": "1000"})
    runner = _IdleRunner()
    cleaner = LogCleaner(store, Replicas(store.logs), runner, CleanerSettings(), lambda: clock.now)
    before = open_descriptors()
    cleaner.check()
    assert [len(job.bases) for job in runner.jobs] == [len(store.logs()[TP].segment_base_offsets) - 1]
    assert open_descriptors() == before
    kill(store)


@pytest.mark.parametrize("steps", range(4))
def test_reads_go_on_at_every_step_of_a_swap_with_next_to_nothing_open(path: str, steps: int) -> None:
    clock = Turns(bound=0, patient=True)
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    append_overwriting(log, 60, of_an_epoch=25)
    clock.work()
    expected = last_values(records_of(log))
    bench = cleaner_for(store, clock)
    clock.next_turn(store)
    before = open_descriptors()
    bench.cleaner.check()
    for _ in range(steps):
        clock.work(1)
        clock.next_turn(store)
        assert last_values(records_of(log)) == expected
        clock.next_turn(store)
    log.truncate_to(log.staged_end_offset - 1)
    assert records_of(log)
    clock.work()
    clock.advance(20)
    clock.next_turn(store)
    assert store.offline_dirs == []
    assert open_descriptors() == before, "taken back or finished, what is left of the old segments may be closed again"
    kill(store)


def test_swap_that_meets_damage_gives_its_log_up_and_holds_no_segment_open(path: str) -> None:
    clock = Turns(bound=0)
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    append_overwriting(log, 60)
    store.update_config(TP.topic, {"segment.bytes": "3000"})
    clock.next_turn(store)
    said: list[Callable[[], None]] = []
    told: list[CorruptLog] = []
    runner = _LateRunner(said)
    cleaner = LogCleaner(store, Replicas(store.logs), runner, CleanerSettings(), lambda: 1e6, told.append)
    before = open_descriptors()
    cleaner.check()
    group = runner.groups[0]
    assert len(group) > 2
    # Of the segments that the first group replaces one in the middle goes bad, behind the child's back.
    damaged = f"{path}/{TP}/{group[1]:020d}"
    os.unlink(f"{damaged}.index")
    with open(f"{damaged}.log", "r+b") as file:
        file.seek(70)
        byte = file.read(1)
        file.seek(70)
        file.write(bytes([byte[0] ^ 1]))
    for each in said:
        each()
    clock.next_turn(store)
    assert open_descriptors() == before
    assert [damage.where for damage in told] == [f"{damaged}.log"]
    assert cleaner.uncleanable.keys() == {TP}
    assert cleaner._running == {}
    cleaner.check()
    assert cleaner._running == {}
    assert not [name for name in os.listdir(log.path) if name.endswith((".cleaned", ".swap"))]
    kill(store)
