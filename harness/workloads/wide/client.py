"""A logical process of the workload `wide`: append-poll's, whose requests may be about several partitions at once.

Decides which partitions go into one request, and how what came of each is recorded: the operation that the generator
asked for is recorded by whoever runs it, each further one here, by a process of its own. Must not know generators'
insides. Invariants: `invoke` sends at most one request; every operation that the request carries was recorded before it
was sent, and has its own completion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from harness.clients.connection import Connection
from harness.clients.deletions import delete_records
from harness.clients.fetch import fetch_one
from harness.clients.fetch_session import FetchSession, Wanted
from harness.clients.requests import batch_of, produce_several
from harness.operations.generator import Op
from harness.operations.interpreter import OpRecorder
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll import completions
from harness.workloads.append_poll.client import POLL_BYTES, AppendPollClient, ProcessSettings, Shared, Target
from harness.workloads.wide.generators import BEYOND, LOOKUP, Sending

LOOK_BACK_S = 40.0
"""How far back a lookup looks at most."""
WAIT_MS = 100
RACK = "near"
"""Of consumers that read from followers: a follower reads for who names one."""
ANOTHER_FOLLOWER = 0.05
"""How often such a consumer goes to another follower, of its polls."""
DELETED_AT_MOST = 0.5
"""Of what lies between a log's start and its high watermark, as they were seen last."""
FAR_BEYOND = 1_000_000_000
"""No log of a run ends there."""


