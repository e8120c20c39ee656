"""Which node a process sends requests to: its own cached metadata, refreshed as a client would, and sometimes not.

Decides the node and the leader epoch of a request. Must not know operations or the history. Every process has a
router of its own, so different processes may see different leaders. Not refreshing at once, and not always believing
the newest response, is on purpose: reads from a leader that has been deposed are what the lab wants to see.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from harness.clients.connection import Address, ClientError, Connection
from harness.clients.requests import ClusterState, metadata

METADATA_TIMEOUT_NS = 1_000_000_000
CONNECT_TIMEOUT_NS = 1_000_000_000

# How often a process stays with what it knew: after an error that says "not here", when a node names no leader, and
# when a node responds with an older epoch.
KEEP_AFTER_ERROR = 0.1
KEEP_WITHOUT_LEADER = 0.3
BELIEVE_OLDER = 0.2


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the brokers are: broker id → address as the harness reaches it, and node name."""

    topic: str
    addresses: Mapping[int, Address]
    names: Mapping[int, str]

    @classmethod
    def of(cls, topic: str, brokers: Sequence[tuple[str, str, int]]) -> Cluster:
        """brokers: (node, host, port) of each; broker id k is on node `nk`."""
        ids = {node: int(node.removeprefix("n")) for node, _, _ in brokers}
        addresses = {ids[node]: Address(host, port) for node, host, port in brokers}
        return cls(topic, addresses, {broker_id: node for node, broker_id in ids.items()})

    def broker_id(self, node: str) -> int:
        """Raises KeyError for a node that is no broker."""
        for broker_id, name in self.names.items():
            if name == node:
                return broker_id
        raise KeyError(node)


class Leader(NamedTuple):
    """Who leads a partition, and in which leader epoch, as some Metadata response said."""

    broker_id: int
    epoch: int


class Router:
    """Not thread-safe; belongs to one process."""

    def __init__(
        self, cluster: Cluster, client_id: str, rng: Random, known: Mapping[int, Leader] | None = None
    ) -> None:
        """known: leaders that the process before this one on the thread knew."""
        self.cluster = cluster
        self._client_id = client_id
        self._rng = rng
        self._leaders: dict[int, Leader] = dict(known or {})
        self._refresh_at_ns = 0 if not known else time.monotonic_ns() + self._age_ns()
        self._suspect = False
        self._connections: dict[int, Connection] = {}

    @property
    def leaders(self) -> Mapping[int, Leader]:
        """Partition → leader, as this process knows it now; may be out of date."""
        return self._leaders

    def leader(self, partition: int) -> Leader | None:
        """The leader of a partition, after looking up metadata when that is due; None when no node names a leader."""
        due = time.monotonic_ns() >= self._refresh_at_ns or partition not in self._leaders
        if self._suspect and self._rng.random() >= KEEP_AFTER_ERROR:
            due = True
        if due:
            self.refresh()
        return self._leaders.get(partition)

    def suspect(self) -> None:
        """A response named another leader, or none came: mostly, look up metadata before the next request."""
        self._suspect = True

    def refresh(self) -> ClusterState | None:
        """Send Metadata to the nodes in random order until one responds; None when none did.

        Takes at most the time-out for each of two.
        """
        order = sorted(self.cluster.addresses)
        self._rng.shuffle(order)
        deadline_ns = time.monotonic_ns() + 2 * METADATA_TIMEOUT_NS
        for broker_id in order:
            now_ns = time.monotonic_ns()
            if now_ns >= deadline_ns:
                break
            connection = self.connection(broker_id)
            try:
                connection.connect(min(deadline_ns, now_ns + CONNECT_TIMEOUT_NS))
                until_ns = min(deadline_ns, time.monotonic_ns() + METADATA_TIMEOUT_NS)
                state = metadata(connection, self.cluster.topic, until_ns)
            except ClientError:
                continue
            self._learn(state)
            return state
        return None

    def _learn(self, state: ClusterState) -> None:
        self._suspect = False
        self._refresh_at_ns = time.monotonic_ns() + self._age_ns()
        for partition, seen in state.partitions.items():
            known = self._leaders.get(partition)
            if seen.leader not in self.cluster.addresses:
                if known is not None and self._rng.random() >= KEEP_WITHOUT_LEADER:
                    del self._leaders[partition]
            elif known is None or seen.epoch >= known.epoch or self._rng.random() < BELIEVE_OLDER:
                self._leaders[partition] = Leader(seen.leader, seen.epoch)

    def _age_ns(self) -> int:
        """For how long metadata is believed, in ns: 2 to 8 s."""
        return int(self._rng.uniform(2.0, 8.0) * 1e9)

    def connection(self, broker_id: int) -> Connection:
        """This process's connection to a broker, which may not be connected."""
        if broker_id not in self._connections:
            self._connections[broker_id] = Connection(self.cluster.addresses[broker_id], self._client_id)
        return self._connections[broker_id]

    def connected(self, broker_id: int, request_timeout_ms: int) -> tuple[Connection | None, str | None]:
        """This process's connection to a broker, or the error that there is none for. It is waited for as long as for a
        request, and CONNECT_TIMEOUT_NS at most.
        """
        connection = self.connection(broker_id)
        try:
            connection.connect(time.monotonic_ns() + min(CONNECT_TIMEOUT_NS, request_timeout_ms * 1_000_000))
        except ClientError as error:
            return None, error.error
        return connection, None

    def close(self) -> None:
        """Close this process's connections."""
        for connection in self._connections.values():
            connection.close()
