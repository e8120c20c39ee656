"""A group as DescribeGroups and ListGroups show it.

Source: kafka.coordinator.group.GroupSummary, MemberSummary.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.group.states import GroupState


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """metadata and assignment are empty unless the group is stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """protocol: "" unless the group is stable."""

    state: GroupState
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]