class WideClient(AppendPollClient):
    """One process; implements `harness.operations.interpreter.Client`. Used by one thread."""

    def __init__(
        self,
        process: int,
        thread: int,
        settings: ProcessSettings,
        shared: Shared,
        phase: Callable[[], str],
        record: OpRecorder,
        next_process: Callable[[], int],
        sessions: float,
        follower_reads: float = 0.0,
    ) -> None:
        """record: where further operations of a request go. next_process: a process number that nobody has used.
        sessions: share of processes that poll in fetch sessions; follower_reads: that poll followers, without sessions.
        """
        super().__init__(process, thread, settings, shared, phase)
        self._record = record
        self._next_process = next_process
        self._draw = Random(settings.seed * 1_000_081 + process)
        self._sessions: dict[int, FetchSession] | None = {} if self._draw.random() < sessions else None
        self._followers: dict[int, int] | None = None
        """Partition → the broker that this process reads it from; None: from the leader."""
        if follower_reads and self._draw.random() < follower_reads:
            self._followers, self._sessions = {}, None
        self._beside: dict[int, int] = {}
        """Partition → the process under whose number further operations on it are recorded."""
        self._company: list[Invocation] = []
        self._broker_id = -1
        self._results: dict[int, Completion] = {}
        """Partition → how its part of the last request came out."""

    def resolve(self, op: Op) -> Invocation:
        """As append-poll's; and what else the request will carry, by what this process knows of leaders."""
        invocation = super().resolve(op)
        self._company = []
        leader = self._router.leaders.get(op.partition)
        if leader is None or op.sentinel:
            return invocation
        self._broker_id = leader.broker_id
        if invocation.f == "poll" and self._followers is not None:
            return self._of_follower(invocation, leader.broker_id)
        if op.f == "send" and isinstance(op.detail, Sending):
            for partition, values in op.detail.further:
                self._take_along(invocation, partition, {"values": list(values)})
        elif invocation.f == "poll" and self._sessions is not None:
            for partition in sorted(self._router.leaders):
                if partition != op.partition:
                    self._take_along(
                        invocation,
                        partition,
                        {
                            "position": self._position(partition),
                            "leader_epoch": self._router.leaders[partition].epoch,
                        },
                    )
        return invocation

    def _of_follower(self, poll: Invocation, leader: int) -> Invocation:
        """The poll as one of a replica that does not lead, mostly the one that was asked before."""
        assert self._followers is not None
        partition = poll.home[1]
        known = self._followers.get(partition, leader)
        if known == leader or self._draw.random() < ANOTHER_FOLLOWER:
            others = self._replicas(partition) - {leader}
            if others:
                known = self._followers[partition] = self._draw.choice(sorted(others))
        self._target = Target(*self.connect_to(known))
        node = self._settings.cluster.names[known]
        return replace(poll, node=node, fields={**poll.fields, "reader": "wire" if known == leader else "follower"})

    def _replicas(self, partition: int) -> set[int]:
        """Brokers that have the partition, by some node's metadata; any, where none says."""
        state = self._router.refresh()
        known = None if state is None else state.partitions.get(partition)
        brokers = set(self._settings.cluster.addresses)
        return brokers if known is None else brokers & set(known.replicas)

    def _take_along(self, main: Invocation, partition: int, fields: Mapping[str, object]) -> None:
        leader = self._router.leaders.get(partition)
        if leader is None or leader.broker_id != self._broker_id:
            return
        process = self._beside.setdefault(partition, -1)
        if process < 0:
            process = self._beside[partition] = self._next_process()
        self._company.append(
            Invocation(process, main.f, main.phase, main.topic, partition, main.node, {**main.fields, **fields})
        )

    def _fields(self, op: Op, epoch: int) -> dict[str, object]:
        if op.f == "delete_records":
            return {"before": FAR_BEYOND if op.detail == BEYOND else self._before(op.partition)}
        fields = super()._fields(op, epoch)
        if op.f == "send":
            fields["timestamp"] = time.time_ns() // 1_000_000
        if isinstance(op.detail, Sending) and op.detail.acks_one:
            fields["acks"] = 1
        elif op.detail == LOOKUP:
            fields["timestamp"] = int((time.time() - self._draw.uniform(0.0, LOOK_BACK_S)) * 1000)
        return fields

    def invoke(self, invocation: Invocation) -> Completion:
        """One request over the connection that `resolve` made, with all that it carries."""
        self._results = {}
        # Where nothing can be sent nothing else was attempted.
        company = self._company if self._target.connection is not None else []
        begun = [(self._record.invoke(one), one) for one in company]
        completion = self._carry_out(invocation)
        for index, one in begun:
            _, partition = one.home
            own = self._results.get(partition) or Completion(completion.outcome, completion.at_ns, completion.error)
            self._record.complete(index, one, own)
            if own.outcome == "info":
                del self._beside[partition]
        return completion

    def _carry_out(self, invocation: Invocation) -> Completion:
        if invocation.f == "delete_records":
            return self.carry_out(invocation, lambda connection: self._delete(connection, invocation))
        return super().invoke(invocation)

    def _before(self, partition: int) -> int:
        """An offset below the high watermark that was seen last, and now and then one that deletes nothing."""
        start = self._shared.log_starts.get(partition, 0)
        length = max(0, self._shared.high_watermarks.get(partition, start) - start)
        return start + int(length * self._draw.uniform(0.0, DELETED_AT_MOST))

    def _delete(self, connection: Connection, invocation: Invocation) -> Completion:
        topic, partition = invocation.home
        before = invocation.fields["before"]
        assert isinstance(before, int)
        deleted = delete_records(
            connection,
            topic,
            partition,
            before,
            timeout_ms=self._settings.request_timeout_ms,
            deadline_ns=self._deadline_ns(),
        )
        return completions.of_deletion(deleted)

    def _send(self, connection: Connection, invocation: Invocation) -> Completion:
        batches = {one.home[1]: self._batch(one) for one in (invocation, *self._company)}
        acks = invocation.fields["acks"]
        assert isinstance(acks, int)
        produced = produce_several(
            connection,
            invocation.home[0],
            batches,
            acks=acks,
            timeout_ms=self._settings.request_timeout_ms,
            deadline_ns=self._deadline_ns(),
        )
        self._results = {partition: completions.of_send(result) for partition, result in produced.items()}
        own = produced[invocation.home[1]]
        if own.error is None and invocation.fields["sentinel"]:
            self._shared.sentinels[invocation.home[1]] = own.base_offset
        return self._results[invocation.home[1]]

    def _batch(self, invocation: Invocation) -> bytes:
        values, stamp_ms = invocation.fields["values"], invocation.fields["timestamp"]
        assert isinstance(values, list)
        assert isinstance(stamp_ms, int)
        return batch_of(values, *invocation.home, self._settings.record_bytes, stamp_ms)

    def _poll(self, connection: Connection, invocation: Invocation) -> Completion:
        if invocation.fields["reader"] == "follower":
            return self._poll_follower(connection, invocation)
        if self._sessions is None:
            return super()._poll(connection, invocation)
        topic = invocation.home[0]
        session = self._sessions.setdefault(self._broker_id, FetchSession(topic))
        wanted = {one.home[1]: _wanted(one) for one in (invocation, *self._company)}
        polled = session.poll(
            connection,
            wanted,
            isolation=self._isolation,
            max_wait_ms=WAIT_MS if self._draw.random() < 0.25 else 0,
            max_bytes=POLL_BYTES,
            deadline_ns=self._deadline_ns(),
        )
        self._results = {partition: self._polled(partition, result) for partition, result in polled.items()}
        return self._results[invocation.home[1]]

    def _poll_follower(self, connection: Connection, invocation: Invocation) -> Completion:
        topic, partition = invocation.home
        wanted = _wanted(invocation)
        polled = fetch_one(
            connection,
            topic,
            partition,
            position=wanted.position,
            leader_epoch=wanted.leader_epoch,
            isolation=self._isolation,
            max_wait_ms=WAIT_MS if self._draw.random() < 0.25 else 0,
            max_bytes=POLL_BYTES,
            deadline_ns=self._deadline_ns(),
            rack=RACK,
        )
        return self._polled(partition, polled)


def _wanted(poll: Invocation) -> Wanted:
    position, epoch = poll.fields["position"], poll.fields["leader_epoch"]
    assert isinstance(position, int)
    assert isinstance(epoch, int)
    return Wanted(position, epoch)
