"""Addresses of registered brokers: one that has none, or can have none, hides no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from broker.server.peer_addresses import PeerAddresses


class Loop:
    """Runs at once what another thread hands it."""

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        callback()


def test_host_that_can_be_no_name_hides_no_other() -> None:
    found: list[Collection[str] | None] = []
    done = threading.Event()

    def then(addresses: Collection[str] | None) -> None:
        found.append(addresses)
        done.set()

    PeerAddresses(Loop(), lambda: ["a..b", "127.0.0.1", "x" * 80]).read(then)
    assert done.wait(10)
    assert found == [{"127.0.0.1"}]
