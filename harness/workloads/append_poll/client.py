"""A logical process: turns ops into requests to the node that it believes to lead, one request each.

Decides positions, epochs and outcomes of one process's operations. Must not know generators' insides, threads or files.
Invariants: `resolve` sends nothing of the operation; `invoke` sends at most one request; a consumer's next position
is the last ok poll's next_position, or the log's start after OFFSET_OUT_OF_RANGE. Who is refused at the start that is
known asks for it in place of its next poll, as a consumer with auto.offset.reset=earliest does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from harness.clients.connection import ClientError, Connection
from harness.clients.fetch import Polled, fetch_one
from harness.clients.requests import EARLIEST, LATEST, list_offset, produce_one
from harness.clients.router import Cluster, Leader, Router
from harness.operations import outcomes
from harness.operations.generator import Op
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll import completions

POLL_BYTES = 64 * 1024
RESPONSE_GRACE_MS = 250
"""How much longer than the broker's own time-out the client waits, so that REQUEST_TIMED_OUT can be distinguished from
silence.
"""

LEADERSHIP_ERRORS = frozenset(
    {
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "REPLICA_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
        "NOT_ENOUGH_REPLICAS",
        "REQUEST_TIMED_OUT",
    }
)


_OUTCOMES = {"send": outcomes.send_outcome, "delete_records": outcomes.deletion_outcome}
"""How an error of an operation is to be taken; any other one reads."""


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """What every process of a run has in common. request_timeout_ms: also what a broker may wait for its ISR.

    read_committed: the share of processes that poll and ask for ends under it.
    """

    cluster: Cluster
    acks: int
    record_bytes: int
    request_timeout_ms: int
    seed: int
    read_committed: float = 0.25


@dataclass(slots=True)
class Shared:
    """What processes of a run pass on: per thread, its last process's leaders and positions; per partition, what was
    seen.

    Written by many threads, each entry replaced whole; what is read may be a little old.
    """

    leaders: dict[int, Mapping[int, Leader]] = field(default_factory=dict)
    positions: dict[int, Mapping[int, int]] = field(default_factory=dict)
    high_watermarks: dict[int, int] = field(default_factory=dict)
    log_starts: dict[int, int] = field(default_factory=dict)
    sentinels: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Target:
    """Where a request is to go, or why it cannot."""

    connection: Connection | None
    error: str | None


class AppendPollClient:
    """One process; implements `harness.operations.interpreter.Client`. Used by one thread."""

    def __init__(
        self, process: int, thread: int, settings: ProcessSettings, shared: Shared, phase: Callable[[], str]
    ) -> None:
        self.process = process
        self._thread = thread
        self._settings = settings
        self._shared = shared
        self._phase = phase
        self._rng = Random(settings.seed * 1_000_003 + process)
        # A successor starts with its predecessor's metadata, or with none.
        known = shared.leaders.get(thread) if self._rng.random() < 0.5 else None
        self._router = Router(settings.cluster, f"highwater-{process}", self._rng, known)
        self._positions: dict[int, int] = {}
        self._astray: set[int] = set()
        """Partitions that begin nobody knows where: who goes by the known start is refused."""
        self._start = self._rng.choices(("resume", "latest", "earliest"), (5, 3, 2))[0]
        self._isolation = 1 if self._rng.random() < settings.read_committed else 0
        self._target = Target(None, outcomes.NO_LEADER)

    def resolve(self, op: Op) -> Invocation:
        """Find the leader and connect to it; an error makes the operation fail before anything was sent."""
        leader = self._router.leader(op.partition)
        self._target = self._connect(leader)
        epoch = -1 if leader is None else leader.epoch
        node = None if leader is None else self._settings.cluster.names[leader.broker_id]
        topic, phase = self._settings.cluster.topic, self._phase()
        if op.f == "poll" and op.partition in self._astray:
            question = self._question(EARLIEST, epoch)
            return Invocation(self.process, "list_offsets", phase, topic, op.partition, node, question)
        return Invocation(self.process, op.f, phase, topic, op.partition, node, self._fields(op, epoch))

    def _connect(self, leader: Leader | None) -> Target:
        if leader is None:
            return Target(None, outcomes.NO_LEADER)
        return Target(*self.connect_to(leader.broker_id))

    def connect_to(self, broker_id: int) -> tuple[Connection | None, str | None]:
        """This process's connection to a broker, or why there is none."""
        connection, error = self._router.connected(broker_id, self._settings.request_timeout_ms)
        if connection is None:
            self._router.suspect()
        return connection, error

    def _fields(self, op: Op, epoch: int) -> dict[str, object]:
        match op.f:
            case "send":
                acks = -1 if op.sentinel else self._settings.acks
                return {"values": list(op.values), "acks": acks, "sentinel": op.sentinel}
            case "poll":
                return {
                    "position": self._position(op.partition),
                    "leader_epoch": epoch,
                    "isolation": self._isolation,
                    "reader": "wire",
                    "consumer": f"c{self.process}",
                    "max_bytes": POLL_BYTES,
                }
            case "list_offsets":
                return self._question(LATEST if self._rng.random() < 0.8 else EARLIEST, epoch)
            case other:
                raise AssertionError(f"append-poll has no operation {other}")

    def _question(self, timestamp: int, epoch: int) -> dict[str, object]:
        return {"timestamp": timestamp, "isolation": self._isolation, "leader_epoch": epoch}

    def _position(self, partition: int) -> int:
        if partition not in self._positions:
            begin = self._shared.log_starts.get(partition, 0)
            if self._start == "resume":
                begin = self._shared.positions.get(self._thread, {}).get(partition, begin)
            elif self._start == "latest":
                begin = self._shared.high_watermarks.get(partition, begin)
            self._positions[partition] = begin
        return self._positions[partition]

    def invoke(self, invocation: Invocation) -> Completion:
        """One request over the connection that `resolve` made."""
        match invocation.f:
            case "send":
                return self.carry_out(invocation, lambda connection: self._send(connection, invocation))
            case "poll":
                return self.carry_out(invocation, lambda connection: self._poll(connection, invocation))
            case "list_offsets":
                return self.carry_out(invocation, lambda connection: self._list_offsets(connection, invocation))
            case other:
                raise AssertionError(f"append-poll has no operation {other}")

    def carry_out(self, invocation: Invocation, request: Callable[[Connection], Completion]) -> Completion:
        """One request over the connection that `resolve` made, its errors as outcomes."""
        connection, error = self._target.connection, self._target.error
        outcome_of = _OUTCOMES.get(invocation.f, outcomes.read_outcome)
        if connection is None:
            return Completion(outcome_of(error), time.monotonic_ns(), error)
        try:
            completion = request(connection)
        except ClientError as failure:
            completion = Completion(outcome_of(failure.error), failure.at_ns, failure.error)
        if completion.error in LEADERSHIP_ERRORS or completion.error in outcomes.NO_RESPONSE:
            self._router.suspect()
        return completion

    def _deadline_ns(self) -> int:
        return time.monotonic_ns() + (self._settings.request_timeout_ms + RESPONSE_GRACE_MS) * 1_000_000

    def _send(self, connection: Connection, invocation: Invocation) -> Completion:
        topic, partition = invocation.home
        values, acks = invocation.fields["values"], invocation.fields["acks"]
        assert isinstance(values, list)
        assert isinstance(acks, int)
        produced = produce_one(
            connection,
            topic,
            partition,
            values,
            acks=acks,
            record_bytes=self._settings.record_bytes,
            timeout_ms=self._settings.request_timeout_ms,
            deadline_ns=self._deadline_ns(),
        )
        if produced.error is None and invocation.fields["sentinel"]:
            self._shared.sentinels[partition] = produced.base_offset
        return completions.of_send(produced)

    def _poll(self, connection: Connection, invocation: Invocation) -> Completion:
        topic, partition = invocation.home
        polled = fetch_one(
            connection,
            topic,
            partition,
            position=_number(invocation, "position"),
            leader_epoch=_number(invocation, "leader_epoch"),
            isolation=_number(invocation, "isolation"),
            max_wait_ms=100 if self._rng.random() < 0.25 else 0,
            max_bytes=_number(invocation, "max_bytes"),
            deadline_ns=self._deadline_ns(),
            topic_id=str(invocation.fields.get("topic_id", "")),
        )
        return self._polled(partition, polled)

    def _polled(self, partition: int, polled: Polled) -> Completion:
        """Take in what came of one partition."""
        if polled.error is None:
            self._positions[partition] = polled.next_position
            self._shared.high_watermarks[partition] = polled.hw
            self._shared.log_starts[partition] = max(0, polled.log_start)
        elif polled.error == "OFFSET_OUT_OF_RANGE":
            start = self._shared.log_starts.get(partition, 0)
            if start == self._positions.get(partition):
                self._astray.add(partition)
            self._positions[partition] = start
        return completions.of_poll(polled)

    def _list_offsets(self, connection: Connection, invocation: Invocation) -> Completion:
        topic, partition = invocation.home
        timestamp = _number(invocation, "timestamp")
        listed = list_offset(
            connection,
            topic,
            partition,
            timestamp=timestamp,
            isolation=_number(invocation, "isolation"),
            leader_epoch=_number(invocation, "leader_epoch"),
            deadline_ns=self._deadline_ns(),
        )
        if timestamp == EARLIEST and listed.error is None:
            self._shared.log_starts[partition] = listed.offset
            if partition in self._astray:
                self._astray.remove(partition)
                self._positions[partition] = listed.offset
        return completions.of_list_offsets(listed, timestamp)

    def close(self) -> None:
        """Save leaders and positions for the thread's next process, and close every connection."""
        self._shared.leaders[self._thread] = dict(self._router.leaders)
        if self._positions:
            self._shared.positions[self._thread] = dict(self._positions)
        self._router.close()


def _number(invocation: Invocation, name: str) -> int:
    value = invocation.fields[name]
    assert isinstance(value, int)
    return value
