"""Watches who leads and who is in sync, by Metadata, and records each change (`leadership` lines).

Decides when leadership or an ISR has changed. Must not know workloads or faults. A request goes to one broker after the
other, a new one each time; a response with an older leader epoch than one already seen is from a broker that is behind,
and is left out. So is another ISR in the same epoch, unless the leader itself says it: Metadata carries nothing that
orders two ISRs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from harness.clients.admin import Admin
from harness.clients.connection import ClientError
from harness.clients.requests import ClusterState, PartitionState
from harness.clients.router import Cluster

PERIOD_S = 0.5


class LeadershipRecorder(Protocol):
    """The part of a history that the sampler needs."""

    def harness(self, f: str, *, error: str | None = None, **fields: object) -> None:
        """Write a harness line. Safe to call from any thread."""
        ...


class Sampler:
    """`run` belongs to a thread of its own; `partitions` may be read from any."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: LeadershipRecorder,
        *,
        seen_by: Callable[[int], ClusterState] | None = None,
    ) -> None:
        """seen_by: broker id → the cluster as that broker sees it, in place of a Metadata request."""
        self._cluster = cluster
        self._recorder = recorder
        self._admin = Admin(cluster)
        self._seen_by = seen_by if seen_by is not None else self._admin.seen_by
        self._seen: dict[int, PartitionState] = {}
        self._brokers = sorted(cluster.addresses)
        self._next = 0

    @property
    def partitions(self) -> Mapping[int, PartitionState]:
        """Latest state by partition."""
        return dict(self._seen)

    def run(self, stop: threading.Event) -> None:
        """Sample every PERIOD_S until the event is set, then close the connections."""
        while not stop.wait(PERIOD_S):
            self.sample()
        self._admin.close()

    def sample(self) -> None:
        """Send Metadata to the next broker and record what is new."""
        broker_id = self._brokers[self._next % len(self._brokers)]
        self._next += 1
        try:
            state = self._seen_by(broker_id)
        except ClientError:
            return
        for partition, now in sorted(state.partitions.items()):
            before = self._seen.get(partition)
            if before is not None and now.epoch < before.epoch:
                continue
            if before is not None and now.epoch == before.epoch and broker_id != now.leader:
                continue
            if before is not None and (now.leader, now.epoch, set(now.isr)) == (
                before.leader,
                before.epoch,
                set(before.isr),
            ):
                continue
            self._seen[partition] = now
            self._recorder.harness(
                "leadership",
                topic=self._cluster.topic,
                partition=partition,
                leader=self._cluster.names.get(now.leader),
                epoch=now.epoch,
                isr=list(now.isr),
            )
