"""What administrators left, read back from every broker that responds: in the setup, and in each round of the drain.

Decides how long a broker has to hear of all partitions. Invariant: each request is an operation of the history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from harness.clients.connection import Connection
from harness.clients.router import Cluster
from harness.operations import outcomes
from harness.operations.history import History
from harness.operations.op import Completion, Invocation
from harness.workloads.admin.client import carry_out
from harness.workloads.admin.generators import COUNT, DESCRIBE
from harness.workloads.admin.options import CONFIGS
from harness.workloads.append_poll.drain import Drain, Resolve
from harness.workloads.asked import asked

REQUEST_TIMEOUT_MS = 3000
PAUSE_S = 0.2
HEARD_S = 10.0
"""Within how long a broker whose controller is there has heard of every partition."""


class ReadBack:
    """Not thread-safe. next_process: a process number that nobody has used."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Sequence[str],
        history: History,
        next_process: Callable[[], int],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._history = history
        self._next_process = next_process
        self._sleep = sleep

    def every_broker(self, grown_to: Mapping[str, int]) -> None:
        """Of each topic: describe every setting, and count the partitions until there are as many as grown_to says, or
        HEARD_S are over.
        """
        for broker_id in sorted(self._cluster.addresses):
            connection = Connection(self._cluster.addresses[broker_id], "highwater-read-back")
            try:
                for topic in self._topics:
                    self._one(connection, broker_id, topic, grown_to[topic])
            finally:
                connection.close()

    def _one(self, connection: Connection, broker_id: int, topic: str, count: int) -> None:
        end_s = time.monotonic() + HEARD_S
        for config in CONFIGS:
            described = self._ask(connection, broker_id, topic, DESCRIBE, {"config": config})
            if described.error in outcomes.NOTHING_SENT:
                # The rotation has stopped it.
                return
        while True:
            counted = self._ask(connection, broker_id, topic, COUNT, {}).fields.get("count")
            if (isinstance(counted, int) and counted >= count) or time.monotonic() >= end_s:
                return
            self._sleep(PAUSE_S)

    def _ask(
        self, connection: Connection, broker_id: int, topic: str, f: str, fields: Mapping[str, object]
    ) -> Completion:
        node, phase = self._cluster.names[broker_id], self._history.phase
        invocation = Invocation(self._next_process(), f, phase, topic, None, node, fields)
        return asked(
            self._history,
            invocation,
            connection,
            REQUEST_TIMEOUT_MS,
            lambda: carry_out(connection, invocation, REQUEST_TIMEOUT_MS),
        )


class DrainWithRegisters(Drain):
    """A drain whose rounds read back settings and partitions as well."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        next_process: Callable[[], int],
        sentinels: Mapping[int, int],
        read_back: Callable[[], None],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(cluster, history, next_process, sentinels, sleep=sleep)
        self._read_back = read_back

    def round(self, partitions: list[int], resolve: Resolve, limit_s: float) -> int:
        """As the drain's. What could not be read back of administrators' topics counts for nothing here."""
        incomplete = super().round(partitions, resolve, limit_s)
        self._read_back()
        return incomplete
