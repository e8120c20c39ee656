"""One consumer group: the state machine as the runtime uses it.

Source: kafka.coordinator.group.GroupCoordinator, GroupMetadata.
"""

from __future__ import annotations

from broker.core.group import commits, joining, leaving, restoring, static_members, syncing, timeouts
from broker.core.group.description import DescribedMember, GroupDescription
from broker.core.group.effects import Effect, JoinResult, SyncResult
from broker.core.group.machine import Machine, StoredAssignment
from broker.core.group.requests import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from broker.core.group.settings import GroupSettings, Sources
from broker.core.group.snapshot import GroupSnapshot
from broker.core.group.states import GroupState
from broker.core.group.subscription import CONSUMER_PROTOCOL_TYPE
from broker.wire.errors import ErrorCode


class Group:
    """Times are monotonic ms and never go back. The effects of a call are to be done in their order.

    A waiter is any object but None; each gets exactly one Reply.
    """

    __slots__ = ("_machine",)

    def __init__(self, group_id: str, settings: GroupSettings, sources: Sources) -> None:
        """An empty group of generation 0."""
        self._machine = Machine(group_id, settings, sources)

    @classmethod
    def restore(cls, snapshot: GroupSnapshot, now_ms: float, settings: GroupSettings, sources: Sources) -> Group:
        """A group from the log: Stable, or Empty, or, if it has too many members, at the start of a rebalance."""
        group = cls.__new__(cls)
        group._machine = restoring.restore(snapshot, now_ms, settings, sources)
        return group

    @property
    def group_id(self) -> str:
        return self._machine.group_id

    @property
    def state(self) -> GroupState:
        return self._machine.state

    @property
    def generation(self) -> int:
        return self._machine.generation

    @property
    def protocol_type(self) -> str | None:
        return self._machine.protocol_type

    @property
    def current_state_timestamp(self) -> int:
        """Wall ms since which the group is in its state, −1 where the log does not say."""
        return self._machine.current_state_timestamp

    @property
    def is_empty(self) -> bool:
        """No members, so offsets may expire and the group may be deleted."""
        return self._machine.state is GroupState.EMPTY

    @property
    def is_unused(self) -> bool:
        """Never had a member and waits for none: without offsets it can be forgotten without a trace."""
        group = self._machine
        return group.state is GroupState.EMPTY and group.generation == 0 and not group.members.pending

    @property
    def is_consumer_group(self) -> bool:
        """Its members' metadata is the consumer protocol's."""
        return self._machine.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def size_bytes(self) -> int:
        """What members' protocols take in memory, about."""
        return self._machine.members.size_bytes

    @property
    def next_deadline_ms(self) -> float | None:
        """Call `on_time` then, not later; it may find nothing to do. None: time changes nothing."""
        return timeouts.next_deadline_ms(self._machine)

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """Of a consumer group, as of its newest generation; None where that is not known."""
        return self._machine.subscribed_topics

    def is_subscribed_to(self, topic: str) -> bool:
        """True where it is not known."""
        topics = self._machine.subscribed_topics
        return topics is None or topic in topics

    def join(self, waiter: object, request: JoinGroup, now_ms: float) -> list[Effect]:
        """JoinGroup. A member id in a group that does not exist is the caller's to refuse (UNKNOWN_MEMBER_ID)."""
        joining.join(self._machine, waiter, request, now_ms)
        return self._taken()

    def sync(self, waiter: object, request: SyncGroup, now_ms: float) -> list[Effect]:
        """SyncGroup; the leader's brings a Store."""
        syncing.sync(self._machine, waiter, request, now_ms)
        return self._taken()

    def heartbeat(self, waiter: object, request: Heartbeat, now_ms: float) -> list[Effect]:
        """Heartbeat, answered at once."""
        commits.heartbeat(self._machine, waiter, request, now_ms)
        return self._taken()

    def leave(self, waiter: object, request: LeaveGroup, now_ms: float) -> list[Effect]:
        """LeaveGroup, answered at once."""
        leaving.leave(self._machine, waiter, request, now_ms)
        return self._taken()

    def on_time(self, now_ms: float) -> list[Effect]:
        """Time has passed: whatever is due happens."""
        timeouts.on_time(self._machine, now_ms)
        return self._taken()

    def stored(self, token: int, error: ErrorCode, now_ms: float) -> list[Effect]:
        """A Store was done. error: as clients are to be told it, see `errors.store_error`; NONE: written."""
        write = self._machine.writes.pop(token, None)
        if isinstance(write, StoredAssignment):
            syncing.stored(self._machine, write, error, now_ms)
        elif write is not None:
            static_members.stored(self._machine, write, error, now_ms)
        return self._taken()

    def check_commit(self, member_id: str, generation: int, group_instance_id: str | None, now_ms: float) -> ErrorCode:
        """Whether OffsetCommit may commit; NONE starts the member's session anew."""
        return commits.check_commit(self._machine, member_id, generation, group_instance_id, now_ms)

    def check_transactional_commit(self, member_id: str, generation: int, group_instance_id: str | None) -> ErrorCode:
        """Whether TxnOffsetCommit may commit."""
        return commits.check_transactional_commit(self._machine, member_id, generation, group_instance_id)

    def delete(self) -> ErrorCode:
        """An Empty group is Dead from then on; NON_EMPTY_GROUP for others, GROUP_ID_NOT_FOUND for a Dead one."""
        group = self._machine
        if group.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self._end()
        return ErrorCode.NONE

    def unload(self, error: ErrorCode, now_ms: float) -> list[Effect]:
        """The coordinator moved: all that wait get the error, NOT_COORDINATOR, and the group is Dead."""
        group = self._machine
        for member in group.members:
            group.answer_join(member, JoinResult(error, member.member_id), now_ms)
            group.answer_sync(member, SyncResult(error), now_ms)
        self._end()
        return self._taken()

    def snapshot(self) -> GroupSnapshot:
        """The group as it is now. Its members' subscriptions are empty where no protocol has been chosen yet."""
        group = self._machine
        return group.snapshot(group.assignments())

    def describe(self) -> GroupDescription:
        """For DescribeGroups: protocol, metadata and assignments of a stable group alone."""
        group = self._machine
        protocol = group.protocol if group.state is GroupState.STABLE and group.protocol is not None else ""
        return GroupDescription(
            group.state,
            group.protocol_type or "",
            protocol,
            tuple(
                DescribedMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata(protocol) if protocol else b"",
                    member.assignment if protocol else b"",
                )
                for member in group.members
            ),
        )

    def _end(self) -> None:
        group = self._machine
        group.transition(GroupState.DEAD)
        group.join_phase = None
        group.sync_deadline_ms = None
        group.deadlines.clear()
        group.writes.clear()
        group.members.pending.clear()
        group.members.pending_sync.clear()

    def _taken(self) -> list[Effect]:
        effects, self._machine.effects = self._machine.effects, []
        return effects
