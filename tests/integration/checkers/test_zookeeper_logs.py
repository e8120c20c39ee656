"""What the checkers read of a real ZooKeeper's logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, RolledBackError

from checkers.evidence.zk_ensemble import merged
from checkers.evidence.zk_txnlog import read_log_folder
from tests.support.zookeeper import start_zookeeper

pytestmark = pytest.mark.guarantee("V2")


def test_multi_that_failed_has_changed_nothing(tmp_path: Path) -> None:
    """ZooKeeper logs the operations before the one at fault as if they had been done."""
    server = start_zookeeper(tmp_path)
    client = KazooClient(f"127.0.0.1:{server.port}")
    try:
        client.start()
        client.create("/a", b"0")
        failing = client.transaction()
        failing.set_data("/a", b"never")
        failing.create("/a", b"there already")
        assert [type(result) for result in failing.commit()] == [RolledBackError, NodeExistsError]
        done = client.transaction()
        done.set_data("/a", b"1")
        done.create("/b", b"2")
        done.commit()
    finally:
        client.stop()
        client.close()
        server.stop()
    (folder,) = tmp_path.rglob("version-2")
    found, problems = merged({"zk": read_log_folder(folder)})
    assert [(change.op, change.path, change.version, change.data) for _, change in found] == [
        ("create", "/a", 0, "0"),
        ("set", "/a", 1, "1"),
        ("create", "/b", 0, "2"),
    ]
    assert not problems
