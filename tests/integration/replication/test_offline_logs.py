"""What becomes of a replica whose files fail while it serves, on the real log store."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from broker.log.files.producer_snapshots import ProducerSnapshots
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey, response_header_version
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from broker.wire.record_batch import iter_batches
from broker.wire.records import NewRecord, encode_batch
from tests.support.descriptors import descriptors_left
from tests.support.disk_cluster import DiskCluster
from tests.support.flipped import flip
from tests.support.memory_cluster import fetched, produced, values_of
from tests.support.memory_node import TOPIC, FakeSlot

pytestmark = pytest.mark.guarantee("L6", "L8")

_MAGIC_AT = 16
"""Of a batch: base offset 8, length 4, leader epoch 4."""


def _offline(cluster: DiskCluster, i: int) -> bool:
    return cluster.nodes[i].up.replicas.by_partition[(TOPIC, 0)].offline


def _within_a_turn(cluster: DiskCluster, i: int, body: bytearray) -> FakeSlot:
    """A Produce request that is handled in a turn that goes on."""
    slot = FakeSlot()
    header = response_header_version(ApiKey.PRODUCE, 9) == 1
    cluster.dispatch(cluster.nodes[i], Request(ApiKey.PRODUCE, 9, 7, "client", memoryview(body), slot, header))
    return slot


def test_nothing_staged_is_written_once_the_log_is_found_damaged(cluster: DiskCluster) -> None:
    for n in range(60):
        cluster.produce(1, f"value-{n}")
    cluster.settle()
    cluster.stop(1)
    cluster.expire(1)
    folder = cluster.folder_of(1)
    oldest, *_, active = sorted(folder.glob("*.log"))
    flip(oldest, 100, 0xFF)
    cluster.start(1)
    cluster.elect(1)
    cluster.advance(2000)
    size, recovery_point = active.stat().st_size, cluster.nodes[1].log.recovery_point
    batch = encode_batch([NewRecord(None, b"staged")], timestamps=1)
    partition = produce.ProducePartition(TOPIC, 0, memoryview(bytearray(batch)))
    body = bytearray(produce.encode_request(9, produce.ProduceRequest(None, -1, 30000, [partition])))
    slot = _within_a_turn(cluster, 1, body)
    result = fetched(cluster.fetch(1, 0))
    assert result is not None
    assert result.error == 56
    assert _offline(cluster, 1)
    answer = produced(slot)
    assert answer is not None
    assert answer.error == 56
    # The buffer is another request's by the time the logs are closed.
    body[:] = bytes(len(body))
    cluster.stop(1)
    assert active.stat().st_size == size
    cluster.start(1)
    assert cluster.nodes[1].log.recovery_point == recovery_point


def _damage_before_the_recovery_point(cluster: DiskCluster, i: int, policy: str = "interval") -> None:
    """Broker i was killed and is up again, with the recovery point where its active segment begins; then the header of
    a batch in the segment before goes bad, behind that one's last index entry.
    """
    for n in range(60):
        cluster.produce(i, f"value-{n}")
    cluster.settle()
    cluster.nodes[i].store.checkpoint_recovery_points()
    cluster.kill(i)
    cluster.expire(i)
    cluster.start(i, tell=False)
    *_, before, active = sorted(cluster.folder_of(i).glob("*.log"))
    assert cluster.nodes[i].log.recovery_point == int(active.stem)
    *_, (position, _) = iter_batches(memoryview(before.read_bytes()), verify_crc=False)
    flip(before, position + _MAGIC_AT, 0xFF)
    cluster.topic_config["flush.policy"] = policy
    cluster.nodes[i].up.hosting.on_topic_config(TOPIC)
    cluster.tell(i)
    cluster.elect(i)
    cluster.settle()


@pytest.mark.parametrize("policy", ["interval", "group-commit"])
def test_damage_that_a_flush_finds_in_an_older_segment_costs_this_replica_alone(
    cluster: DiskCluster, policy: str
) -> None:
    """With group commit all that is not on disk is flushed at once, else the first roll begins a flush."""
    _damage_before_the_recovery_point(cluster, 1, policy)
    for n in range(40):
        slot = cluster.produce(1, f"more-{n}", acks=1)
        if _offline(cluster, 1):
            break
    answer = produced(slot)
    assert answer is not None
    assert answer.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].damaged
    cluster.give_way_and_come_back(1)
    assert cluster.values(1) == cluster.values(cluster.state.leader), "found again, and fetched anew"


def test_damage_that_a_flush_finds_by_its_time_costs_this_replica_alone(cluster: DiskCluster) -> None:
    """`flush.ms`: else the leader went on acknowledging what was never flushed again."""
    _damage_before_the_recovery_point(cluster, 1)
    cluster.topic_config["flush.ms"] = "1"
    node = cluster.nodes[1]
    node.up.hosting.on_topic_config(TOPIC)
    cluster.produce(1, "more", acks=1)
    cluster.advance(10)
    told: list[CorruptLog] = []
    cluster.store_of(1).flush_due(told.append)
    assert [damage.topic_partition for damage in told] == [TopicPartition(TOPIC, 0)]


def test_damage_that_the_last_flush_finds_costs_the_mark_of_a_clean_stop_for_its_log_alone(
    cluster: DiskCluster,
) -> None:
    _damage_before_the_recovery_point(cluster, 1)
    store = cluster.store_of(1)
    other = store.create(TopicPartition("zzz-closed-after-it", 0), "", {})
    cluster.stop(1)
    assert other._closed
    assert (cluster.dir_of(1) / ".kafka_cleanshutdown").exists()
    cluster.start(1)
    cluster.settle()
    assert list(cluster.store_of(1).offline_logs) == [TopicPartition(TOPIC, 0)]


def test_broker_without_a_free_descriptor_returns_a_retriable_error_to_reads_of_old_segments(
    cluster: DiskCluster,
) -> None:
    for n in range(60):
        cluster.produce(1, f"value-{n}")
    cluster.settle()
    cluster.stop(1)
    cluster.start(1)
    cluster.elect(1)
    cluster.settle()
    with descriptors_left(0):
        result = fetched(cluster.fetch(1, 0))
        assert result is not None
        assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
        for timestamp in (0, -3):
            assert cluster.list_offsets(1, timestamp).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not _offline(cluster, 1)
    result = fetched(cluster.fetch(1, 0))
    assert result is not None
    assert values_of(result)[0] == "value-0"
    assert cluster.list_offsets(1, 0).offset == 0


def test_snapshot_that_cannot_be_read_costs_its_log_dir_not_the_start(cluster: DiskCluster) -> None:
    for sequence in range(60):
        cluster.produce(1, f"v{sequence}", producer_id=5, producer_epoch=0, base_sequence=sequence)
    cluster.settle()
    cluster.stop(3)
    for path in cluster.folder_of(3).glob("*.snapshot"):
        path.unlink()
        path.mkdir()
    cluster.start(3)
    cluster.settle()
    assert _offline(cluster, 3)
    assert not _offline(cluster, 1)


def _told_to_delete(cluster: DiskCluster, i: int) -> ErrorCode:
    answer = cluster.nodes[i].up.stop_replicas(cluster.stop_replica(i))
    return ErrorCode(answer.partition_errors[0].error_code)


def test_replica_that_may_be_on_a_disk_that_is_away_is_not_reported_as_deleted(cluster: DiskCluster) -> None:
    cluster.produce(1, "value")
    cluster.settle()
    folder, away = cluster.dir_of(3), cluster.dir_of(3).with_name("away")
    cluster.stop(3)
    cluster.second_dirs[3] = "3-beside"
    folder.rename(away)
    # What stands in its place is no folder.
    folder.touch()
    cluster.start(3)
    cluster.settle()
    for _ in range(2):
        assert _told_to_delete(cluster, 3) is ErrorCode.KAFKA_STORAGE_ERROR
    cluster.stop(3)
    folder.unlink()
    away.rename(folder)
    cluster.start(3, tell=False)
    assert _told_to_delete(cluster, 3) is ErrorCode.NONE
    assert not cluster.folder_of(3).exists()


def test_replica_that_was_deleted_beside_a_disk_that_is_away_is_reported_again(cluster: DiskCluster) -> None:
    """The first answer may be lost."""
    cluster.stop(3)
    cluster.second_dirs[3] = "3-away"
    (cluster.dir_of(3).with_name("3-away")).touch()
    cluster.start(3, tell=False)
    for _ in range(2):
        assert _told_to_delete(cluster, 3) is ErrorCode.NONE
    assert not cluster.folder_of(3).exists()


def test_replica_that_is_in_two_dirs_is_fetched_anew_once_nothing_rests_on_it(cluster: DiskCluster) -> None:
    values = [f"value-{n}" for n in range(20)]
    for value in values[:10]:
        cluster.produce(1, value)
    cluster.settle()
    cluster.stop(3)
    cluster.second_dirs[3] = "3-beside"
    shutil.copytree(cluster.folder_of(3), cluster.dir_of(3).with_name("3-beside") / cluster.folder_of(3).name)
    cluster.start(3)
    cluster.settle()
    assert not cluster.nodes[3].up.replicas.by_partition, "it counts as in sync still"
    cluster.kill(3)
    cluster.expire(3)
    for value in values[10:]:
        cluster.produce(1, value)
    cluster.settle()
    cluster.start(3)
    cluster.settle()
    assert cluster.values(3) == values
    assert 3 in cluster.state.isr
    cluster.stop(3)
    cluster.start(3)
    assert cluster.values(3) == values


@pytest.mark.patches
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_replica_that_cannot_read_its_producers_after_a_cut_goes_offline(
    cluster: DiskCluster, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Without a free descriptor it goes alone. Either way its bytes may be right, and are kept."""

    def unreadable(self: ProducerSnapshots, at_most: int) -> None:
        raise OSError(number, os.strerror(number))

    producer = {"producer_id": 5, "producer_epoch": 0}
    for sequence in range(10):
        cluster.produce(1, f"v{sequence}", base_sequence=sequence, **producer)
    cluster.settle()
    cluster.hold = lambda message: 1 in (message.source, message.target)
    cluster.produce(1, "never committed", acks=1, base_sequence=10, **producer)
    cluster.settle()
    cluster.stop(1)
    cluster.expire(1)
    cluster.hold = lambda message: False
    cluster.settle()
    cluster.produce(2, "after", base_sequence=10, **producer)
    cluster.settle()
    cluster.start(1, tell=False)
    # All that it knows of the producer is the batch that goes now.
    with monkeypatch.context() as patch:
        patch.setattr(ProducerSnapshots, "latest", unreadable)
        cluster.tell(1)
        cluster.advance(3000)
    assert _offline(cluster, 1)
    assert 1 not in cluster.state.isr
    assert bool(cluster.store_of(1).offline_dirs) == (number == errno.EIO)
    assert not cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].damaged
    cluster.stop(1)
    cluster.start(1)
    cluster.advance(3000)
    assert 1 in cluster.state.isr
    assert cluster.values(1) == cluster.values(2)
