"""A process that is an administrator: one request to one broker, to change or ask for something of a topic.

Decides nodes, deadlines and outcomes. Whom it asks is left to chance, but growths of partitions go to the controller as
this process knows it, which may be out of date. Invariants: `resolve` sends nothing of the operation; `invoke` sends at
most one request.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from harness.clients.admin_requests import Answered, alter_config, count_partitions, create_partitions, describe_config
from harness.clients.connection import ClientError, Connection
from harness.clients.router import KEEP_AFTER_ERROR, Cluster, Router
from harness.operations import outcomes
from harness.operations.admin_outcomes import change_outcome, growth_outcome
from harness.operations.generator import Op
from harness.operations.op import Completion, Invocation, Outcome
from harness.workloads.admin.generators import ALTER, COUNT, DESCRIBE, GROW, Wanted
from harness.workloads.admin.options import CONFIGS
from harness.workloads.append_poll.client import RESPONSE_GRACE_MS

_ELSEWHERE = frozenset({"NOT_CONTROLLER", *outcomes.NO_RESPONSE, *outcomes.NOTHING_SENT})
"""After these an administrator looks up who is controller."""

_OUTCOMES = {ALTER: change_outcome, GROW: growth_outcome}
"""How an error of an operation is to be taken; any other one reads."""

_SHOWN = {DESCRIBE: "setting", COUNT: "count"}
"""What the history calls the number that an answer shows."""


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """What every administrator of a run has in common. topics: names, by number. has_grown: told of each growth that
    was acknowledged (topic, count), by any thread.
    """

    cluster: Cluster
    topics: tuple[str, ...]
    request_timeout_ms: int
    seed: int
    has_grown: Callable[[str, int], None]


class AdminClient:
    """One process; implements `harness.operations.interpreter.Client`. Used by one thread."""

    def __init__(self, process: int, settings: AdminSettings, phase: Callable[[], str]) -> None:
        self.process = process
        self._settings = settings
        self._phase = phase
        self._rng = Random(settings.seed * 1_000_003 + process)
        self._router = Router(settings.cluster, f"highwater-admin-{process}", self._rng)
        self._controller: int | None = None
        self._connection: Connection | None = None
        self._error: str | None = None

    def resolve(self, op: Op) -> Invocation:
        """Choose a broker and connect to it; an error makes the operation fail before anything was sent."""
        wanted = op.detail
        assert isinstance(wanted, Wanted)
        cluster = self._settings.cluster
        broker_id = self._known_controller() if op.f == GROW else self._rng.choice(sorted(cluster.addresses))
        self._connect(broker_id)
        node = None if broker_id is None else cluster.names[broker_id]
        topic = self._settings.topics[wanted.topic]
        return Invocation(self.process, op.f, self._phase(), topic, None, node, _fields(op.f, wanted))

    def _known_controller(self) -> int | None:
        if self._controller is None:
            state = self._router.refresh()
            if state is not None and state.controller in self._settings.cluster.addresses:
                self._controller = state.controller
        return self._controller

    def _connect(self, broker_id: int | None) -> None:
        self._connection, self._error = None, outcomes.NO_LEADER
        if broker_id is not None:
            self._connection, self._error = self._router.connected(broker_id, self._settings.request_timeout_ms)

    def invoke(self, invocation: Invocation) -> Completion:
        """One request over the connection that `resolve` made."""
        if self._connection is None:
            completion = Completion(_outcome(invocation.f, self._error), time.monotonic_ns(), self._error)
        else:
            completion = carry_out(self._connection, invocation, self._settings.request_timeout_ms)
        if completion.error in _ELSEWHERE and self._rng.random() >= KEEP_AFTER_ERROR:
            self._controller = None
        if invocation.f == GROW and completion.outcome == "ok":
            assert invocation.topic is not None
            self._settings.has_grown(invocation.topic, _number(invocation, "count"))
        return completion

    def close(self) -> None:
        """Close every connection."""
        self._router.close()


def _fields(f: str, wanted: Wanted) -> dict[str, object]:
    fields: dict[str, object] = {}
    if f in (ALTER, DESCRIBE):
        fields["config"] = CONFIGS[wanted.config]
    if f == ALTER:
        fields["setting"] = wanted.number
    if f == GROW:
        fields["count"] = wanted.number
    return fields


def carry_out(connection: Connection, invocation: Invocation, timeout_ms: int) -> Completion:
    """One request of an administrator, its errors as outcomes. timeout_ms: what a broker may wait for others."""
    deadline_ns = time.monotonic_ns() + (timeout_ms + RESPONSE_GRACE_MS) * 1_000_000
    try:
        answered = _ask(connection, invocation, timeout_ms, deadline_ns)
    except ClientError as failure:
        return Completion(_outcome(invocation.f, failure.error), failure.at_ns, failure.error)
    shown = _SHOWN.get(invocation.f)
    fields = {shown: answered.number} if shown is not None and answered.error is None else {}
    return Completion(_outcome(invocation.f, answered.error), answered.at_ns, answered.error, fields)


def _ask(connection: Connection, invocation: Invocation, timeout_ms: int, deadline_ns: int) -> Answered:
    topic = invocation.topic
    assert topic is not None
    match invocation.f:
        case "alter_config":
            setting = _number(invocation, "setting")
            return alter_config(connection, topic, str(invocation.fields["config"]), setting, deadline_ns)
        case "describe_config":
            return describe_config(connection, topic, str(invocation.fields["config"]), deadline_ns)
        case "create_partitions":
            count = _number(invocation, "count")
            return create_partitions(connection, topic, count, timeout_ms=timeout_ms, deadline_ns=deadline_ns)
        case "count_partitions":
            return count_partitions(connection, topic, deadline_ns)
        case other:
            raise AssertionError(f"admin has no operation {other}")


def _number(invocation: Invocation, name: str) -> int:
    value = invocation.fields[name]
    assert isinstance(value, int)
    return value


def _outcome(f: str, error: str | None) -> Outcome:
    return _OUTCOMES.get(f, outcomes.read_outcome)(error)
