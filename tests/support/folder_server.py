"""A ZooKeeper server that the tests of a folder share, each under a chroot of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.zookeeper import ZooKeeperServer, start_zookeeper


class FolderServer:
    """One server for the tests of a folder: it starts with the first that asks, and ends with the folder's last test.

    A folder's conftest has the fixture that asks, and pytest_runtest_teardown, which calls `end_before`.
    """

    def __init__(self) -> None:
        self._running: ZooKeeperServer | None = None

    def running(self, folder: Path) -> ZooKeeperServer:
        """folder: where the server's data shall be, if it does not run yet."""
        if self._running is None:
            self._running = start_zookeeper(folder)
        return self._running

    def end_before(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """After a test: stop the server unless the following one is of the same folder."""
        if self._running is not None and (following is None or following.path.parent != item.path.parent):
            self._running.stop()
            self._running = None
