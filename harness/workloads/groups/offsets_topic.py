"""The topic of committed offsets, as a workload with groups needs it: made before the load, and whole after the heal.

Decides how long it is waited for. Must not know members.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from harness.clients.admin import Admin
from harness.clients.connection import ClientError, Connection
from harness.clients.coordinators import GROUP, find_coordinator
from harness.clients.requests import ClusterState
from harness.clients.router import Cluster
from harness.workloads.base import WorkloadFailed

OFFSETS_TOPIC = "__consumer_offsets"


class OffsetsTopic:
    """Not thread-safe."""

    def __init__(self, brokers: Sequence[tuple[str, str, int]], *, sleep: Callable[[float], None]) -> None:
        """brokers: (node, host, port) of each."""
        self._cluster = Cluster.of(OFFSETS_TOPIC, brokers)
        self._admin = Admin(self._cluster, sleep=sleep)
        self._sleep = sleep

    def make(self, group: str, limit_s: float) -> None:
        """The first request for a coordinator has the brokers make it. Raises WorkloadFailed, AdminError."""
        end_s, last = time.monotonic() + limit_s, "no broker responded"
        address = next(iter(self._cluster.addresses.values()))
        while time.monotonic() < end_s:
            connection = Connection(address, "highwater-setup")
            try:
                connection.connect(time.monotonic_ns() + 1_000_000_000)
                found = find_coordinator(connection, GROUP, group, time.monotonic_ns() + 5_000_000_000)
            except ClientError as error:
                last = str(error)
            else:
                if found.error is None:
                    return self.wait(limit_s)
                last = found.error
            finally:
                connection.close()
            self._sleep(0.2)
        raise WorkloadFailed(f"no coordinator of group {group} within {limit_s:g} s: {last}")

    def wait(self, limit_s: float) -> None:
        """Return once every replica of it is in sync, as every broker sees it. Raises AdminError."""
        self._admin.wait("full ISRs of the offsets topic", _in_sync, limit_s, every_broker=True)

    def close(self) -> None:
        """Close connections."""
        self._admin.close()


def _in_sync(state: ClusterState) -> bool:
    """Every partition is led, and every replica is in its ISR."""
    parts = state.partitions.values()
    return bool(parts) and all(p.leader >= 0 and len(p.isr) == len(p.replicas) for p in parts)
