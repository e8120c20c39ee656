"""Descriptors of older segments: lookups and retention take none for good, reads a bounded number."""

from __future__ import annotations

import errno
import glob
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from broker.config.settings import Settings
from broker.log.cleaner.cleaner import CleanedGroup, CleaningJob, LogCleaning
from broker.log.cleaner.process import Event, OnEvent, Stop, perform
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.cleaner.throttle import unlimited
from broker.log.environment import Done, Environment, Job, run_inline
from broker.log.files.open_segments import OpenSegments
from broker.log.log import PartitionLog
from broker.log.log_manager import DiskLogStore
from broker.model.log_errors import CorruptLog, NoDescriptorFree, ProducersUnread
from broker.net.loop import EpollLoop
from broker.runtime.replicas.replica import Replica
from broker.server.data_plane import DataPlane
from broker.wire.chunks import FileSlice
from tests.property.log.compaction_tools import (
    COMPACTED,
    Replicas,
    append_overwriting,
    cleaner_for,
    keyed,
    last_values,
    records_of,
)
from tests.property.log.log_tools import (
    TINY,
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
from tests.support.descriptors import descriptors_left

pytestmark = pytest.mark.guarantee("L2")

MANY = TINY | {"segment.bytes": "300"}
BOUND = 4


@dataclass
class Turns(Clock):
    """Turns that pass when told, few segments that may stay open over one, background jobs that wait for `work`."""

    turn: int = 1
    bound: int = BOUND
    patient: bool = False
    waiting: list[tuple[Job, Done]] = field(default_factory=list)

    def environment(self) -> Environment:
        return Environment(
            lambda: self.now,
            self._schedule,
            lambda job, done: self.waiting.append((job, done)) if self.patient else run_inline(job, done),
            open_segments=OpenSegments(self.bound, lambda: self.turn),
        )

    def next_turn(self, store: DiskLogStore) -> None:
        self.turn += 1
        store.close_unread()

    def work(self, steps: int = 1 << 30) -> None:
        for _ in range(min(steps, len(self.waiting))):
            run_inline(*self.waiting.pop(0))


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


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _stopped_with_many_segments(path: str) -> None:
    store = open_store(path, Clock(), MANY)
    append_values(store, range(450))
    assert len(open_log(store).segment_base_offsets) > 200
    store.close(clean=True)


def _restarted_with_many_segments(path: str, clock: Clock) -> tuple[DiskLogStore, PartitionLog]:
    _stopped_with_many_segments(path)
    store = open_store(path, clock, MANY)
    return store, store.logs()[TP]


def test_lookups_by_time_after_a_restart_open_the_segment_that_holds_the_result_alone(path: str) -> None:
    store, log = _restarted_with_many_segments(path, Clock())
    before = _descriptors()
    assert log.newest_timestamp() == 1449
    assert log.offset_for_timestamp(1449, 450) == (1449, 449, 0)
    assert log.offset_for_timestamp(1450, 450) is None
    assert _descriptors() == before
    assert log.offset_for_timestamp(1300, 450) == (1300, 300, 0)
    assert _descriptors() == before
    kill(store)


@pytest.mark.parametrize("harm", ["gone", "empty", "torn", "falling"])
def test_lookup_by_time_looks_into_a_segment_whose_time_index_cannot_be_right(path: str, harm: str) -> None:
    _stopped_with_many_segments(path)
    name = f"{path}/{TP}/{300:020d}.timeindex"
    assert os.path.getsize(name) > 0
    if harm == "gone":
        os.unlink(name)
    else:
        with open(name, "r+b") as file:
            entry = file.read(12)
            file.truncate(0)
            file.seek(0)
            file.write({"empty": b"", "torn": entry[:7], "falling": entry + bytes(12)}[harm])
    store = open_store(path, Clock(), MANY)
    log = store.logs()[TP]
    assert log.offset_for_timestamp(1300, 450) == (1300, 300, 0)
    kill(store)


def test_retention_after_a_restart_leaves_nothing_open(path: str) -> None:
    _stopped_with_many_segments(path)
    store = open_store(path, Clock(), MANY | {"retention.ms": "1000", "file.delete.delay.ms": "60000"})
    log = store.logs()[TP]
    before = _descriptors()
    assert log.delete_old_segments(2300.0, 450) > 100
    assert log.log_start_offset == 300
    assert _descriptors() == before
    kill(store)


def test_retention_keeps_what_the_batches_behind_a_torn_time_index_are_too_young_for(path: str) -> None:
    store = open_store(path, Clock(), TINY | {"index.interval.bytes": "1"})
    append_values(store, range(40))
    second = open_log(store).segment_base_offsets[1]
    store.close(clean=True)
    # Its last entries are gone from both indexes: what is left says that all of it is older.
    for suffix, entry in ((".timeindex", 12), (".index", 8)):
        os.truncate(f"{path}/{TP}/{0:020d}{suffix}", entry)
    store = open_store(path, Clock(), TINY | {"retention.ms": "1000"})
    log = store.logs()[TP]
    assert log.delete_old_segments(2000.0 + second - 1, 40) == 0
    assert log.delete_old_segments(2000.0 + second, 40) == 1
    kill(store)


def test_reads_over_all_segments_keep_a_bounded_number_open(path: str) -> None:
    clock = Turns()
    store, log = _restarted_with_many_segments(path, clock)
    before = _descriptors()
    for _ in range(2):
        for value in range(450):
            assert batch(value, 1, 1000 + value)[61:].tobytes() in fetch(log, value, 1)
            assert _descriptors() <= before + BOUND + 1
            clock.turn += 1
    kill(store)


@pytest.mark.parametrize("turns", [0, 1], ids=["one turn", "a turn each"])
def test_lookups_by_time_over_all_segments_leave_none_open(path: str, turns: int) -> None:
    clock = Turns()
    store, log = _restarted_with_many_segments(path, clock)
    before = _descriptors()
    for value in range(0, 400, 4):
        assert log.offset_for_timestamp(1000 + value, 450) == (1000 + value, value, 0)
        assert _descriptors() <= before + BOUND + 1
        clock.turn += turns
    assert _descriptors() == before
    kill(store)


def test_lookup_by_time_closes_nothing_that_a_read_of_the_same_turn_needs(path: str) -> None:
    store, log = _restarted_with_many_segments(path, Turns())
    chunk = log.read(200, 1, 450, True)
    assert isinstance(chunk, FileSlice)
    assert log.offset_for_timestamp(1200, 450) == (1200, 200, 0)
    assert os.pread(chunk.fd, chunk.length, chunk.position) == fetch(log, 200, 1)
    kill(store)


def test_cleaner_that_looks_up_how_old_segments_are_leaves_none_open(path: str) -> None:
    _stopped_with_many_segments(path)
    clock = Turns()
    store = open_store(path, clock, MANY | {"cleanup.policy": "compact", "max.compaction.lag.ms": "1000"})
    runner = _IdleRunner()
    cleaner = LogCleaner(store, Replicas(store.logs), runner, CleanerSettings(), lambda: clock.now)
    before = _descriptors()
    cleaner.check()
    assert [len(job.bases) for job in runner.jobs] == [len(store.logs()[TP].segment_base_offsets) - 1]
    assert _descriptors() == before
    kill(store)


def test_segments_that_roll_turn_by_turn_close_without_being_notified(path: str) -> None:
    clock = Turns()
    store = open_store(path, clock, MANY)
    open_log(store)
    before = _descriptors()
    for value in range(200):
        append_values(store, range(value, value + 1))
        clock.turn += 1
        assert _descriptors() <= before + BOUND + 1
    kill(store)


def test_flush_of_segments_that_were_closed_leaves_none_open(path: str) -> None:
    patient = Turns(patient=True)
    store = open_store(path, patient, MANY)
    append_values(store, range(60))
    kill(store)
    for job, _ in patient.waiting:
        job()  # too late for the log, and it gives its descriptors back
    clock = Turns(bound=0)
    store = open_store(path, clock, MANY)
    log = store.logs()[TP]
    clock.next_turn(store)
    before = _descriptors()
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 60
    assert _descriptors() == before
    kill(store)


def test_slices_of_one_turn_are_good_to_its_end_however_many_segments_they_are_of(path: str) -> None:
    clock = Turns()
    store, log = _restarted_with_many_segments(path, clock)
    before = _descriptors()
    slices = [log.read(base, 1 << 20, 450, True) for base in log.segment_base_offsets[:100]]
    store.close_unread()
    content = b""
    for chunk in slices:
        assert isinstance(chunk, FileSlice)
        content += os.pread(chunk.fd, chunk.length, chunk.position)
    clock.next_turn(store)
    assert _descriptors() <= before + BOUND
    assert content == b"".join(read_all(log))[: len(content)]
    kill(store)


def test_segments_that_were_rolled_do_not_stay_open_and_are_flushed_all_the_same(path: str) -> None:
    clock = Turns()
    store = open_store(path, clock, MANY)
    log = open_log(store)
    before = _descriptors()
    for value in range(200):
        append_values(store, range(value, value + 1))
        clock.next_turn(store)
    assert len(log.segment_base_offsets) > 90
    assert _descriptors() <= before + BOUND
    log.flush()
    assert len(read_all(log)) == 200
    store.close(clean=True)
    store = open_store(path, Clock(), MANY)
    assert [report.reason for report in store.reports] == [""]
    assert store.logs()[TP].offset_for_timestamp(1100, 200) == (1100, 100, 0)
    kill(store)


def test_segment_that_a_cut_makes_active_stays_open(path: str) -> None:
    clock = Turns(bound=0)
    store = open_store(path, clock, TINY)
    append_values(store, range(40))
    log = open_log(store)
    third = log.segment_base_offsets[2]
    fetch(log, third, 1)
    log.truncate_to(third + 1)
    clock.next_turn(store)
    append_values(store, range(third + 1, third + 10))
    clock.next_turn(store)
    append_values(store, range(third + 10, third + 11))
    assert len(read_all(log)) == third + 11
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
    before = _descriptors()
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
    assert _descriptors() == before, "taken back or finished, what is left of the old segments may be closed again"
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
    before = _descriptors()
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
    assert _descriptors() == before
    assert [damage.where for damage in told] == [f"{damaged}.log"]
    assert cleaner.uncleanable.keys() == {TP}
    assert cleaner._running == {}
    cleaner.check()
    assert cleaner._running == {}
    assert not [name for name in os.listdir(log.path) if name.endswith((".cleaned", ".swap"))]
    kill(store)


def test_closed_segment_that_is_not_trusted_any_more_is_checked_when_it_opens_again(path: str) -> None:
    clock = Turns(bound=0)
    store = open_store(path, clock, TINY)
    append_values(store, range(40))
    log = open_log(store)
    assert log.segment_base_offsets[1] > 1
    fetch(log, 0, 1)
    clock.next_turn(store)
    with open(f"{path}/{TP}/{0:020d}.log", "r+b") as file:
        file.seek(70)
        byte = file.read(1)
        file.seek(70)
        file.write(bytes([byte[0] ^ 1]))
    fetch(log, 0, 1)
    clock.next_turn(store)
    log.forget_checked()
    with pytest.raises(CorruptLog):
        fetch(log, 0, 1)
    kill(store)


def test_read_without_a_free_descriptor_closes_older_segments(path: str) -> None:
    clock = Turns(bound=1000)
    store, log = _restarted_with_many_segments(path, clock)
    with descriptors_left(20):
        for value in range(450):
            assert fetch(log, value, 1)
            clock.turn += 1
        assert log.offset_for_timestamp(1200, 450) == (1200, 200, 0)
    assert store.offline_dirs == []
    kill(store)


def test_read_for_which_no_descriptor_can_be_freed_costs_that_read_alone(path: str) -> None:
    clock = Turns()
    store, log = _restarted_with_many_segments(path, clock)
    with descriptors_left(1):
        with pytest.raises(NoDescriptorFree) as caught:
            fetch(log, 200, 1)
        assert caught.value.errno == errno.EMFILE
        with pytest.raises(NoDescriptorFree):
            log.offset_for_timestamp(1200, 450)
    with descriptors_left(0):
        with pytest.raises(NoDescriptorFree):
            log.newest_timestamp()
        assert store.delete_old_segments(1e15, {TP: 450}) == 0
    assert store.offline_dirs == []
    assert fetch(log, 200, 1)
    assert log.offset_for_timestamp(1200, 450) == (1200, 200, 0)
    kill(store)


def test_read_that_lacks_a_descriptor_does_not_close_what_it_reads(path: str) -> None:
    """An open segment's index is opened for a search that what it said last cannot answer."""
    dense = TINY | {"segment.bytes": "300000", "index.interval.bytes": "0", "segment.index.bytes": "1000000"}
    store = open_store(path, Turns(), dense)
    append_values(store, range(6000))
    store.close(clean=True)
    clock = Turns(bound=1000)
    store = open_store(path, clock, dense)
    log = store.logs()[TP]
    second = log.segment_base_offsets[1]
    assert second > 2500
    assert fetch(log, 0, 1)
    clock.turn += 1
    with descriptors_left(0):
        with pytest.raises(NoDescriptorFree):
            fetch(log, 2000, 1)
        with pytest.raises(NoDescriptorFree):
            log.offset_for_timestamp(2200, 6000)
    assert store.offline_dirs == []
    assert fetch(log, second, 1)
    clock.turn += 1
    with descriptors_left(0):
        assert fetch(log, 2000, 1)
        assert log.offset_for_timestamp(1500, 6000) == (1500, 500, 0)
    assert store.offline_dirs == []
    kill(store)


def test_bytes_that_are_read_for_no_response_leave_no_segment_open(path: str) -> None:
    store, log = _restarted_with_many_segments(path, Turns())
    before = _descriptors()
    for value in range(450):
        data = log.read_bytes(value, 1, 450, True)
        assert data[61:] == batch(value, 1, 1000 + value)[61:]
        assert _descriptors() == before
    chunk = log.read(200, 1, 450, True)
    assert isinstance(chunk, FileSlice)
    assert log.read_bytes(200, 1, 450, True) == os.pread(chunk.fd, chunk.length, chunk.position)
    assert log.read_bytes(449, 1, 450, True) == fetch(log, 449, 1)
    assert bytes(log.read_bytes(450, 1, 450, True)) == b""
    kill(store)


def _stopped_with_producers(path: str) -> None:
    """A producer's batches in more than 200 segments, and no snapshot."""
    store = open_store(path, Clock(), MANY)
    log = open_log(store)
    for sequence in range(450):
        log.append_as_leader(keyed([(None, bytes(40))], producer_id=7, producer_epoch=0, base_sequence=sequence), 0)
    log.write()
    assert len(log.segment_base_offsets) > 200
    store.close(clean=True)
    assert not glob.glob(f"{path}/{TP}/*.snapshot")


def _last_sequence(replica: Replica) -> int:
    [(_, entry)] = replica.log.producers
    return entry.batches[-1].last_sequence


def test_producers_of_a_long_log_without_snapshots_are_read_with_few_descriptors(path: str) -> None:
    """As at a start, which is one turn."""
    _stopped_with_producers(path)
    store = open_store(path, Turns(), MANY)
    replica = Replica(1, store.logs()[TP], 0)
    before = _descriptors()
    with descriptors_left(5):
        replica.log.restore_producers()
    assert _last_sequence(replica) == 449
    assert _descriptors() == before
    kill(store)


@pytest.mark.parametrize("left", [0, 1])
def test_producers_that_no_descriptor_is_free_to_read_cost_no_log_dir(path: str, left: int) -> None:
    _stopped_with_producers(path)
    store = open_store(path, Turns(), MANY)
    replica = Replica(1, store.logs()[TP], 0)
    with descriptors_left(left), pytest.raises(ProducersUnread):
        replica.log.restore_producers()
    assert store.offline_dirs == []
    replica.log.restore_producers()
    assert _last_sequence(replica) == 449
    kill(store)


def test_broker_keeps_half_of_what_connections_leave_to_files_for_old_segments(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stopped_with_many_segments(path)
    loop = EpollLoop()
    with monkeypatch.context() as patched:
        patched.setattr(resource, "getrlimit", lambda _: (800, 800))
        given = {"zookeeper.connect": "nowhere:2181", "broker.id": "1", "log.dirs": path}
        plane = DataPlane(Settings.parse(given), loop, {}, lambda failure: None, "cluster")
    before = _descriptors()
    most = 0
    for value in range(450):
        fetch(plane.store.logs()[TP], value, 1)
        loop.run_once(0)
        most = max(most, _descriptors() - before)
    # An eighth of 800 is theirs, half of that for older segments.
    assert most == 50
    plane.close(clean=False)
    loop.close()
