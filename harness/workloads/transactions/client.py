"""A process with a transactional id: each op becomes the next request of its producer's life.

Decides how ops reach a role and what a process leaves to its successor. Must not know which request is next. Invariants
are those of `harness.operations.interpreter.Client`: `resolve` sends nothing of the operation, `invoke` one request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from harness.clients.router import Cluster
from harness.operations.generator import Op
from harness.operations.op import Completion, Invocation
from harness.workloads.transactions.options import Options
from harness.workloads.transactions.reads import fetch_offsets_request
from harness.workloads.transactions.requests import Request, Requests, Sent
from harness.workloads.transactions.session import Session, init_request

STEP = "step"
"""Name of an op that is whatever the process's role has next. The history has the request's own name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the transactional processes of a run have in common. topic, out: names; clusters: by topic."""

    topic: str
    out: str
    clusters: Mapping[str, Cluster]
    partitions: int
    record_bytes: int
    request_timeout_ms: int
    seed: int
    options: Options

    @property
    def group(self) -> str:
        """Whose offsets the processors commit."""
        return f"{self.topic}-group"

    @property
    def ids(self) -> tuple[str, ...]:
        """Transactional ids of the producers."""
        return tuple(f"{self.topic}-txn-{number}" for number in range(self.options.ids))

    def processor_id(self, partition: int) -> str:
        """Transactional id of whoever processes that partition of the topic."""
        return f"{self.topic}-copy-{partition}"

    @property
    def all_ids(self) -> tuple[str, ...]:
        """Every transactional id of the run."""
        copies = range(self.partitions) if self.options.processors else ()
        return (*self.ids, *(self.processor_id(partition) for partition in copies))


@dataclass(slots=True)
class Left:
    """What processes leave to their threads' next ones, by thread: transactional ids. Each entry is replaced whole."""

    ids: dict[int, str] = field(default_factory=dict)


class Role(Protocol):
    """What a process is there for."""

    @property
    def session(self) -> Session | None:
        """The transactional id that it has."""
        ...

    def next(self, op: Op) -> Request:
        """What is sent next; op: fresh values and a partition drawn at random."""
        ...


class TransactionalClient:
    """One process; implements `harness.operations.interpreter.Client`. Used by one thread."""

    def __init__(
        self,
        process: int,
        thread: int,
        settings: Settings,
        left: Left,
        phase: Callable[[], str],
        role: Callable[[int, Random, str | None], Role],
    ) -> None:
        """role: process, random numbers, transactional id of the thread's last process → what this one is for."""
        self.process = process
        self._thread = thread
        self._settings = settings
        self._left = left
        self._phase = phase
        rng = Random(settings.seed * 1_000_003 + process)
        self._requests = Requests(settings.clusters, f"highwater-{process}", rng, settings.request_timeout_ms)
        self._role = role(process, rng, left.ids.get(thread))
        self._sent: Sent | None = None

    def resolve(self, op: Op) -> Invocation:
        """Find out what is next, and the node for it."""
        self._sent, invocation = self._requests.prepare(self._request(op), self.process, self._phase())
        return invocation

    def _request(self, op: Op) -> Request:
        match op.f:
            case "init_producer":
                assert isinstance(op.detail, str)
                return init_request(Session(op.detail), self._settings.options.timeout_ms)
            case "fetch_offsets":
                partitions = [(self._settings.topic, number) for number in range(self._settings.partitions)]
                return fetch_offsets_request(self._settings.group, partitions, lambda _found, _error: None)
            case _:
                return self._role.next(op)

    def invoke(self, invocation: Invocation) -> Completion:
        """The one request that `resolve` prepared."""
        assert self._sent is not None
        return self._requests.carry_out(self._sent)

    def close(self) -> None:
        """Leave the id to the thread's next process."""
        if self._role.session is not None:
            self._left.ids[self._thread] = self._role.session.transactional_id
        self._requests.close()
