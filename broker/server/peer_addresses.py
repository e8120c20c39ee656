"""The addresses of all registered brokers, read from ZooKeeper and resolved on a thread that lives for one reading: a
name server may take its time, and readings are rare.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Collection, Iterable
from functools import partial

from broker.core.controller.cluster_state import StoreUnavailable
from broker.server.workers import WorkerLoop

_log = logging.getLogger("broker")


class PeerAddresses:
    """Satisfies `inter_broker.ReadAddresses` by `read`."""

    def __init__(self, loop: WorkerLoop, hosts: Callable[[], Iterable[str]]) -> None:
        """hosts: names or addresses of registered brokers; blocking, raises StoreUnavailable."""
        self._loop = loop
        self._hosts = hosts

    def read(self, then: Callable[[Collection[str] | None], None]) -> None:
        """then(addresses) on the loop, None where ZooKeeper does not respond, or no thread is to be had."""
        try:
            threading.Thread(target=self._run, args=(then,), name="broker-addresses", daemon=True).start()
        except RuntimeError as error:
            _log.warning("the addresses of brokers cannot be read: %s", error)
            self._loop.call_soon_threadsafe(partial(then, None))

    def _run(self, then: Callable[[Collection[str] | None], None]) -> None:
        found: set[str] | None = None
        try:
            found = {address for host in self._hosts() for address in _addresses(host)}
        except StoreUnavailable as unavailable:
            _log.warning("the addresses of brokers cannot be read: %s", unavailable)
        except Exception:
            _log.exception("the addresses of brokers cannot be read")
        self._loop.call_soon_threadsafe(partial(then, found))


def _addresses(host: str) -> set[str]:
    try:
        return {str(row[4][0]) for row in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, ValueError) as error:  # ValueError: of what can be no name, such as a..b
        _log.warning("the broker's address %s cannot be resolved: %s", host, error)
        return set()
