"""Reads, and starts, where few descriptors are free, or none."""

from __future__ import annotations

import errno
import glob
import resource

import pytest

from broker.config.settings import Settings
from broker.model.log_errors import NoDescriptorFree, ProducersUnread
from broker.net.loop import EpollLoop
from broker.runtime.replicas.replica import Replica
from broker.server.data_plane import DataPlane
from tests.integration.log.many_segments import (
    MANY,
    Turns,
    open_descriptors,
    restarted_with_many_segments,
    stopped_with_many_segments,
)
from tests.property.log.compaction_tools import keyed
from tests.property.log.log_tools import TINY, TP, Clock, append_values, fetch, kill, open_log, open_store
from tests.support.descriptors import descriptors_left

pytestmark = pytest.mark.guarantee("L2")


def test_read_without_a_free_descriptor_closes_older_segments(path: str) -> None:
    clock = Turns(bound=1000)
    store, log = restarted_with_many_segments(path, clock)
    with descriptors_left(20):
        for value in range(450):
            assert fetch(log, value, 1)
            clock.turn += 1
        assert log.offset_for_timestamp(1200, 450) == (1200, 200, 0)
    assert store.offline_dirs == []
    kill(store)


def test_read_for_which_no_descriptor_can_be_freed_costs_that_read_alone(path: str) -> None:
    clock = Turns()
    store, log = restarted_with_many_segments(path, clock)
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
    before = open_descriptors()
    with descriptors_left(5):
        replica.log.restore_producers()
    assert _last_sequence(replica) == 449
    assert open_descriptors() == before
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
    stopped_with_many_segments(path)
    loop = EpollLoop()
    with monkeypatch.context() as patched:
        patched.setattr(resource, "getrlimit", lambda _: (800, 800))
        given = {"zookeeper.connect": "nowhere:2181", "broker.id": "1", "log.dirs": path}
        plane = DataPlane(Settings.parse(given), loop, {}, lambda failure: None, "cluster")
    before = open_descriptors()
    most = 0
    for value in range(450):
        fetch(plane.store.logs()[TP], value, 1)
        loop.run_once(0)
        most = max(most, open_descriptors() - before)
    # An eighth of 800 is theirs, half of that for older segments.
    assert most == 50
    plane.close(clean=False)
    loop.close()
