"""Which node a process sends a coordinator's requests to: found by FindCoordinator, kept until an error says otherwise.

Decides the node. Must not know operations or the history. As with leaders (`router`), every process has its own, and
does not always ask again at once: requests to a coordinator that has been deposed are what the lab wants to see.
"""

from __future__ import annotations

import time
from random import Random
from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from harness.clients.connection import ClientError, Connection
from harness.clients.responses import decoded
from harness.clients.router import CONNECT_TIMEOUT_NS, KEEP_AFTER_ERROR, METADATA_TIMEOUT_NS, Router

FIND_COORDINATOR_VERSION = 3

GROUP, TRANSACTION = 0, 1
"""Kinds of keys that FindCoordinator takes."""

Key = tuple[int, str]
"""(GROUP or TRANSACTION, group or transactional id)."""


class Found(NamedTuple):
    """broker_id: -1 with an error."""

    error: str | None
    broker_id: int


def find_coordinator(connection: Connection, key_type: int, key: str, deadline_ns: int) -> Found:
    """Who coordinates a group (`GROUP`) or transactional id (`TRANSACTION`), as this node says.

    Has the brokers make the coordinators' topic where there is none.
    """
    version = FIND_COORDINATOR_VERSION
    body = FindCoordinatorRequest(key=key, key_type=key_type).encode(version)
    received = connection.exchange(ApiKey.FIND_COORDINATOR, version, body, deadline_ns)
    response = decoded(connection, received, lambda: FindCoordinatorResponse.decode(version, received.body))
    if response.error_code:
        return Found(error_name(response.error_code), -1)
    return Found(None, response.node_id)


class Coordinators:
    """Not thread-safe; belongs to one process, whose router's connections it uses."""

    def __init__(self, router: Router, rng: Random) -> None:
        self._router = router
        self._rng = rng
        self._known: dict[Key, int] = {}

    def of(self, key: Key) -> int | None:
        """Broker id, after a look-up where it is not known; None where no node names one."""
        if key not in self._known:
            found = self._find(key)
            if found is None:
                return None
            self._known[key] = found
        return self._known[key]

    def suspect(self, key: Key) -> None:
        """A response named another coordinator, or none came: mostly, look it up before the next request."""
        if self._rng.random() >= KEEP_AFTER_ERROR:
            self._known.pop(key, None)

    def _find(self, key: Key) -> int | None:
        order = sorted(self._router.cluster.addresses)
        self._rng.shuffle(order)
        deadline_ns = time.monotonic_ns() + 2 * METADATA_TIMEOUT_NS
        for broker_id in order:
            now_ns = time.monotonic_ns()
            if now_ns >= deadline_ns:
                break
            connection = self._router.connection(broker_id)
            try:
                connection.connect(min(deadline_ns, now_ns + CONNECT_TIMEOUT_NS))
                until_ns = min(deadline_ns, time.monotonic_ns() + METADATA_TIMEOUT_NS)
                found = find_coordinator(connection, *key, until_ns)
            except ClientError:
                continue
            if found.error is None and found.broker_id in self._router.cluster.addresses:
                return found.broker_id
        return None
