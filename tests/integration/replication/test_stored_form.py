"""LogAppendTime and a topic's own codec over real files: equal bytes, and all that goes by a record's time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.model.ids import TopicPartition
from broker.wire.compression import Compression
from broker.wire.record_batch import BatchHeader, iter_batches
from broker.wire.records import NewRecord, encode_batch
from tests.support.disk_cluster import DiskCluster
from tests.support.memory_cluster import produced
from tests.support.memory_node import TOPIC

pytestmark = pytest.mark.guarantee("L4")

MAX_TIMESTAMP = -3
FAR_AHEAD_MS = 10**15
START_MS = 1_700_000_000_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DiskCluster]:
    cluster = DiskCluster(tmp_path)
    cluster.topic_config["message.timestamp.type"] = "LogAppendTime"
    cluster.wall_ms = START_MS
    yield cluster
    cluster.close()


def configure(cluster: DiskCluster, **topic: str) -> None:
    cluster.topic_config.update({name.replace("_", "."): value for name, value in topic.items()})
    for i in cluster.ids:
        cluster.nodes[i].up.hosting.on_topic_config(TOPIC)
    cluster.settle()


def send(cluster: DiskCluster, count: int = 3, codec: Compression = Compression.NONE, timestamp: int = 5) -> None:
    records = [NewRecord(b"key-%d" % n, b"value-%d" % n * 20) for n in range(count)]
    batch = encode_batch(records, timestamps=timestamp, compression=codec)
    slot = cluster.produce_raw(1, memoryview(bytearray(batch)))
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert (result.error, result.log_append_time) == (0, cluster.wall_ms)


def files(cluster: DiskCluster, i: int, suffix: str = ".log") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(cluster.folder_of(i).glob(f"*{suffix}"))}


def headers(cluster: DiskCluster, i: int) -> list[BatchHeader]:
    return [
        header for data in files(cluster, i).values() for _, header in iter_batches(memoryview(data), verify_crc=True)
    ]


@pytest.mark.parametrize("target", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_rewritten_batches_are_byte_for_byte_the_same_on_all_replicas(cluster: DiskCluster, target: str) -> None:
    configure(cluster, compression_type=target)
    for n in range(15):
        cluster.wall_ms += 1000
        send(cluster, 1 + n % 4, list(Compression)[n % 5])
    cluster.advance(1000)
    assert files(cluster, 1) == files(cluster, 2) == files(cluster, 3)
    written = headers(cluster, 1)
    assert [header.max_timestamp for header in written] == [START_MS + 1000 * (n + 1) for n in range(15)]
    assert len(written) == 15
    if target != "producer":
        codec = Compression.NONE if target == "uncompressed" else Compression[target.upper()]
        assert {header.compression for header in written} == {codec}
        assert cluster.values(1) == cluster.values(3) != []


def test_offsets_are_found_by_the_leaders_time_also_after_a_restart_and_on_a_new_leader(cluster: DiskCluster) -> None:
    configure(cluster)
    for timestamp in (FAR_AHEAD_MS, 5, -1, 7):
        cluster.wall_ms += 1000
        send(cluster, timestamp=timestamp)

    def found(leader: int, timestamp: int) -> tuple[int, int]:
        answer = cluster.list_offsets(leader, timestamp, epoch=-1)
        assert answer.error_code == 0
        return answer.timestamp, answer.offset

    def check(leader: int) -> None:
        assert found(leader, 0) == found(leader, START_MS + 1000) == (START_MS + 1000, 0)
        assert found(leader, START_MS + 1001) == found(leader, START_MS + 2000) == (START_MS + 2000, 3)
        assert found(leader, MAX_TIMESTAMP) == (START_MS + 4000, 9)
        assert found(leader, START_MS + 4001) == (-1, -1)

    cluster.advance(1000)
    check(1)
    cluster.elect(2)
    cluster.settle()
    cluster.advance(1000)
    check(2)
    cluster.kill(2)
    cluster.expire(2)
    cluster.start(2)
    cluster.settle()
    cluster.advance(1000)
    cluster.elect(2)
    cluster.settle()
    cluster.advance(1000)
    check(2)


def test_segments_end_and_expire_by_the_leaders_time_not_the_producers(cluster: DiskCluster) -> None:
    configure(cluster, segment_ms="1000", retention_ms="5000")
    for _ in range(3):
        send(cluster, timestamp=FAR_AHEAD_MS)
        cluster.wall_ms += 600
    assert len(files(cluster, 1)) == len(files(cluster, 2)) == 2, "the third batch is 1200 ms after the first"
    topic_partition = TopicPartition(TOPIC, 0)
    store = cluster.nodes[1].store

    def expire(at_ms: int) -> int:
        return store.delete_old_segments(at_ms, {topic_partition: 9})  # type: ignore[attr-defined,no-any-return]

    newest_of_first = START_MS + 600
    assert expire(newest_of_first + 5000) == 0
    assert expire(newest_of_first + 5001) == 1
    assert cluster.nodes[1].log.log_start_offset == 6
