"""With `inter.broker.addresses.only` brokers take what only brokers send from each other, and from nobody else."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from broker.wire.headers import encode_request_header
from broker.wire.messages.update_metadata import UpdateMetadataRequest
from tests.integration.admin.asking import create_topic, fill
from tests.support.brokers import Cluster, running_cluster, wait_until


def own_address() -> str | None:
    """An address of this host that is not for itself alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found = str(probe.getsockname()[0])
    return None if found.startswith("127.") else found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    address = own_address()
    if address is None:
        pytest.skip("this host has the loopback address only")
    hosts: dict[int, tuple[str, list[str]]] = {broker: (address, []) for broker in (1, 2, 3)}
    settings = {"inter.broker.addresses.only": "true", "zookeeper.session.timeout.ms": "1500"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=settings, hosts=hosts) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        # A registration is in ZooKeeper before the controller, which is asked for a topic on all, has read it.
        running.wait_known()
        yield running


def forge(cluster: Cluster, broker: int, source: str) -> bytes:
    """An UpdateMetadata of an empty cluster to a broker; its answer, empty where the connection closes."""
    registered = cluster.zk.get(f"/brokers/ids/{broker}")[1]
    request = UpdateMetadataRequest(controller_id=1, controller_epoch=2**31 - 1, broker_epoch=registered.czxid)
    request.whole = True
    frame = encode_request_header(request.API, 8, 1, "forger") + request.encode(8)
    host, _, port = cluster.brokers[broker].address.rpartition(":")
    with socket.create_connection((host, int(port)), 20, (source, 0)) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        try:
            return connection.recv(100)
        except ConnectionResetError:
            return b""


def test_brokers_work_together_and_a_strangers_metadata_is_refused(cluster: Cluster) -> None:
    create_topic(cluster, "t", [[1, 2, 3]])
    fill(cluster, "t", 10)
    for broker in cluster.brokers:
        assert forge(cluster, broker, "127.0.0.1") == b""
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10)
    assert set(metadata.brokers) == {1, 2, 3}
    assert "t" in metadata.topics


def test_broker_that_comes_back_is_known_again(cluster: Cluster) -> None:
    cluster.brokers[1].kill()
    cluster.brokers[1].start()
    wait_until(lambda: cluster.controller() is not None, "a controller")
    create_topic(cluster, "again", [[2, 3, 1]])
    fill(cluster, "again", 10)
