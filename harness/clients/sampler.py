"""Watches who leads and who is in sync, by Metadata, and records each change (`leadership` lines).

Decides when the picture changed. Must not know workloads or faults. It asks one broker after the other, a new one
each time; an answer with an older leader epoch than one already seen is from a broker that is behind, and is left out.
So is another ISR in the same epoch, unless the leader itself says it: Metadata carries nothing that orders two ISRs.
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
    def harness(self, f: str, *, error: str | None = None, **fields: object) -> None: ...


class Sampler:
    """`run` belongs to a thread of its own; `partitions` may be read from any."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: LeadershipRecorder,
        *,
        ask: Callable[[int], ClusterState] | None = None,
    ) -> None:
        """ask: broker id → its answer, in place of a Metadata request."""
        self._cluster = cluster
        self._recorder = recorder
        self._admin = Admin(cluster)
        self._ask = ask if ask is not None else self._admin.ask
        self._seen: dict[int, PartitionState] = {}
        self._brokers = sorted(cluster.addresses)
        self._next = 0

    @property
    def partitions(self) -> Mapping[int, PartitionState]:
        """Latest state by partition."""
        return dict(self._seen)

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(PERIOD_S):
            self.sample()
        self._admin.close()

    def sample(self) -> None:
        """Ask the next broker and record what is new."""
        broker_id = self._brokers[self._next % len(self._brokers)]
        self._next += 1
        try:
            state = self._ask(broker_id)
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
