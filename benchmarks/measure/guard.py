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


class NotHeld(VoidRun):
    """The system did not do in time what was asked for. That says something of the system, not of the measuring."""


def why_isr_void(
    before: Sequence[PartitionState | None],
    after: Sequence[PartitionState | None],
    members: int = REPLICATION_FACTOR,
) -> str | None:
    """None when every partition had an ISR of that many members all along, else what was seen."""
    for partition, (then, now) in enumerate(zip(before, after, strict=True)):
        if then is None or now is None:
            return f"partition {partition} has no state"
        for when, state in (("before", then), ("after", now)):
            if len(state.isr) != members:
                return f"partition {partition}: ISR {list(state.isr)} {when} the run"
        if then.version != now.version:
            return f"partition {partition}: leader or ISR changed {now.version - then.version} times during the run"
    return None


class Guard:
    """Watches one topic of one cluster over one run. away: brokers that are down all the time."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, away: Sequence[int] = ()) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._brokers = {key: broker for key, broker in cluster.brokers.items() if key not in away}
        self._folders = [broker.data for broker in self._brokers.values()]
        self._before = cluster.zookeeper.partitions(topic, partitions)

    def await_replicas(self) -> int:
        """Until every replica is as long as its leader; CLOCK_MONOTONIC ns of then. Raises VoidRun, and BenchmarkFailed
        when a broker has ended.

        Nobody writes any more, so logs that were found equal once are not looked at again.
        """
        deadline = time.monotonic() + CATCH_UP_TIMEOUT_S
        left = list(range(self._partitions))
        while left:
            while left and logs.all_equal([logs.replica_sizes(self._folders, self._topic, left[-1])]):
                left.pop()
            now = time.monotonic_ns()
            if not left:
                return now
            if time.monotonic() > deadline:
                raise VoidRun(f"followers did not catch up within {CATCH_UP_TIMEOUT_S:g} s")
            self._cluster.require_alive(list(self._brokers))
            time.sleep(_PAUSE_S)
        return time.monotonic_ns()

    def check(self, records: int) -> None:
        """After the run: ISRs, ends, bytes. records: acknowledged, all of the topic's. Raises VoidRun."""
        self.check_isr()
        self.check_logs(records)

    def check_isr(self) -> None:
        """No leader and no ISR changed since the guard was made. Raises VoidRun."""
        now = self._cluster.zookeeper.partitions(self._topic, self._partitions)
        reason = why_isr_void(self._before, now, len(self._brokers))
        if reason is not None:
            raise VoidRun(reason)

    def check_logs(self, records: int | None) -> list[int]:
        """All replicas hold so many records (None: whatever they hold), byte by byte the same; LEOs. Raises VoidRun."""
        try:
            ends = [
                [logs.end_offset(folder / f"{self._topic}-{partition}") for partition in range(self._partitions)]
                for folder in self._folders
            ]
        except (OSError, ValueError) as error:
            raise VoidRun(str(error)) from None
        for broker_id, found in zip(self._brokers, ends, strict=True):
            if records is not None and sum(found) != records:
                raise VoidRun(f"broker {broker_id} holds {sum(found)} records, {records} were acknowledged")
        difference = logs.first_difference(self._folders, self._topic, self._partitions)
        if difference is not None:
            raise VoidRun(f"partition {difference.partition}: {difference.text}")
        return ends[0]
