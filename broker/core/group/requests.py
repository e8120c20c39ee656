"""What members ask of a group. Fields as the requests have them; None is null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

UNKNOWN_MEMBER: Final = ""
"""The member id of a client that has none yet."""
NO_GENERATION: Final = -1

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata), most wanted first."""


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """requires_known_member_id: JoinGroup 4 on (KIP-394). supports_skipping_assignment: 9 on (KIP-814)."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_member_id: bool = True
    supports_skipping_assignment: bool = True
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """assignments: member id → assignment, from the leader alone. protocol_type and _name: SyncGroup 5 on (KIP-559)."""

    member_id: str
    group_instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life; the answer says whether a rebalance is on."""

    member_id: str
    group_instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """An empty member id with an instance id: an administrator removes a static member (KIP-345)."""

    member_id: str
    group_instance_id: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """One or many members go."""

    members: tuple[LeavingMember, ...]
