"""One member of a group: who it is, what it supports, and which of its requests waits.

Source: kafka.coordinator.group.MemberMetadata.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from broker.core.group.requests import Protocols

PROTOCOL_OVERHEAD_BYTES: Final = 128
"""What one protocol costs beside its name and metadata, so that many empty ones are not free."""


def protocols_size(protocols: Protocols) -> int:
    """Bytes held for them, about."""
    return sum(len(name) + len(metadata) + PROTOCOL_OVERHEAD_BYTES for name, metadata in protocols)


class Member:
    """waiting_join, waiting_sync: the waiter of the request that is not answered yet."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocol_names",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "size",
        "waiting_join",
        "waiting_sync",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.support(protocols)
        self.assignment = assignment
        self.waiting_join: object | None = None
        self.waiting_sync: object | None = None
        self.is_new = False
        """Its first JoinGroup is not answered yet, so that it cannot send heartbeats."""

    def support(self, protocols: Protocols) -> None:
        """These protocols from now on, most wanted first."""
        self.protocols = protocols
        self.protocol_names = frozenset(name for name, _ in protocols)
        self.size = protocols_size(protocols)

    @property
    def is_static(self) -> bool:
        """KIP-345."""
        return self.group_instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """The coordinator owes it an answer, so it owes no heartbeat."""
        return self.waiting_join is not None or self.waiting_sync is not None

    def metadata(self, protocol: str) -> bytes:
        """Of a protocol that it supports; raises KeyError for another."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)

    def vote(self, candidates: Set[str]) -> str:
        """The first of its protocols that all support; raises ValueError where it supports no candidate."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise ValueError("a member supports none of the protocols that all members support")
