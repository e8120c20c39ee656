"""Sends, reads and deletions for a script: one operation of the history each, to a named node or to the leader.

Decides process numbers of scripted requests, values of sends and leader epochs of reads. Must not know what a script
is. Looking up a leader is repeated until the time-out; the request itself is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from harness.clients.admin import Admin
from harness.clients.connection import ClientError, Connection
from harness.clients.deletions import delete_records
from harness.clients.fetch import fetch_one
from harness.clients.requests import EARLIEST, LATEST, PartitionState, list_offset, produce_one
from harness.operations import outcomes
from harness.operations.history import History
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll import completions
from harness.workloads.append_poll.client import POLL_BYTES, RESPONSE_GRACE_MS
from harness.workloads.base import ScriptedDeletion, ScriptedEnd, ScriptedPoll, ScriptedSend

LOOK_UP_PAUSE_S = 0.05
UNKNOWN_EPOCH = -1
_OUTCOMES = {"send": outcomes.send_outcome, "delete_records": outcomes.deletion_outcome}


class _Target(NamedTuple):
    """The broker of a request, and a connection to it or why there is none. node: None where no leader is known."""

    node: str | None
    epoch: int
    connection: Connection | None
    error: str | None


class WireScriptSender:
    """Implements `ScriptSender` and `ScriptReader` of `harness.workloads.base`. Not thread-safe.

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
        self._led: dict[tuple[int, int], int] = {}
        """(partition, broker) → the last leader epoch in which Metadata named that broker."""

    def send(self, partition: int, count: int, acks: int, node: str | None) -> ScriptedSend:
        """One Produce request of count fresh values."""
        values = tuple(range(self._next_value, self._next_value + count))
        self._next_value += count
        target = self._target(partition, node)

        def produce(connection: Connection) -> Completion:
            produced = produce_one(
                connection,
                self._admin.cluster.topic,
                partition,
                values,
                acks=acks,
                record_bytes=self._record_bytes,
                timeout_ms=self._timeout_ms,
                deadline_ns=self._deadline_ns(),
            )
            return completions.of_send(produced)

        fields: dict[str, object] = {"values": list(values), "acks": acks, "sentinel": False}
        done = self._carry_out("send", partition, target, fields, produce)
        offset = done.fields.get("base_offset")
        return ScriptedSend(done.outcome, values, offset if isinstance(offset, int) else None, done.error)

    def poll(self, partition: int, position: int, node: str | None) -> ScriptedPoll:
        """One Fetch request, under read_uncommitted."""
        target = self._target(partition, node)
        records: list[int | None] = []

        def fetch(connection: Connection) -> Completion:
            polled = fetch_one(
                connection,
                self._admin.cluster.topic,
                partition,
                position=position,
                leader_epoch=target.epoch,
                isolation=0,
                max_wait_ms=0,
                max_bytes=POLL_BYTES,
                deadline_ns=self._deadline_ns(),
            )
            if polled.error is None:
                records.extend(value for _, value, _, _ in polled.records)
            return completions.of_poll(polled)

        fields: dict[str, object] = {
            "position": position,
            "leader_epoch": target.epoch,
            "isolation": 0,
            "reader": "wire",
            "consumer": "script",
            "max_bytes": POLL_BYTES,
        }
        done = self._carry_out("poll", partition, target, fields, fetch)
        shown = done.fields
        return ScriptedPoll(
            done.outcome, tuple(records), _whole(shown, "next_position", position), _whole(shown, "hw", -1), done.error
        )

    def list_offsets(self, partition: int, of: str, node: str | None) -> ScriptedEnd:
        """One ListOffsets request, under read_uncommitted."""
        target = self._target(partition, node)
        timestamp = EARLIEST if of == "earliest" else LATEST

        def look_up(connection: Connection) -> Completion:
            listed = list_offset(
                connection,
                self._admin.cluster.topic,
                partition,
                timestamp=timestamp,
                isolation=0,
                leader_epoch=target.epoch,
                deadline_ns=self._deadline_ns(),
            )
            return completions.of_list_offsets(listed, timestamp)

        fields: dict[str, object] = {"timestamp": timestamp, "isolation": 0, "leader_epoch": target.epoch}
        done = self._carry_out("list_offsets", partition, target, fields, look_up)
        return ScriptedEnd(done.outcome, _whole(done.fields, "offset", -1), done.error)

    def delete_records(self, partition: int, before: int, node: str | None) -> ScriptedDeletion:
        """One DeleteRecords request."""
        target = self._target(partition, node)

        def delete(connection: Connection) -> Completion:
            topic, deadline_ns = self._admin.cluster.topic, self._deadline_ns()
            return completions.of_deletion(
                delete_records(
                    connection, topic, partition, before, timeout_ms=self._timeout_ms, deadline_ns=deadline_ns
                )
            )

        done = self._carry_out("delete_records", partition, target, {"before": before}, delete)
        return ScriptedDeletion(done.outcome, _whole(done.fields, "low_watermark", -1), done.error)

    def _carry_out(
        self,
        f: str,
        partition: int,
        target: _Target,
        fields: dict[str, object],
        request: Callable[[Connection], Completion],
    ) -> Completion:
        """One operation of the history. An `info` ends its process."""
        assert self._process is not None
        topic = self._admin.cluster.topic
        invocation = Invocation(self._process, f, self._history.phase, topic, partition, target.node, fields)
        index = self._history.invoke(invocation)
        outcome_of = _OUTCOMES.get(f, outcomes.read_outcome)
        done = Completion(outcome_of(target.error), time.monotonic_ns(), target.error)
        if target.connection is not None:
            try:
                done = request(target.connection)
            except ClientError as failure:
                done = Completion(outcome_of(failure.error), failure.at_ns, failure.error)
            finally:
                target.connection.close()
        self._history.complete(index, invocation, done)
        if done.outcome == "info":
            self._process = None
        return done

    def _target(self, partition: int, node: str | None) -> _Target:
        """The named node, or the leader as metadata has it."""
        if self._process is None:
            self._process = self._next_process()
        cluster = self._admin.cluster
        end_s = time.monotonic() + self._timeout_ms / 1000
        while True:
            broker_id = cluster.broker_id(node) if node is not None else self._leader(partition, end_s)
            if broker_id is None:
                return _Target(node, UNKNOWN_EPOCH, None, outcomes.NO_LEADER)
            connection, error = self._connect(broker_id)
            if connection is not None or node is not None or time.monotonic() >= end_s:
                epoch = self._led.get((partition, broker_id), UNKNOWN_EPOCH)
                return _Target(cluster.names[broker_id], epoch, connection, error)
            # Metadata may name a leader that is gone for some milliseconds more; nothing has been sent to it.
            self._sleep(LOOK_UP_PAUSE_S)

    def _connect(self, broker_id: int) -> tuple[Connection | None, str | None]:
        """A connection, or why there is none."""
        connection = Connection(self._admin.cluster.addresses[broker_id], f"highwater-script-{self._process}")
        try:
            connection.connect(time.monotonic_ns() + self._timeout_ms * 1_000_000)
        except ClientError as failure:
            return None, failure.error
        return connection, None

    def _deadline_ns(self) -> int:
        return time.monotonic_ns() + (self._timeout_ms + RESPONSE_GRACE_MS) * 1_000_000

    def _leader(self, partition: int, end_s: float) -> int | None:
        while True:
            state = self._admin.state()
            found: PartitionState | None = state.partitions.get(partition) if state is not None else None
            if found is not None and found.leader in self._admin.cluster.addresses:
                self._led[partition, found.leader] = found.epoch
                return found.leader
            if time.monotonic() >= end_s:
                return None
            self._sleep(LOOK_UP_PAUSE_S)


def _whole(fields: Mapping[str, object], name: str, default: int) -> int:
    value = fields.get(name, default)
    return value if isinstance(value, int) else default
