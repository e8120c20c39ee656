"""What one group consists of, and the few steps that all its rules share. The rules are in the modules beside.

Source: kafka.coordinator.group.GroupMetadata.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.group.deadlines import Deadlines
from broker.core.group.effects import Effect, JoinResult, Reply, Result, Store, SyncResult
from broker.core.group.member import Member
from broker.core.group.members import Members
from broker.core.group.requests import UNKNOWN_MEMBER, JoinGroup, Protocols
from broker.core.group.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings, Sources
from broker.core.group.snapshot import GroupSnapshot, MemberSnapshot
from broker.core.group.states import GroupState, check_transition
from broker.core.group.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from broker.wire.errors import ErrorCode


@dataclass(slots=True)
class JoinPhase:
    """A rebalance that waits for members. remaining_ms: by how much the first rebalance may still be put off.

    is_initial: of an empty group, whose members come one after the other: it is not completed early.
    """

    deadline_ms: float
    is_initial: bool = False
    delay_ms: float = 0
    remaining_ms: float = 0
    member_added: bool = False


@dataclass(frozen=True, slots=True)
class StoredAssignment:
    """A write that the leader's SyncGroup caused: its generation becomes stable with it."""

    generation: int
    assignments: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class StoredReplacement:
    """A write that a static member's return caused; the fields from protocols on are for taking it back."""

    generation: int
    old_member_id: str
    new_member_id: str
    old_leader: str
    supports_skipping_assignment: bool
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int


PendingWrite = StoredAssignment | StoredReplacement


class Machine:
    """One group. Every method of `Group` runs to its end and takes the effects with it."""

    __slots__ = (
        "current_state_timestamp",
        "deadlines",
        "effects",
        "generation",
        "group_id",
        "join_phase",
        "last_token",
        "members",
        "protocol",
        "protocol_type",
        "settings",
        "sources",
        "state",
        "subscribed_topics",
        "sync_deadline_ms",
        "writes",
    )

    def __init__(self, group_id: str, settings: GroupSettings, sources: Sources) -> None:
        self.group_id = group_id
        self.settings = settings
        self.sources = sources
        self.state = GroupState.EMPTY
        self.current_state_timestamp = sources.wall_ms()
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members = Members()
        self.deadlines = Deadlines()
        self.join_phase: JoinPhase | None = None
        """Not None exactly while the state is PreparingRebalance."""
        self.sync_deadline_ms: float | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.writes: dict[int, PendingWrite] = {}
        self.last_token = 0
        self.effects: list[Effect] = []

    def transition(self, state: GroupState) -> None:
        """The only place where the state changes."""
        check_transition(self.state, state)
        self.state = state
        self.current_state_timestamp = self.sources.wall_ms()

    def reply(self, waiter: object, result: Result) -> None:
        """The one answer to a waiter."""
        self.effects.append(Reply(waiter, result))

    def store(self, assignments: dict[str, bytes], write: PendingWrite | None) -> None:
        """Ask for a write of the group with these assignments. write: what happens once it was written or was not."""
        self.last_token += 1
        if write is not None:
            self.writes[self.last_token] = write
        self.effects.append(Store(self.snapshot(assignments), self.last_token))

    def snapshot(self, assignments: dict[str, bytes]) -> GroupSnapshot:
        """The group as it is, with assignments by member id."""
        return GroupSnapshot(
            self.group_id,
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.members.leader,
            self.current_state_timestamp,
            tuple(
                MemberSnapshot(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    dict(member.protocols).get(self.protocol or "", b""),
                    assignments.get(member.member_id, b""),
                )
                for member in self.members
            ),
        )

    def assignments(self) -> dict[str, bytes]:
        """Of all members, by member id."""
        return {member.member_id: member.assignment for member in self.members}

    def begin_session(self, member: Member, now_ms: float) -> None:
        """The member has shown itself, or was just answered: its session starts anew."""
        self.deadlines.set(member.member_id, now_ms + member.session_timeout_ms)

    def begin_wait(self, member: Member, now_ms: float) -> None:
        """The member is new, and its first JoinGroup waits: it sends no heartbeats before it has the answer."""
        self.deadlines.set(member.member_id, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)

    def answer_join(self, member: Member, result: JoinResult, now_ms: float) -> None:
        """Answer the member's waiting JoinGroup, if one waits, and start its session."""
        waiter = member.waiting_join
        if waiter is not None:
            self.members.wait_for_join(member, None)
            self.reply(waiter, result)
            self.begin_session(member, now_ms)

    def answer_sync(self, member: Member, result: SyncResult, now_ms: float) -> None:
        """Answer the member's waiting SyncGroup, if one waits, and start its session."""
        waiter, member.waiting_sync = member.waiting_sync, None
        if waiter is not None:
            self.reply(waiter, result)
            self.begin_session(member, now_ms)

    def rejoin(self, member: Member, waiter: object, request: JoinGroup) -> None:
        """The member joins with what it says of itself now. An earlier JoinGroup of it is told to come again."""
        if member.waiting_join is not None:
            self.reply(member.waiting_join, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        self.members.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        self.members.wait_for_join(member, waiter)

    def remove(self, member_id: str, error: ErrorCode) -> None:
        """Member or pending id goes; requests of it that wait are answered with the error."""
        member = self.members.get(member_id)
        if member is not None:
            if member.waiting_join is not None:
                self.reply(member.waiting_join, JoinResult(error, UNKNOWN_MEMBER))
            if member.waiting_sync is not None:
                self.reply(member.waiting_sync, SyncResult(error))
        self.members.remove(member_id)
        if member is not None:
            member.waiting_join = member.waiting_sync = None
        self.deadlines.remove(member_id)

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """The instance, where one is named, has that member id, and the member id is a member's."""
        if group_instance_id is not None:
            current = self.members.static_id(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def compute_subscribed_topics(self) -> None:
        """Of a consumer group: the topics of all members together, None where one member's metadata is not readable."""
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return
        topics: frozenset[str] = frozenset()
        for member in self.members:
            of_member = subscribed_topics(member.metadata(self.protocol or ""))
            if of_member is None:
                return
            topics |= of_member
        self.subscribed_topics = topics
