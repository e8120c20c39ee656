"""What replicas on the real log store forget, by request or in time, while they stop, die and return."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.api import ApiKey
from broker.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.integration.replication.cleaned_cluster import compacted_cluster, consume, log_of, write
from tests.property.log.compaction_tools import keyed, records_of
from tests.support.disk_cluster import DiskCluster
from tests.support.memory_node import TOPIC

pytestmark = pytest.mark.guarantee("L3", "L6")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DiskCluster]:
    cluster = compacted_cluster(tmp_path)
    yield cluster
    cluster.close()


def test_deleted_records_stay_deleted_over_kills_and_new_leaders(cluster: DiskCluster) -> None:
    cluster.topic_config["cleanup.policy"] = "delete"
    for node in cluster.nodes.values():
        node.up.hosting.on_topic_config(TOPIC)
    write(cluster, 1, range(40))
    request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 77)])], 5000)
    slot = cluster.request(1, ApiKey.DELETE_RECORDS, 2, request.encode(2))
    cluster.settle()
    assert slot.response is not None
    cluster.advance(1100)
    cluster.kill(1)
    cluster.expire(1)
    cluster.settle()
    assert cluster.list_offsets(cluster.state.leader, -2).offset == 77
    cluster.start(1)
    cluster.settle()
    assert log_of(cluster, 1).log_start_offset == 77
    for i in (1, 2, 3):
        cluster.kill(i)
        cluster.expire(i)
    for i in (1, 2, 3):
        cluster.start(i)
    cluster.advance(3000)
    assert [log_of(cluster, i).log_start_offset for i in (1, 2, 3)] == [77, 77, 77]
    first = consume(cluster, cluster.state.leader)[0]
    assert first.offset == 77
    before = log_of(cluster, 1).segment_base_offsets
    log_of(cluster, 1).delete_old_segments(0, cluster.nodes[1].hw)
    assert before[0] < log_of(cluster, 1).segment_base_offsets[0] <= 77


def test_replica_that_ends_below_what_was_deleted_begins_anew_behind_it(cluster: DiskCluster) -> None:
    cluster.topic_config["cleanup.policy"] = "delete"
    for node in cluster.nodes.values():
        node.up.hosting.on_topic_config(TOPIC)
    write(cluster, 1, range(10))
    cluster.stop(3)
    cluster.expire(3)
    write(cluster, 1, range(10, 40))
    for node in (cluster.nodes[1], cluster.nodes[2]):
        node.up.on_live_brokers({1, 2})
    request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 77)])], 5000)
    slot = cluster.request(1, ApiKey.DELETE_RECORDS, 2, request.encode(2))
    cluster.settle()
    assert slot.response is not None
    log_of(cluster, 1).delete_old_segments(0, cluster.nodes[1].hw)
    for node in (cluster.nodes[1], cluster.nodes[2]):
        node.up.on_live_brokers({1, 2, 3})
    cluster.start(3)
    cluster.advance(5000)
    assert set(cluster.state.isr) == {1, 2, 3}
    log = log_of(cluster, 3)
    assert (log.log_start_offset, log.staged_end_offset) == (77, 120)
    assert [record.offset for record in records_of(log)] == list(range(77, 120))


@pytest.mark.parametrize(("away_ms", "known"), [(3_600_000, True), (90_000_000, False)])
def test_idle_producer_expires_also_while_its_broker_is_away(cluster: DiskCluster, away_ms: int, known: bool) -> None:
    cluster.produce_raw(1, keyed([(b"k", b"v")], 1, producer_id=5, producer_epoch=0, base_sequence=0))
    cluster.settle()
    cluster.stop(3)
    cluster.wall_ms += away_ms
    cluster.start(3, tell=False)
    producers = dict(cluster.nodes[3].up.replicas.by_partition[(TOPIC, 0)].log.producers)
    assert (5 in producers) is known
