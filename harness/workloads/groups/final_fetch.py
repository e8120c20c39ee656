"""What every group has committed, read back from its coordinator: after the heal, and with each broker as coordinator.

Decides who is asked, and for how long. Must not know members. Invariants: each request is an operation of the history;
a group that no coordinator answered for in time has its `offsets-incomplete` line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from harness.clients import group_requests as requests
from harness.clients.connection import ClientError, Connection
from harness.clients.coordinators import GROUP, find_coordinator
from harness.clients.router import Cluster
from harness.operations import outcomes
from harness.operations.history import History
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll.drain import Drain, Resolve
from harness.workloads.groups.offsets import named, offsets_field

REQUEST_TIMEOUT_NS = 5_000_000_000
PAUSE_S = 0.2


class FinalFetch:
    """Not thread-safe. next_process: a process number that nobody has used."""

    def __init__(
        self,
        cluster: Cluster,
        groups: Sequence[str],
        partitions: int,
        history: History,
        next_process: Callable[[], int],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._groups = groups
        self._partitions = partitions
        self._history = history
        self._next_process = next_process
        self._sleep = sleep

    def all_groups(self, limit_s: float) -> int:
        """Fetch the offsets of every group within limit_s in all; of how many groups that did not come off."""
        end_s = time.monotonic() + limit_s
        return sum(not self._one(group, end_s) for group in self._groups)

    def _one(self, group: str, end_s: float) -> bool:
        problem, broker_id = "no time left", None
        while time.monotonic() < end_s:
            found, problem = self._coordinator(group)
            if found is not None:
                broker_id = found
                error = self._fetch(group, found)
                if error is None:
                    return True
                problem = error
            self._sleep(PAUSE_S)
        node = None if broker_id is None else self._cluster.names[broker_id]
        self._history.harness("offsets-incomplete", node=node, group=group, error=f"group {group}: {problem}")
        return False

    def _coordinator(self, group: str) -> tuple[int | None, str]:
        """As some broker that responds names it; or why there is none."""
        problem = "no broker responded"
        for broker_id in sorted(self._cluster.addresses):
            connection = Connection(self._cluster.addresses[broker_id], "highwater-final")
            try:
                connection.connect(time.monotonic_ns() + REQUEST_TIMEOUT_NS)
                found = find_coordinator(connection, GROUP, group, time.monotonic_ns() + REQUEST_TIMEOUT_NS)
            except ClientError:
                continue
            finally:
                connection.close()
            if found.error is None and found.broker_id in self._cluster.addresses:
                return found.broker_id, ""
            problem = f"coordinator: {found.error or found.broker_id}"
        return None, problem

    def _fetch(self, group: str, broker_id: int) -> str | None:
        """The error, if there was one."""
        topic, node = self._cluster.topic, self._cluster.names[broker_id]
        fields: Mapping[str, object] = {
            "group": group,
            "reader": "wire",
            "partitions": named(topic, range(self._partitions)),
        }
        process, phase = self._next_process(), self._history.phase
        invocation = Invocation(process, "fetch_offsets", phase, None, None, node, fields)
        index = self._history.invoke(invocation)
        connection = Connection(self._cluster.addresses[broker_id], f"highwater-final-{process}")
        try:
            connection.connect(time.monotonic_ns() + REQUEST_TIMEOUT_NS)
            deadline_ns = time.monotonic_ns() + REQUEST_TIMEOUT_NS
            fetched = requests.fetch_offsets(connection, group, topic, range(self._partitions), deadline_ns)
        except ClientError as failure:
            outcome = outcomes.read_outcome(failure.error)
            self._history.complete(index, invocation, Completion(outcome, failure.at_ns, failure.error))
            return failure.error
        finally:
            connection.close()
        if fetched.error is not None:
            self._history.complete(index, invocation, Completion("fail", fetched.at_ns, fetched.error))
            return fetched.error
        offsets = {"offsets": offsets_field(topic, fetched.offsets)}
        self._history.complete(index, invocation, Completion("ok", fetched.at_ns, None, offsets))
        return None


class DrainWithOffsets(Drain):
    """A drain whose rounds read back every group's offsets as well, from whoever coordinates it by then."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        next_process: Callable[[], int],
        sentinels: Mapping[int, int],
        fetch: FinalFetch,
        *,
        isolations: Sequence[int] = (0,),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(cluster, history, next_process, sentinels, isolations=isolations, sleep=sleep)
        self._fetch = fetch

    def round(self, partitions: list[int], resolve: Resolve, limit_s: float) -> int:
        """As the drain's; a group whose offsets could not be read counts as a reading that did not complete."""
        return super().round(partitions, resolve, limit_s) + self._fetch.all_groups(limit_s)
