"""One ZooKeeper for the whole folder; every test gets a chroot of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from broker.zk.client import ZkClient
from tests.support.folder_server import FolderServer
from tests.support.zookeeper import ZooKeeperServer

_numbers = itertools.count()
_server = FolderServer()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    _server.end_before(item, nextitem)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> ZooKeeperServer:
    return _server.running(tmp_path_factory.mktemp("zookeeper"))


@pytest.fixture
def hosts(server: ZooKeeperServer) -> str:
    return f"{server.connect}/test-{next(_numbers)}"


@pytest.fixture
def connect(hosts: str) -> Iterator[Callable[[], ZkClient]]:
    """Open clients; they are closed after the test."""
    opened: list[ZkClient] = []

    def open_client(session_timeout_ms: int = 20_000) -> ZkClient:
        """With a session that outlives whatever holds the test up, unless told."""
        client = ZkClient(hosts, session_timeout_ms, 10_000)
        opened.append(client)
        client.start()
        return client

    yield open_client
    for client in opened:
        client.close()
