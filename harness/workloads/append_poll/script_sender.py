"""Sends for a script: one operation of the history each, to a named node or to the leader.

Decides process numbers and values of scripted sends. Must not know what a script is. Looking up a leader is repeated
until the time-out; the send itself is one request.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.clients.admin import Admin
from harness.clients.connection import ClientError, Connection
from harness.clients.requests import produce_one
from harness.operations import outcomes
from harness.operations.history import History
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll.client import RESPONSE_GRACE_MS
from harness.workloads.base import ScriptedSend

LOOK_UP_PAUSE_S = 0.05


class WireScriptSender:
    """Implements `harness.workloads.base.ScriptSender`. Not thread-safe.

    next_process: a process number that nobody has used.
    """

    def __init__(
        self,
        admin: Admin,
        history: History,
        next_process: Callable[[], int],
        *,
        record_bytes: int,
        request_timeout_ms: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._admin = admin
        self._history = history
        self._next_process = next_process
        self._record_bytes = record_bytes
        self._timeout_ms = request_timeout_ms
        self._sleep = sleep
        self._process: int | None = None
        self._next_value = 0

    def send(self, partition: int, count: int, acks: int, node: str | None) -> ScriptedSend:
        """One Produce request of count fresh values."""
        if self._process is None:
            self._process = self._next_process()
        cluster = self._admin.cluster
        values = tuple(range(self._next_value, self._next_value + count))
        self._next_value += count
        end_s = time.monotonic() + self._timeout_ms / 1000
        connection: Connection | None = None
        while True:
            broker_id = cluster.broker_id(node) if node is not None else self._leader(partition, end_s)
            error: str | None = outcomes.NO_LEADER
            if broker_id is None:
                break
            connection, error = self._connect(broker_id)
            if connection is not None or node is not None or time.monotonic() >= end_s:
                break
            # Metadata may name a leader that is gone for some milliseconds more; nothing has been sent to it.
            self._sleep(LOOK_UP_PAUSE_S)
        if broker_id is not None:
            node = cluster.names[broker_id]
        fields: dict[str, object] = {"values": list(values), "acks": acks, "sentinel": False}
        invocation = Invocation(self._process, "send", self._history.phase, cluster.topic, partition, node, fields)
        index = self._history.invoke(invocation)
        offset: int | None = None
        at_ns = time.monotonic_ns()
        if connection is not None:
            try:
                produced = produce_one(
                    connection,
                    cluster.topic,
                    partition,
                    values,
                    acks=acks,
                    record_bytes=self._record_bytes,
                    timeout_ms=self._timeout_ms,
                    deadline_ns=time.monotonic_ns() + (self._timeout_ms + RESPONSE_GRACE_MS) * 1_000_000,
                )
                error, at_ns = produced.error, produced.at_ns
                offset = produced.base_offset if produced.base_offset >= 0 else None
            except ClientError as failure:
                error, at_ns = failure.error, failure.at_ns
            finally:
                connection.close()
        outcome = outcomes.send_outcome(error)
        response = {} if offset is None else {"base_offset": offset}
        self._history.complete(index, invocation, Completion(outcome, at_ns, error, response))
        if outcome == "info":
            self._process = None
        return ScriptedSend(outcome, values, offset, error)

    def _connect(self, broker_id: int) -> tuple[Connection | None, str | None]:
        """A connection, or why there is none."""
        connection = Connection(self._admin.cluster.addresses[broker_id], f"highwater-script-{self._process}")
        try:
            connection.connect(time.monotonic_ns() + self._timeout_ms * 1_000_000)
        except ClientError as failure:
            return None, failure.error
        return connection, None

    def _leader(self, partition: int, end_s: float) -> int | None:
        while True:
            state = self._admin.state()
            found = state.partitions.get(partition) if state is not None else None
            if found is not None and found.leader in self._admin.cluster.addresses:
                return found.leader
            if time.monotonic() >= end_s:
                return None
            self._sleep(LOOK_UP_PAUSE_S)
