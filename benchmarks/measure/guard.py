"""Whether a run counts: full ISRs that never changed, all replicas at the same end, byte-equal logs.

Decides the reasons for which a run is void. Must not know how the records came there. The znode version of a
partition's state counts every change of leader or ISR, so an eviction and return between two looks is seen too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.measure import logs
from benchmarks.systems import REPLICATION_FACTOR, Cluster
from benchmarks.zookeeper import PartitionState

CATCH_UP_TIMEOUT_S = 120.0
_PAUSE_S = 0.002


class VoidRun(Exception):
    """The run may not be counted; the text says why."""


def why_isr_void(before: Sequence[PartitionState | None], after: Sequence[PartitionState | None]) -> str | None:
    """None when every partition had a full ISR all along, else what was seen."""
    for partition, (then, now) in enumerate(zip(before, after, strict=True)):
        if then is None or now is None:
            return f"partition {partition} has no state"
        for when, state in (("before", then), ("after", now)):
            if len(state.isr) != REPLICATION_FACTOR:
                return f"partition {partition}: ISR {list(state.isr)} {when} the run"
        if then.version != now.version:
            return f"partition {partition}: leader or ISR changed {now.version - then.version} times during the run"
    return None


class Guard:
    """Watches one topic of one cluster over one run."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._folders = [broker.data for broker in cluster.brokers.values()]
        self._before = cluster.zookeeper.partitions(topic, partitions)

    def await_replicas(self) -> int:
        """Until every replica is as long as its leader; CLOCK_MONOTONIC ns of then. Raises VoidRun."""
        deadline = time.monotonic() + CATCH_UP_TIMEOUT_S
        while not logs.all_equal(logs.sizes(self._folders, self._topic, self._partitions)):
            if time.monotonic() > deadline:
                raise VoidRun(f"followers did not catch up within {CATCH_UP_TIMEOUT_S:g} s")
            time.sleep(_PAUSE_S)
        return time.monotonic_ns()

    def check(self, records: int) -> None:
        """After the run: ISRs, ends, bytes. records: acknowledged, all of the topic's. Raises VoidRun."""
        reason = why_isr_void(self._before, self._cluster.zookeeper.partitions(self._topic, self._partitions))
        if reason is not None:
            raise VoidRun(reason)
        try:
            ends = [
                [logs.end_offset(folder / f"{self._topic}-{partition}") for partition in range(self._partitions)]
                for folder in self._folders
            ]
        except (OSError, ValueError) as error:
            raise VoidRun(str(error)) from None
        for broker_id, found in zip(self._cluster.brokers, ends, strict=True):
            if sum(found) != records:
                raise VoidRun(f"broker {broker_id} holds {sum(found)} records, {records} were acknowledged")
        difference = logs.first_difference(self._folders, self._topic, self._partitions)
        if difference is not None:
            raise VoidRun(f"partition {difference.partition}: {difference.text}")
