"""What ZooKeeper says of a highwater or Kafka cluster: who leads, who is in sync, who controls, who is registered.

Read by the harness's own client, with a short time limit; None where ZooKeeper gives no response in time. Layouts:
Kafka's own znodes. Must not write.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from harness.systems.waiting import SystemFailed

READ_TIMEOUT_S = 1.0
CONNECT_TIMEOUT_S = 20.0

# A cluster under faults loses connections all the time; kazoo would say so on the console.
_log = logging.getLogger("harness.systems.kazoo")
_log.addHandler(logging.NullHandler())
_log.propagate = False


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's state znode. leader: broker id, or None; version: the znode's, the partition epoch."""

    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int


class Coordination:
    """Reads of one cluster. Safe to use from many threads. Connects on `start`, and again by itself."""

    def __init__(self, connect: str, called: str | None = None) -> None:
        """called: how whoever asked for the ensemble named it, if not by `connect`."""
        self._called = called or connect
        self._client = KazooClient(hosts=connect, timeout=10.0, read_only=False, logger=_log)

    def start(self) -> None:
        """Raises SystemFailed when no server responds."""
        try:
            self._client.start(timeout=CONNECT_TIMEOUT_S)
        except KazooTimeoutError:
            raise SystemFailed(
                f"no ZooKeeper responded at {self._called} within {CONNECT_TIMEOUT_S:g} s: is it running, and is the "
                "address right?"
            ) from None

    def stop(self) -> None:
        """Close the session; idempotent."""
        self._client.stop()
        self._client.close()

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        """The partition's state znode; None where there is none, or no response within READ_TIMEOUT_S."""
        found = self._read(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if found is None:
            return None
        state, version = found
        leader = int(state["leader"])
        return PartitionState(
            leader=None if leader < 0 else leader,
            leader_epoch=int(state["leader_epoch"]),
            isr=tuple(int(broker) for broker in state["isr"]),
            controller_epoch=int(state["controller_epoch"]),
            version=version,
        )

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic's znode names; 0 where there is none, or no response within READ_TIMEOUT_S."""
        found = self._read(f"/brokers/topics/{topic}")
        return 0 if found is None else len(found[0]["partitions"])

    def controller(self) -> int | None:
        """Broker id in /controller; None where there is none, or no response within READ_TIMEOUT_S."""
        found = self._read("/controller")
        return None if found is None else int(found[0]["brokerid"])

    def registered(self) -> frozenset[int] | None:
        """Broker ids with a registration znode."""
        try:
            if self._client.state != KazooState.CONNECTED:
                return None
            children = self._client.get_children_async("/brokers/ids").get(timeout=READ_TIMEOUT_S)
        except (KazooException, KazooTimeoutError):
            return None
        return frozenset(int(child) for child in children)

    def _read(self, path: str) -> tuple[dict[str, Any], int] | None:
        try:
            if self._client.state != KazooState.CONNECTED:
                return None
            data, stat = self._client.get_async(path).get(timeout=READ_TIMEOUT_S)
        except (KazooException, KazooTimeoutError):
            return None
        value = json.loads(data)
        assert isinstance(value, dict), f"{path} holds {data!r}"
        return value, int(stat.version)
