"""Requests of consumer groups as functions: arguments in, one exchange, what the harness needs of the response out.

Decides protocol versions and which fields count. Must not know members' states, retries or the history. As in
`requests`, an error code of the broker is a value (`error`: Kafka's name), and ClientError is raised where there is no
response that can be read.
Source: KIP-62, KIP-345, KIP-394; the messages are JoinGroupRequest.json and its like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from harness.clients.connection import Connection
from harness.clients.responses import decoded, malformed

JOIN_VERSION = 7
SYNC_VERSION = 5
HEARTBEAT_VERSION = 4
LEAVE_VERSION = 4
COMMIT_VERSION = 8
FETCH_VERSION = 7

CONSUMER = "consumer"
"""The protocol type of consumers' groups."""


class Identity(NamedTuple):
    """Who asks. member: empty before the coordinator has given an id; instance: of a static member (KIP-345)."""

    group: str
    member: str
    generation: int
    instance: str | None = None


class Responded(NamedTuple):
    """A response with nothing but an error, or none."""

    error: str | None
    at_ns: int


class Joined(NamedTuple):
    """members: (member id, instance, metadata) of all, for the leader alone. member: also with MEMBER_ID_REQUIRED."""

    error: str | None
    member: str
    generation: int
    leader: str
    protocol: str
    members: tuple[tuple[str, str | None, bytes], ...]
    at_ns: int


class Synced(NamedTuple):
    """assignment: the bytes that the group's leader gave this member."""

    error: str | None
    assignment: bytes
    at_ns: int


class Committed(NamedTuple):
    """errors: partition → Kafka's name of its error, None where it is committed."""

    errors: Mapping[int, str | None]
    at_ns: int


class Fetched(NamedTuple):
    """offsets: partition → committed offset, −1 for none; empty with an error."""

    error: str | None
    offsets: Mapping[int, int]
    at_ns: int


def join_group(
    connection: Connection,
    who: Identity,
    protocols: Sequence[tuple[str, bytes]],
    *,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
    deadline_ns: int,
) -> Joined:
    """Blocks until the group has come together. protocols: assignor and subscription, the preferred one first."""
    request = JoinGroupRequest(
        group_id=who.group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=who.member,
        group_instance_id=who.instance,
        protocol_type=CONSUMER,
        protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
    )
    received = connection.exchange(ApiKey.JOIN_GROUP, JOIN_VERSION, request.encode(JOIN_VERSION), deadline_ns)
    response = decoded(connection, received, lambda: JoinGroupResponse.decode(JOIN_VERSION, received.body))
    members = tuple((one.member_id, one.group_instance_id, bytes(one.metadata)) for one in response.members)
    return Joined(
        _name(response.error_code),
        response.member_id,
        response.generation_id,
        response.leader,
        response.protocol_name or "",
        members,
        received.at_ns,
    )


def sync_group(
    connection: Connection, who: Identity, protocol: str, assignments: Mapping[str, bytes], deadline_ns: int
) -> Synced:
    """assignments: by member id, from the leader; empty from the others."""
    request = SyncGroupRequest(
        group_id=who.group,
        generation_id=who.generation,
        member_id=who.member,
        group_instance_id=who.instance,
        protocol_type=CONSUMER,
        protocol_name=protocol,
        assignments=[SyncGroupRequestAssignment(member, given) for member, given in assignments.items()],
    )
    received = connection.exchange(ApiKey.SYNC_GROUP, SYNC_VERSION, request.encode(SYNC_VERSION), deadline_ns)
    response = decoded(connection, received, lambda: SyncGroupResponse.decode(SYNC_VERSION, received.body))
    return Synced(_name(response.error_code), bytes(response.assignment), received.at_ns)


def heartbeat(connection: Connection, who: Identity, deadline_ns: int) -> Responded:
    """REBALANCE_IN_PROGRESS tells the member to join again."""
    request = HeartbeatRequest(who.group, who.generation, who.member, who.instance)
    received = connection.exchange(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request.encode(HEARTBEAT_VERSION), deadline_ns)
    response = decoded(connection, received, lambda: HeartbeatResponse.decode(HEARTBEAT_VERSION, received.body))
    return Responded(_name(response.error_code), received.at_ns)


def leave_group(connection: Connection, who: Identity, deadline_ns: int) -> Responded:
    """The error of the request, or of the member in it."""
    request = LeaveGroupRequest(group_id=who.group, members=[MemberIdentity(who.member, who.instance)])
    received = connection.exchange(ApiKey.LEAVE_GROUP, LEAVE_VERSION, request.encode(LEAVE_VERSION), deadline_ns)
    response = decoded(connection, received, lambda: LeaveGroupResponse.decode(LEAVE_VERSION, received.body))
    codes = [response.error_code, *[one.error_code for one in response.members]]
    return Responded(next((_name(code) for code in codes if code), None), received.at_ns)


def commit_offsets(
    connection: Connection, who: Identity, topic: str, offsets: Mapping[int, int], deadline_ns: int
) -> Committed:
    """offsets: partition → next offset to read."""
    request = OffsetCommitRequest(
        group_id=who.group,
        generation_id_or_member_epoch=who.generation,
        member_id=who.member,
        group_instance_id=who.instance,
        topics=[
            OffsetCommitRequestTopic(
                topic, [OffsetCommitRequestPartition(index, offset) for index, offset in offsets.items()]
            )
        ],
    )
    received = connection.exchange(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, request.encode(COMMIT_VERSION), deadline_ns)
    response = decoded(connection, received, lambda: OffsetCommitResponse.decode(COMMIT_VERSION, received.body))
    errors = {
        one.partition_index: _name(one.error_code)
        for part in response.topics
        if part.name == topic
        for one in part.partitions
    }
    if errors.keys() != offsets.keys():
        raise malformed(connection, f"results for partitions {sorted(errors)}, {sorted(offsets)} were committed")
    return Committed(errors, received.at_ns)


def fetch_offsets(
    connection: Connection, group: str, topic: str, partitions: Sequence[int], deadline_ns: int
) -> Fetched:
    """What is committed for these partitions. The error is the response's, or the first of a partition."""
    request = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(topic, list(partitions))])
    received = connection.exchange(ApiKey.OFFSET_FETCH, FETCH_VERSION, request.encode(FETCH_VERSION), deadline_ns)
    response = decoded(connection, received, lambda: OffsetFetchResponse.decode(FETCH_VERSION, received.body))
    found = [one for part in response.topics if part.name == topic for one in part.partitions]
    for code in (response.error_code, *[one.error_code for one in found]):
        if code:
            return Fetched(error_name(code), {}, received.at_ns)
    offsets = {one.partition_index: one.committed_offset for one in found}
    if offsets.keys() != set(partitions):
        raise malformed(connection, f"offsets of partitions {sorted(offsets)}, {sorted(partitions)} were asked for")
    return Fetched(None, offsets, received.at_ns)


def _name(code: int) -> str | None:
    return error_name(code) if code else None
