"""The replication runtime on the real log store: what the memory log cannot show (files, recovery, snapshots)."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.wire.errors import ErrorCode
from tests.support.disk_cluster import DiskCluster
from tests.support.flipped import flip
from tests.support.memory_cluster import fetched, produced, values_of
from tests.support.memory_node import TOPIC

pytestmark = pytest.mark.guarantee("R2", "R8", "L6")


def test_batches_over_many_segments_are_equal_on_all_brokers_and_readable(cluster: DiskCluster) -> None:
    values = [f"value-{n}" for n in range(200)]
    slots = [cluster.produce(1, value) for value in values]
    cluster.settle()
    assert all((result := produced(slot)) is not None and result.error == 0 for slot in slots)
    for i in cluster.ids:
        assert cluster.values(i) == values
    read: list[str] = []
    while len(read) < len(values):
        found = values_of(fetched(cluster.fetch(1, len(read), max_bytes=1000)))
        assert found
        read += found
    assert read == values


def test_fetch_that_ends_with_an_old_segment_does_not_wait_for_more_bytes(cluster: DiskCluster) -> None:
    for n in range(60):
        cluster.produce(1, f"value-{n}")
    cluster.settle()
    # A segment holds some 2,000 bytes: no single read gives a million.
    result = fetched(cluster.fetch(1, 0, max_wait_ms=60_000, min_bytes=1_000_000))
    assert values_of(result)[0] == "value-0"
    at_the_end = cluster.fetch(1, 59, max_wait_ms=60_000, min_bytes=1_000_000)
    assert fetched(at_the_end) is None


def test_returning_leader_cuts_its_tail_across_segments(cluster: DiskCluster) -> None:
    for n in range(20):
        cluster.produce(1, f"kept-{n}")
    cluster.settle()
    cluster.hold = lambda message: 1 in (message.source, message.target)
    for n in range(40):
        cluster.produce(1, f"lost-{n}", acks=1)
    cluster.kill(1)
    cluster.expire(1)
    cluster.hold = lambda message: False
    cluster.settle()
    for n in range(30):
        cluster.produce(2, f"new-{n}")
    cluster.advance(2000)
    cluster.start(1)
    cluster.advance(3000)
    assert cluster.values(1) == [f"kept-{n}" for n in range(20)] + [f"new-{n}" for n in range(30)]
    assert cluster.values(1) == cluster.values(2) == cluster.values(3)
    assert set(cluster.state.isr) == {1, 2, 3}


@pytest.mark.parametrize("clean", [True, False])
def test_producer_state_comes_back_after_a_restart(cluster: DiskCluster, clean: bool) -> None:
    for sequence in range(60):
        cluster.produce(1, f"v{sequence}", producer_id=5, producer_epoch=0, base_sequence=sequence)
    cluster.settle()
    for i in (2, 3, 1):
        if clean:
            cluster.stop(i)
        else:
            cluster.kill(i)
        cluster.expire(i)
    cluster.start(1)
    cluster.settle()
    assert cluster.state.leader == 1
    repeat = cluster.produce(1, "v59", producer_id=5, producer_epoch=0, base_sequence=59)
    result = produced(repeat)
    assert result is not None
    assert (result.error, result.base_offset) == (0, 59)
    gap = produced(cluster.produce(1, "x", producer_id=5, producer_epoch=0, base_sequence=99))
    assert gap is not None
    assert gap.error == 45


def test_watermark_checkpoint_is_read_back(cluster: DiskCluster) -> None:
    cluster.produce(1, "a")
    cluster.advance(6000)
    cluster.kill(3)
    cluster.start(3, tell=False)
    assert cluster.nodes[3].hw == 1


def _damage_old_segment(cluster: DiskCluster, i: int) -> Path:
    """A bit of the oldest segment flips while the broker is down, and what would let a start pass over it is gone."""
    folder = cluster.folder_of(i)
    for path in folder.glob("*.snapshot"):
        path.unlink()
    oldest = min(folder.glob("*.log"))
    flip(oldest, 100, 0xFF)
    return folder


def test_damaged_replica_outside_the_isr_is_restored_from_its_leader(cluster: DiskCluster) -> None:
    values = [f"value-{n}" for n in range(60)]
    for value in values:
        cluster.produce(1, value)
    cluster.settle()
    cluster.stop(3)
    cluster.expire(3)
    _damage_old_segment(cluster, 3)
    cluster.start(3)
    cluster.advance(3000)
    assert cluster.values(3) == values
    assert set(cluster.state.isr) == {1, 2, 3}


def test_damaged_replica_in_the_isr_keeps_its_log_and_never_leads(cluster: DiskCluster) -> None:
    for n in range(60):
        cluster.produce(1, f"value-{n}")
    cluster.settle()
    cluster.stop(3)
    folder = _damage_old_segment(cluster, 3)
    size = sum(path.stat().st_size for path in folder.glob("*.log"))
    cluster.start(3)
    cluster.elect(3)
    cluster.advance(3000)
    assert cluster.nodes[3].up.replicas.by_partition[(TOPIC, 0)].offline
    result = produced(cluster.produce(3, "x", acks=1))
    assert result is not None
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert sum(path.stat().st_size for path in folder.glob("*.log")) == size


@pytest.mark.parametrize("also", ["", "leader-epoch-checkpoint"])
def test_replica_without_its_oldest_segment_takes_nothing_from_the_others_when_it_leads(
    cluster: DiskCluster, also: str
) -> None:
    # Seed 506 of examples/runs/all-faults.toml: it was repaired to a log that began too late, came into the ISR, led,
    # and had its followers delete the 293 records that it lacked.
    values = [f"value-{n}" for n in range(60)]
    for value in values:
        cluster.produce(1, value)
    cluster.settle()
    cluster.stop(3)
    cluster.expire(3)
    folder = cluster.folder_of(3)
    min(folder.glob("*.log")).unlink()
    if also:
        (folder / also).unlink()
    cluster.start(3)
    cluster.advance(3000)
    assert set(cluster.state.isr) == {1, 2, 3}
    cluster.elect(3)
    cluster.advance(3000)
    assert cluster.values(1) == cluster.values(2) == cluster.values(3) == values


def test_damaged_replica_can_be_deleted(cluster: DiskCluster) -> None:
    for n in range(60):
        cluster.produce(1, f"value-{n}")
    cluster.settle()
    cluster.stop(3)
    folder = _damage_old_segment(cluster, 3)
    cluster.start(3)
    cluster.settle()
    answer = cluster.nodes[3].up.stop_replicas(cluster.stop_replica(3))
    assert [error.error_code for error in answer.partition_errors] == [0]
    assert not folder.exists()


def test_replica_that_gets_its_topic_id_later_is_found_by_it(cluster: DiskCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    cluster.stop(1)
    cluster.expire(1)
    (cluster.folder_of(1) / "partition.metadata").unlink()
    cluster.start(1)
    cluster.advance(3000)
    cluster.elect(1)
    cluster.advance(3000)
    cluster.produce(1, "b")
    cluster.advance(3000)
    assert set(cluster.state.isr) == {1, 2, 3}
    assert cluster.values(2) == ["a", "b"]
