"""A group as its record in `__consumer_offsets` holds it.

Source: GroupMetadataValue.json, version 3.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """subscription: the member's metadata for the group's protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """protocol and leader are None without members. current_state_timestamp: wall ms, −1 where not known."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    members: tuple[MemberSnapshot, ...]
