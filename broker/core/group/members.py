"""Who belongs to a group: members, static members' ids, pending ids, the leader, and the vote for a protocol.

Decides nothing about states. Order is the order of arrival: the first member leads, and leads again when the leader is
gone. Source: kafka.coordinator.group.GroupMetadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set

from broker.core.group.member import Member, protocols_size
from broker.core.group.requests import Protocols


class Members:
    """`leader`: None exactly while there is no member. `size_bytes`: of all protocol names and metadata."""

    __slots__ = ("_by_id", "_static_ids", "_supporters", "joining", "leader", "pending", "pending_sync", "size_bytes")

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._static_ids: dict[str, str] = {}
        self._supporters: dict[str, int] = {}
        """Protocol → how many members support it, never 0."""
        self.leader: str | None = None
        self.joining = 0
        """Members whose JoinGroup waits."""
        self.pending: dict[str, None] = {}
        """Ids given out to clients that did not join with them yet (KIP-394), oldest first."""
        self.pending_sync: set[str] = set()
        """Members that were told of the current generation and did not send SyncGroup yet."""
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def get(self, member_id: str) -> Member | None:
        """None for who is no member, which a pending id is not."""
        return self._by_id.get(member_id)

    def static_id(self, group_instance_id: str) -> str | None:
        """The member id that an instance has now."""
        return self._static_ids.get(group_instance_id)

    @property
    def all_joined(self) -> bool:
        """Nobody has to be waited for: all members join, and nobody who was given an id is still on the way."""
        return self.joining == len(self._by_id) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member asks for, at least 0."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def add(self, member: Member, waiter: object | None) -> None:
        """A new member, whose id may have been pending. waiter: of its JoinGroup."""
        if member.group_instance_id is not None:
            self._static_ids[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._by_id[member.member_id] = member
        self.pending.pop(member.member_id, None)
        self._count(member, 1)
        self.wait_for_join(member, waiter)

    def remove(self, member_id: str) -> None:
        """Member or pending id; nothing happens for who is neither."""
        member = self._by_id.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            self.joining -= member.waiting_join is not None
            if member.group_instance_id is not None:
                self._static_ids.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self._by_id), None)
        self.pending.pop(member_id, None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member goes on under another id, in its role. Its waiters must have been answered."""
        old_id = member.member_id
        del self._by_id[old_id]
        self._by_id[new_id] = member
        member.member_id = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        if member.group_instance_id is not None:
            self._static_ids[member.group_instance_id] = new_id

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """What a member says of itself when it joins again."""
        self._count(member, -1)
        member.support(protocols)
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def wait_for_join(self, member: Member, waiter: object | None) -> None:
        """The member's JoinGroup that waits from now on; None: none does."""
        self.joining += (waiter is not None) - (member.waiting_join is not None)
        member.waiting_join = waiter

    def elect_joined_leader(self) -> bool:
        """A leader that did not join is replaced by a member that did; False where no member did."""
        if self.leader is not None and self._by_id[self.leader].waiting_join is None:
            joined = next((member.member_id for member in self if member.waiting_join is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def size_with(self, member_id: str, protocols: Protocols) -> int:
        """`size_bytes` if that member, new or old, had these protocols."""
        member = self._by_id.get(member_id)
        return self.size_bytes + protocols_size(protocols) - (member.size if member is not None else 0)

    def supports_any(self, protocols: Protocols) -> bool:
        """One of them at least is supported by all members."""
        return any(self._supporters.get(name, 0) == len(self._by_id) for name, _ in protocols)

    def candidates(self) -> Set[str]:
        """The protocols that all members support."""
        return {name for name, supporters in self._supporters.items() if supporters == len(self._by_id)}

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; most votes win, of equals the first.

        Raises ValueError without members, or where they have none in common, which joining prevents.
        """
        candidates = self.candidates()
        votes = Counter(member.vote(candidates) for member in self)
        if not votes:
            raise ValueError("nobody votes in a group without members")
        return votes.most_common(1)[0][0]

    def _count(self, member: Member, change: int) -> None:
        self.size_bytes += change * member.size
        for name in member.protocol_names:
            supporters = self._supporters.get(name, 0) + change
            if supporters:
                self._supporters[name] = supporters
            else:
                del self._supporters[name]
