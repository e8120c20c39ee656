"""A process that is a member of a group: turns the member's next step into one request to its coordinator, or to the
leader of a partition that it owns.

Decides nodes, deadlines and outcomes. What comes next is the member's own affair. Invariants: `resolve` sends nothing
of the operation; `invoke` sends at most one request. A process that is given up leaves its membership to the next one
of its thread, as a client that has lost its connection keeps its member id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from harness.clients import group_requests as requests
from harness.clients.connection import ClientError, Connection
from harness.clients.coordinators import GROUP, find_coordinator
from harness.clients.fetch import fetch_one, poll_fields
from harness.clients.router import CONNECT_TIMEOUT_NS, KEEP_AFTER_ERROR, Cluster, Router
from harness.operations import outcomes
from harness.operations.generator import Op
from harness.operations.group_outcomes import commit_outcome, membership_outcome
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll.client import LEADERSHIP_ERRORS, POLL_BYTES, RESPONSE_GRACE_MS
from harness.workloads.groups.assignors import assigned_in
from harness.workloads.groups.member import Former, Membership, Step
from harness.workloads.groups.offsets import named, offsets_field

CALM = "calm"
"""Detail of an op: the member reads on and commits, and does nothing that disturbs its group."""

NOT_HERE = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", *outcomes.NO_RESPONSE})
"""After these a member looks its coordinator up."""

IDLE_S = 0.1


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """What every member of a run has in common. Times in ms."""

    cluster: Cluster
    request_timeout_ms: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    seed: int


@dataclass(slots=True)
class Members:
    """Memberships by thread, and who each thread's last process took for the coordinator. An entry belongs to its
    thread.
    """

    memberships: dict[int, Membership]
    coordinators: dict[int, int] = field(default_factory=dict)


class MemberClient:
    """One process; implements `harness.operations.interpreter.Client`. Used by one thread."""

    def __init__(
        self, process: int, thread: int, settings: MemberSettings, members: Members, phase: Callable[[], str]
    ) -> None:
        self.process = process
        self._thread = thread
        self._settings = settings
        self._members = members
        self._me = members.memberships[thread]
        self._phase = phase
        self._rng = Random(settings.seed * 1_000_003 + process)
        self._router = Router(settings.cluster, f"highwater-member-{thread}", self._rng)
        self._connection: Connection | None = None
        self._error: str | None = None

    # -- what is about to be sent --------------------------------------------------------------------------------------

    def resolve(self, op: Op) -> Invocation:
        """The member's next step, and a connection to whom it is sent."""
        now_ns = time.monotonic_ns()
        step = self._me.next_step(now_ns, calm=op.detail == CALM)
        if self._me.away(now_ns) or (self._me.synced and not self._me.owned):
            # Who has nothing to do leaves the run's pace to the others.
            time.sleep(IDLE_S)
        return self._poll(step) if step == "poll" else self._ask(step)

    def _poll(self, step: Step) -> Invocation:
        me = self._me
        partition = self._rng.choice(me.owned)
        leader = self._router.leader(partition)
        self._connect(None if leader is None else leader.broker_id)
        fields: dict[str, object] = {
            "position": me.positions[partition],
            "leader_epoch": -1 if leader is None else leader.epoch,
            "isolation": 0,
            "reader": "wire",
            "consumer": f"{me.group}/{me.member}/{me.generation}",
            "max_bytes": POLL_BYTES,
            "group": me.group,
            "member": me.member,
            "generation": me.generation,
        }
        node = None if leader is None else self._settings.cluster.names[leader.broker_id]
        return Invocation(self.process, step, self._phase(), me.topic, partition, node, fields)

    def _ask(self, step: Step) -> Invocation:
        me = self._me
        who = me.committing if step == "commit_offsets" else None
        broker_id = self._coordinator()
        self._connect(broker_id)
        fields: dict[str, object] = {"group": me.group, "reader": "wire"}
        if step == "fetch_offsets":
            fields["partitions"] = named(me.topic, range(me.partitions))
        else:
            fields["member"] = me.member if who is None else who.member
            fields["instance"] = me.instance
        match step:
            case "join":
                fields |= {"protocol": me.protocol_name, "rebalance": me.rebalance}
                fields |= {
                    "session_ms": self._settings.session_timeout_ms,
                    "rebalance_ms": self._settings.rebalance_timeout_ms,
                }
            case "commit_offsets":
                fields["generation"] = me.generation if who is None else who.generation
                fields["offsets"] = offsets_field(me.topic, self._to_commit(who))
            case "fetch_offsets":
                pass
            case _:
                fields["generation"] = me.generation
        node = None if broker_id is None else self._settings.cluster.names[broker_id]
        return Invocation(self.process, step, self._phase(), None, None, node, fields)

    def _to_commit(self, who: Former | None) -> Mapping[int, int]:
        if who is not None:
            return dict(who.positions)
        return {partition: self._me.positions[partition] for partition in sorted(self._me.uncommitted)}

    def _coordinator(self) -> int | None:
        """The group's coordinator, as this thread has it or as some broker says; None when none does."""
        known = self._members.coordinators.get(self._thread)
        if known is not None:
            return known
        order = sorted(self._settings.cluster.addresses)
        self._rng.shuffle(order)
        for broker_id in order:
            connection = self._router.connection(broker_id)
            deadline_ns = time.monotonic_ns() + CONNECT_TIMEOUT_NS
            try:
                connection.connect(deadline_ns)
                found = find_coordinator(connection, GROUP, self._me.group, deadline_ns)
            except ClientError:
                continue
            if found.error is None and found.broker_id in self._settings.cluster.addresses:
                self._members.coordinators[self._thread] = found.broker_id
                return found.broker_id
        return None

    def _connect(self, broker_id: int | None) -> None:
        self._connection, self._error = None, outcomes.NO_LEADER
        if broker_id is not None:
            self._connection, self._error = self._router.connected(broker_id, self._settings.request_timeout_ms)

    # -- the request ---------------------------------------------------------------------------------------------------

    def invoke(self, invocation: Invocation) -> Completion:
        """One request over the connection that `resolve` made."""
        if self._connection is None:
            assert self._error is not None
            completion = self._without_response(invocation, self._error, time.monotonic_ns())
        else:
            try:
                completion = self._send(self._connection, invocation)
            except ClientError as failure:
                completion = self._without_response(invocation, failure.error, failure.at_ns)
        self._take(invocation, completion)
        return completion

    @staticmethod
    def _without_response(invocation: Invocation, error: str, at_ns: int) -> Completion:
        outcome = commit_outcome([error]) if invocation.f == "commit_offsets" else outcomes.read_outcome(error)
        return Completion(outcome, at_ns, error)

    def _take(self, invocation: Invocation, completion: Completion) -> None:
        """What an error means for where the next request goes."""
        error = completion.error
        if invocation.f == "poll":
            if error in LEADERSHIP_ERRORS or error in outcomes.NO_RESPONSE or error in outcomes.NOTHING_SENT:
                self._router.suspect()
        elif (error in NOT_HERE or error in outcomes.NOTHING_SENT) and self._rng.random() >= KEEP_AFTER_ERROR:
            self._members.coordinators.pop(self._thread, None)

    def _deadline_ns(self, more_ms: int = 0) -> int:
        return time.monotonic_ns() + (self._settings.request_timeout_ms + RESPONSE_GRACE_MS + more_ms) * 1_000_000

    def _send(self, connection: Connection, invocation: Invocation) -> Completion:
        me = self._me
        match invocation.f:
            case "poll":
                return self._fetch(connection, invocation)
            case "fetch_offsets":
                return self._fetch_offsets(connection)
            case "commit_offsets":
                return self._commit(connection, invocation)
            case "join":
                return self._join(connection)
            case "sync":
                return self._sync(connection)
        who = requests.Identity(me.group, me.member, me.generation, me.instance)
        ask = requests.heartbeat if invocation.f == "heartbeat" else requests.leave_group
        answer = ask(connection, who, self._deadline_ns())
        if answer.error is not None:
            me.refused(answer.error)
        elif invocation.f == "leave":
            me.begin_anew()
        return Completion(membership_outcome(answer.error), answer.at_ns, answer.error)

    def _join(self, connection: Connection) -> Completion:
        me = self._me
        joined = requests.join_group(
            connection,
            requests.Identity(me.group, me.member, -1, me.instance),
            [(me.protocol_name, me.subscription())],
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.rebalance_timeout_ms,
            deadline_ns=self._deadline_ns(self._settings.rebalance_timeout_ms),
        )
        if joined.error == "MEMBER_ID_REQUIRED":
            me.member = joined.member
            return Completion("fail", joined.at_ns, joined.error, {"member": joined.member})
        if joined.error is not None:
            me.refused(joined.error)
            return Completion(membership_outcome(joined.error), joined.at_ns, joined.error)
        members = [(member, metadata) for member, _, metadata in joined.members]
        me.has_joined(joined.member, joined.generation, joined.leader, joined.protocol, members)
        fields: dict[str, object] = {
            "member": joined.member,
            "generation": joined.generation,
            "leader": joined.leader,
            "protocol": joined.protocol,
        }
        return Completion("ok", joined.at_ns, None, fields)

    def _sync(self, connection: Connection) -> Completion:
        me = self._me
        synced = requests.sync_group(
            connection,
            requests.Identity(me.group, me.member, me.generation, me.instance),
            me.protocol,
            me.assignments(),
            self._deadline_ns(self._settings.rebalance_timeout_ms),
        )
        if synced.error is not None:
            me.refused(synced.error)
            return Completion(membership_outcome(synced.error), synced.at_ns, synced.error)
        partitions = assigned_in(synced.assignment)
        me.has_synced(partitions, synced.at_ns)
        return Completion("ok", synced.at_ns, None, {"partitions": named(me.topic, partitions)})

    def _commit(self, connection: Connection, invocation: Invocation) -> Completion:
        me, asked = self._me, invocation.fields
        generation, member = asked["generation"], asked["member"]
        assert isinstance(generation, int)
        assert isinstance(member, str)
        offsets = self._to_commit(me.committing)
        who = requests.Identity(me.group, member, generation, me.instance)
        committed = requests.commit_offsets(connection, who, me.topic, offsets, self._deadline_ns())
        errors = [error for error in committed.errors.values() if error is not None]
        if me.committing is None:
            if errors:
                me.refused(errors[0])
            else:
                me.uncommitted.clear()
        elif me.rng.random() < 0.3:
            # Even a zombie gives up some time.
            me.former = None
        error = errors[0] if errors else None
        return Completion(commit_outcome(committed.errors.values()), committed.at_ns, error)

    def _fetch_offsets(self, connection: Connection) -> Completion:
        me = self._me
        fetched = requests.fetch_offsets(connection, me.group, me.topic, range(me.partitions), self._deadline_ns())
        if fetched.error is not None:
            return Completion(outcomes.read_outcome(fetched.error), fetched.at_ns, fetched.error)
        if me.synced:
            me.has_fetched(dict(fetched.offsets))
        return Completion("ok", fetched.at_ns, None, {"offsets": offsets_field(me.topic, fetched.offsets)})

    def _fetch(self, connection: Connection, invocation: Invocation) -> Completion:
        _, partition = invocation.home
        position, leader_epoch = invocation.fields["position"], invocation.fields["leader_epoch"]
        assert isinstance(position, int)
        assert isinstance(leader_epoch, int)
        polled = fetch_one(
            connection,
            self._me.topic,
            partition,
            position=position,
            leader_epoch=leader_epoch,
            isolation=0,
            max_wait_ms=0,
            max_bytes=POLL_BYTES,
            deadline_ns=self._deadline_ns(),
        )
        if polled.error is not None:
            if polled.error == "OFFSET_OUT_OF_RANGE":
                self._me.positions[partition] = 0
            return Completion(outcomes.read_outcome(polled.error), polled.at_ns, polled.error)
        self._me.has_polled(partition, polled.next_position)
        return Completion("ok", polled.at_ns, None, poll_fields(polled))

    def close(self) -> None:
        """Close every connection; the membership stays for the thread's next process."""
        self._router.close()
