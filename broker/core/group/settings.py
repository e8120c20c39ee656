"""What a broker's settings say about all groups, and where the rules get ids and wall time from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""A new member whose JoinGroup waits so long is removed: its client may be gone. Kafka: NewMemberJoinTimeoutMs."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Defaults are Kafka's; the last two bounds are our own, which Kafka does not have."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    max_size: int = 2**31 - 1
    """group.max.size"""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    max_pending_members: int = 10_000
    """Member ids given out that did not join yet (KIP-394). Beyond, the oldest is forgotten."""
    max_subscription_bytes: int = 64 * 1024 * 1024
    """Protocol names and metadata of all members together. Who would exceed it gets GROUP_MAX_SIZE_REACHED."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What pure rules cannot make themselves."""

    new_member_suffix: Callable[[], str]
    """Unique text, a UUID: a member id is the client id or the instance id, "-" and this."""
    wall_ms: Callable[[], int]
    """Milliseconds since 1970, for the time stamp that a snapshot carries."""
