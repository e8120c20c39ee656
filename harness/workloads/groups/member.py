"""One member of a group as it knows itself: its id, generation, partitions and positions, and what it does next.

Pure but for the random stream that it is given. Must not know sockets or the history. Invariant: a position is the next
position of an answered poll of this ownership, or what was committed when the ownership began.
Source: ConsumerCoordinator, KIP-345 (static members), KIP-429 (cooperative rebalancing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from harness.workloads.groups import assignors

Rebalance = Literal["eager", "cooperative"]
Step = Literal["join", "sync", "heartbeat", "leave", "poll", "commit_offsets", "fetch_offsets"]

HEARTBEAT_NS = 400_000_000
"""Between heartbeats; a session lasts several of them."""

# What a member does between heartbeats, beside polling. A commit by who the member was before shows whether old
# generations and fenced instances are refused.
COMMITS, READS, ZOMBIES = 0.25, 0.05, 0.04
ZOMBIES_AWAY = 0.2
# How often, for each heartbeat that is due, a member leaves, falls silent, or begins anew as another client would.
LEAVES, SILENCES, RESTARTS = 0.02, 0.02, 0.02
CALM_RETURNS = 0.15
"""How often a static member begins anew while nothing else disturbs its group, for each heartbeat that is due."""


@dataclass(frozen=True, slots=True)
class Former:
    """Who a member was: what a zombie goes on as."""

    member: str
    generation: int
    positions: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Membership:
    """State of one member. instance: of a static one. Times: CLOCK_MONOTONIC in ns."""

    group: str
    topic: str
    rebalance: Rebalance
    instance: str | None
    partitions: int
    session_ns: int
    rng: Random
    member: str = ""
    generation: int = -1
    leader: str = ""
    protocol: str = ""
    subscribed: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(member id, partitions owned) of all members; the leader alone has them."""
    joined: bool = False
    synced: bool = False
    owned: tuple[int, ...] = ()
    positions: dict[int, int] = field(default_factory=dict)
    uncommitted: set[int] = field(default_factory=set)
    former: Former | None = None
    committing: Former | None = None
    """As whom the commit that comes now is made; None: as the member itself."""
    heartbeat_at_ns: int = 0
    silent_until_ns: int = 0
    rejoin_at_ns: int = 0

    @property
    def protocol_name(self) -> str:
        """The assignor that the group uses."""
        return assignors.RANGE if self.rebalance == "eager" else assignors.COOPERATIVE_STICKY

    def subscription(self) -> bytes:
        """What a JoinGroup says of this member: with eager rebalancing it owns nothing by then."""
        return assignors.subscription(self.topic, self.owned if self.rebalance == "cooperative" else ())

    def next_step(self, now_ns: int, *, calm: bool) -> Step:
        """What the member does now. calm: it only reads on and commits; a static one may begin anew, too."""
        if calm:
            self.silent_until_ns = self.rejoin_at_ns = 0
        self.committing = None
        if self.away(now_ns):
            # A client that hangs; somebody else looks at what the group has committed.
            return self._as_former() if self.rng.random() < ZOMBIES_AWAY else "fetch_offsets"
        if not self.joined:
            return "join"
        if not self.synced:
            return "sync"
        if now_ns >= self.heartbeat_at_ns:
            step = self._returned() if calm else self._disturbed(now_ns)
            self.heartbeat_at_ns = now_ns + HEARTBEAT_NS
            return step or "heartbeat"
        if any(partition not in self.positions for partition in self.owned) or not self.owned:
            return "fetch_offsets"
        chance = self.rng.random()
        if self.uncommitted and chance < COMMITS:
            return "commit_offsets"
        if not calm and COMMITS <= chance < COMMITS + ZOMBIES:
            return self._as_former()
        return "fetch_offsets" if chance > 1 - READS else "poll"

    def away(self, now_ns: int) -> bool:
        """Whether the member does nothing of its own now."""
        return now_ns < max(self.silent_until_ns, self.rejoin_at_ns)

    def _as_former(self) -> Step:
        """A commit by who this member was; a look at the group's offsets where it was nobody."""
        self.committing = self.former
        return "fetch_offsets" if self.former is None else "commit_offsets"

    def _disturbed(self, now_ns: int) -> Step | None:
        """What goes wrong with the client, if anything does."""
        chance = self.rng.random()
        if chance < LEAVES and self.instance is None:
            self.rejoin_at_ns = now_ns + int(self.rng.uniform(0.2, 1.0) * 1e9)
            return "leave"
        if LEAVES <= chance < LEAVES + SILENCES:
            self.silent_until_ns = now_ns + int(self.session_ns * self.rng.uniform(1.1, 1.6))
            self.remember()
            return "fetch_offsets"
        if LEAVES + SILENCES <= chance < LEAVES + SILENCES + RESTARTS:
            # The process is started anew: a static member takes its own place, under a new id.
            self.begin_anew()
            return "join"
        return None

    def _returned(self) -> Step | None:
        """A static member that begins anew takes its own place, and its group goes on (KIP-345)."""
        if self.instance is None or self.rng.random() >= CALM_RETURNS:
            return None
        self.begin_anew()
        return "join"

    def remember(self) -> None:
        """Keep who this member is now, as the one that will be a zombie."""
        if self.member and self.generation >= 0 and self.positions:
            self.former = Former(self.member, self.generation, tuple(sorted(self.positions.items())))

    # -- what came back ----------------------------------------------------------------------------------------------

    def has_joined(
        self, member: str, generation: int, leader: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> None:
        """members: (member id, metadata), for the leader."""
        if self.rebalance == "eager":
            self.drop_all()
        self.member, self.generation, self.leader, self.protocol = member, generation, leader, protocol
        self.subscribed = tuple((one, assignors.owned_in(metadata)) for one, metadata in members)
        self.joined, self.synced = True, False

    def assignments(self) -> dict[str, bytes]:
        """What the leader gives to whom; nothing from the others."""
        if self.member != self.leader or not self.subscribed:
            return {}
        if self.rebalance == "eager":
            given = assignors.by_range([member for member, _ in self.subscribed], self.partitions)
        else:
            given = assignors.cooperative_sticky(dict(self.subscribed), self.partitions)
        return {member: assignors.assignment(self.topic, mine) for member, mine in given.items()}

    def has_synced(self, partitions: tuple[int, ...], now_ns: int) -> None:
        """Cooperative members that lost a partition give it up and join once more (KIP-429)."""
        given_up = [partition for partition in self.owned if partition not in partitions]
        self.owned = partitions
        self.positions = {p: at for p, at in self.positions.items() if p in partitions}
        self.uncommitted &= set(partitions)
        self.synced = True
        self.heartbeat_at_ns = now_ns + HEARTBEAT_NS
        if given_up and self.rebalance == "cooperative":
            self.join_again()

    def has_fetched(self, offsets: dict[int, int]) -> None:
        """Positions of partitions that the member has just got; where none is committed it begins at 0."""
        for partition in self.owned:
            if partition not in self.positions and partition in offsets:
                self.positions[partition] = max(0, offsets[partition])

    def has_polled(self, partition: int, next_position: int) -> None:
        """The member has processed what it read."""
        if next_position > self.positions.get(partition, -1):
            self.uncommitted.add(partition)
        self.positions[partition] = next_position

    def refused(self, error: str) -> None:
        """What the coordinator's error makes of the member."""
        match error:
            case "UNKNOWN_MEMBER_ID" | "FENCED_INSTANCE_ID":
                self.begin_anew()
            case "ILLEGAL_GENERATION":
                self.remember()
                self.drop_all()
                self.join_again()
            case "REBALANCE_IN_PROGRESS" | "INCONSISTENT_GROUP_PROTOCOL":
                self.join_again()
            case _:
                pass

    def join_again(self) -> None:
        """The next step is a join, under the same id."""
        self.remember()
        self.joined = self.synced = False

    def begin_anew(self) -> None:
        """As a client that was just started: without an id, owning nothing."""
        self.remember()
        self.member, self.generation, self.leader = "", -1, ""
        self.joined = self.synced = False
        self.drop_all()

    def drop_all(self) -> None:
        """The member owns nothing any more."""
        self.owned, self.positions, self.uncommitted = (), {}, set()
