"""A sector that went bad beneath bytes which were good when they were checked, and only consumers read it.

Source: KIP-112, an I/O error takes the log dir offline.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch
from tests.support.brokers import ROOT, Cluster, running_cluster, wait_until
from tests.support.raw_client import RawClient, batch_of, fetch_frame

pytestmark = pytest.mark.guarantee("L8")

BAD_SECTOR = ROOT / "tests" / "support" / "bad_sector.py"


@pytest.fixture
def sectors(tmp_path: Path) -> Path:
    return tmp_path / "sectors"


@pytest.fixture
def cluster(tmp_path: Path, sectors: Path) -> Iterator[Cluster]:
    """Two brokers with two log dirs each. Without event log, for which a leader reads headers."""
    dirs = {i: {"log.dirs": f"{tmp_path}/broker-{i}/a,{tmp_path}/broker-{i}/b"} for i in (1, 2)}
    command = [sys.executable, str(BAD_SECTOR), str(sectors)]
    with running_cluster(tmp_path, 2, {"lab.event.log": ""}, dirs, command) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


def make_topics(cluster: Cluster, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for name in names:
        admin.create_topics([NewTopic(name, 1, replica_assignment=[[1, 2]])])[name].result(20)
        cluster.wait_state(name, 0, leader=1, isr={1, 2})
        # The state is written before its leader hears of it, and has a log.
        cluster.wait_told(name)


def segment_of(cluster: Cluster, topic: str) -> Path:
    (found,) = cluster.brokers[1].folder.glob(f"[ab]/{topic}-0/{0:020d}.log")
    return found


def fetched(port: int, topic: str) -> int:
    """What a new connection is told of the topic. Raises EOFError where it is closed."""
    client = RawClient(port)
    try:
        client.send(fetch_frame(topic, 0, 1 << 20))
        (result,) = fetch.decode_response(12, memoryview(client.receive())[5:]).results
        return result.error
    finally:
        client.close()


@pytest.mark.parametrize("size", [200_000, 20_000], ids=["sendfile", "pread"])
def test_bad_sector_that_only_a_consumer_meets_takes_the_replica_offline_at_the_second_fetch(
    cluster: Cluster, sectors: Path, size: int
) -> None:
    make_topics(cluster, "bad", "good")
    bad, good = segment_of(cluster, "bad"), segment_of(cluster, "good")
    assert bad.parents[1] != good.parents[1], "in another log dir"
    port = cluster.brokers[1].port
    other = RawClient(port)
    for topic in ("bad", "good"):
        assert other.produce(topic, batch_of(size), -1).error == 0
    assert fetched(port, "bad") == ErrorCode.NONE
    sectors.write_text(f"{size // 2} {bad}\n")
    with pytest.raises((EOFError, ConnectionResetError)):
        fetched(port, "bad")
    assert "cannot be read" in cluster.brokers[1].output
    assert fetched(port, "bad") == ErrorCode.KAFKA_STORAGE_ERROR
    cluster.wait_state("bad", 0, leader=2, isr={2})
    # The election is written before the new leader hears of it.
    second = cluster.brokers[2].port
    wait_until(lambda: fetched(second, "bad") != ErrorCode.NOT_LEADER_OR_FOLLOWER, "broker 2 leads")
    assert fetched(second, "bad") == ErrorCode.NONE
    assert fetched(port, "good") == ErrorCode.NONE
    assert other.produce("good", batch_of(size), -1).error == 0
    other.close()
