"""Settings and the word that they changed stand in ZooKeeper together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.zk import codecs, paths
from broker.zk.admin_store import ZkAdminStore
from broker.zk.client import ZkClient
from broker.zk.registration import prepare

ENTITY = "brokers/<default>"


@pytest.fixture
def client(connect: Callable[[], ZkClient]) -> ZkClient:
    opened = connect()
    prepare(opened)
    return opened


def notified(client: ZkClient) -> list[int]:
    """Transactions of the notifications, in order."""
    nodes = []
    for name in sorted(client.children(paths.CONFIG_CHANGES) or []):
        node = client.get(f"{paths.CONFIG_CHANGES}/{name}")
        assert node is not None
        assert codecs.decode_config_change(node.data) == ENTITY
        nodes.append(node.czxid)
    return nodes


def test_change_and_its_notification_are_one_transaction(client: ZkClient) -> None:
    store = ZkAdminStore(client)
    for value in ("1", "2"):
        assert store.write_config(store.read_config(ENTITY), {"min.insync.replicas": value})
    first, second = notified(client)
    node = client.get(f"/config/{ENTITY}")
    assert node is not None
    assert (node.czxid, node.mzxid) == (first, second)


def test_change_that_is_refused_notifies_nobody(client: ZkClient) -> None:
    store = ZkAdminStore(client)
    read = store.read_config(ENTITY)
    assert store.write_config(read, {"min.insync.replicas": "1"})
    assert not store.write_config(read, {"min.insync.replicas": "2"})
    assert len(notified(client)) == 1


def test_notification_alone(client: ZkClient) -> None:
    store = ZkAdminStore(client)
    store.notify_config(ENTITY)
    assert len(notified(client)) == 1
