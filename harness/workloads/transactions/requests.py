"""One request of a transactional process, from where it goes to what comes of it.

Decides nodes, outcomes and the lines of the history. Must not know which request comes next: `producer` and
`processor` do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from harness.clients.connection import ClientError, Connection
from harness.clients.coordinators import Coordinators, Key
from harness.clients.router import Cluster, Router
from harness.operations import outcomes
from harness.operations.op import Completion, Invocation, Outcome
from harness.operations.transaction_outcomes import coordinator_outcome, end_outcome, transactional_send_outcome
from harness.workloads.append_poll.client import LEADERSHIP_ERRORS, RESPONSE_GRACE_MS

COORDINATOR_ERRORS = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"})

Response = tuple[str | None, int, Mapping[str, object]]
"""(error, CLOCK_MONOTONIC when it had come, fields of an ok completion)."""


@dataclass(frozen=True, slots=True)
class Request:
    """home: topic and partition of a send or poll, whose leader gets it; else coordinator says who does.

    fields: of the invocation. exchange: connection, fields and deadline → response. then: called with outcome, error
    and the completion's fields, once they are known. names_epoch: the fields get a `leader_epoch`.
    """

    f: str
    fields: Mapping[str, object]
    exchange: Callable[[Connection, Mapping[str, object], int], Response]
    then: Callable[[Outcome, str | None, Mapping[str, object]], None]
    home: tuple[str, int] | None = None
    coordinator: Key | None = None
    names_epoch: bool = False


@dataclass(slots=True)
class Sent:
    """The request that `resolve` prepared."""

    request: Request
    connection: Connection | None
    error: str | None
    fields: Mapping[str, object]


class Requests:
    """How one process sends its requests. Not thread-safe."""

    def __init__(self, clusters: Mapping[str, Cluster], client_id: str, rng: Random, request_timeout_ms: int) -> None:
        """clusters: by topic."""
        self._timeout_ms = request_timeout_ms
        self._routers = {topic: Router(cluster, client_id, rng) for topic, cluster in clusters.items()}
        self._any = next(iter(self._routers.values()))
        self._coordinators = Coordinators(self._any, rng)

    def prepare(self, request: Request, process: int, phase: str) -> tuple[Sent, Invocation]:
        """Find the node and connect to it; nothing of the request is sent."""
        router, epoch = self._any, -1
        if request.home is not None:
            topic, partition = request.home
            router = self._routers[topic]
            leader = router.leader(partition)
            broker_id = None if leader is None else leader.broker_id
            epoch = -1 if leader is None else leader.epoch
        else:
            topic, partition = None, None
            assert request.coordinator is not None
            broker_id = self._coordinators.of(request.coordinator)
        fields = {**request.fields, "leader_epoch": epoch} if request.names_epoch else request.fields
        node = None if broker_id is None else router.cluster.names[broker_id]
        sent = self._connected(request, router, broker_id, fields)
        return sent, Invocation(process, request.f, phase, topic, partition, node, fields)

    def _connected(self, request: Request, router: Router, broker_id: int | None, fields: Mapping[str, object]) -> Sent:
        if broker_id is None:
            return Sent(request, None, outcomes.NO_LEADER, fields)
        connection, error = router.connected(broker_id, self._timeout_ms)
        if connection is None:
            self._suspect(request)
        return Sent(request, connection, error, fields)

    def carry_out(self, sent: Sent) -> Completion:
        """One request over the connection that `prepare` made."""
        request = sent.request
        found: Mapping[str, object] = {}
        if sent.connection is None:
            error, at_ns = sent.error, time.monotonic_ns()
        else:
            deadline_ns = time.monotonic_ns() + (self._timeout_ms + RESPONSE_GRACE_MS) * 1_000_000
            try:
                error, at_ns, found = request.exchange(sent.connection, sent.fields, deadline_ns)
            except ClientError as failure:
                error, at_ns = failure.error, failure.at_ns
        if error in LEADERSHIP_ERRORS | COORDINATOR_ERRORS | outcomes.NO_RESPONSE:
            self._suspect(request)
        outcome = _outcome(request.f, error)
        request.then(outcome, error, found)
        return Completion(outcome, at_ns, error, found)

    def _suspect(self, request: Request) -> None:
        if request.home is not None:
            self._routers[request.home[0]].suspect()
        elif request.coordinator is not None:
            self._coordinators.suspect(request.coordinator)

    def close(self) -> None:
        """Close all connections."""
        for router in self._routers.values():
            router.close()


def _outcome(f: str, error: str | None) -> Outcome:
    match f:
        case "send":
            return transactional_send_outcome(error)
        case "poll" | "fetch_offsets":
            return outcomes.read_outcome(error)
        case "end_txn":
            return end_outcome(error)
        case _:
            return coordinator_outcome(error)
