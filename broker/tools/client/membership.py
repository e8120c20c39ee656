"""A member of a consumer group by the classic protocol: joins, takes its part of the partitions, heartbeats, commits.

The group's leader assigns by range. One thread: whoever uses it calls `heartbeat` often enough.
Source: KIP-62, KIP-345, KIP-394; org.apache.kafka.clients.consumer.internals.AbstractCoordinator.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from broker.tools.client.admin import TopicPartition
from broker.tools.client.assignor import RANGE, Subscriber, assign
from broker.tools.client.cluster import GROUP, Cluster
from broker.tools.client.connection import R
from broker.tools.client.errors import BrokerError, ToolError, Unreachable, check
from broker.tools.client.groups import Committed, commit_request, committed_offsets
from broker.tools.client.properties import Properties
from broker.wire.coordinator_records.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
)
from broker.wire.errors import ErrorCode
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from broker.wire.messages.offset_commit import OffsetCommitResponse
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from broker.wire.schema import Message

_LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_AGAIN: Final = (*_LOST, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED)


class GroupSettings(NamedTuple):
    """Times in seconds. instance_id: of a static member, None for a dynamic one."""

    group_id: str
    instance_id: str | None
    session_timeout: float
    rebalance_timeout: float
    heartbeat_interval: float


def group_settings(properties: Properties) -> GroupSettings:
    """By Kafka's names and defaults. Raises ToolError."""
    properties.text("group.protocol", "classic", ("classic",))
    return GroupSettings(
        properties.text("group.id", ""),
        properties.text("group.instance.id", "") or None,
        properties.number("session.timeout.ms", 45_000, 1) / 1000,
        properties.number("max.poll.interval.ms", 300_000, 1) / 1000,
        properties.number("heartbeat.interval.ms", 3000, 1) / 1000,
    )


class Membership:
    """topics: what the member asks for at this moment, and how many partitions each topic has."""

    def __init__(self, cluster: Cluster, settings: GroupSettings, topics: Callable[[], Mapping[str, int]]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._topics = topics
        self._member_id = ""
        self._generation = -1
        self._joined = False
        self._gone: set[str] = set()
        """Topics of which it was said that they are not there."""
        self._heartbeat_at = 0.0
        self._heard_at = 0.0

    def join(self) -> dict[TopicPartition, int | None]:
        """Join, or join again: the partitions that this member has now, with their committed offsets.

        Takes as long as the other members need to join as well. Raises ToolError.
        """
        while True:
            try:
                return self._join_once()
            except BrokerError as error:
                self._joined = False
                if error.code in _LOST:
                    self._member_id = ""
                elif error.code not in _AGAIN:
                    raise

    def _join_once(self) -> dict[TopicPartition, int | None]:
        wanted = self._topics()
        joined = self._ask("joinGroup", self._join_request(wanted), JoinGroupResponse, self._joined_or_raise)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        parts: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            parts = self._assignments(joined, wanted)
        synced = self._ask(
            "syncGroup",
            SyncGroupRequest(
                self._settings.group_id,
                self._generation,
                self._member_id,
                self._settings.instance_id,
                PROTOCOL_TYPE,
                joined.protocol_name,
                parts,
            ),
            SyncGroupResponse,
            lambda response: check(response.error_code),
        )
        self._joined = True
        self._heard()
        given = ConsumerProtocolAssignment.decode(synced.assignment).assigned_partitions if synced.assignment else []
        mine = [(owned.topic, partition) for owned in given for partition in owned.partitions]
        committed = committed_offsets(self._cluster, self._settings.group_id, mine, stable=True) if mine else {}
        return {where: committed[where].offset if where in committed else None for where in mine}

    def _join_request(self, wanted: Mapping[str, int]) -> JoinGroupRequest:
        subscription = ConsumerProtocolSubscription(sorted(wanted)).encode()
        return JoinGroupRequest(
            self._settings.group_id,
            int(self._settings.session_timeout * 1000),
            int(self._settings.rebalance_timeout * 1000),
            self._member_id,
            self._settings.instance_id,
            PROTOCOL_TYPE,
            [JoinGroupRequestProtocol(RANGE, subscription)],
        )

    def _joined_or_raise(self, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        check(response.error_code)

    def _assignments(self, joined: JoinGroupResponse, own: Mapping[str, int]) -> list[SyncGroupRequestAssignment]:
        subscribers = [
            Subscriber(
                one.member_id,
                one.group_instance_id or "",
                frozenset(ConsumerProtocolSubscription.decode(one.metadata).topics),
            )
            for one in joined.members
        ]
        partitions = dict(own)
        if others := sorted({topic for one in subscribers for topic in one.topics} - set(own)):
            for topic in self._cluster.metadata(others).topics:
                if not topic.error_code:
                    partitions[topic.name or ""] = len(topic.partitions)
        return [
            SyncGroupRequestAssignment(member_id, _encoded(mine))
            for member_id, mine in assign(subscribers, partitions).items()
        ]

    def _ask(self, what: str, request: Message, response: type[R], verify: Callable[[R], None]) -> R:
        """Of the coordinator, with the time that a rebalance may take."""
        longest = self._settings.rebalance_timeout + 5.0

        def attempt(_: float) -> R:
            deadline = time.monotonic() + longest
            return self._cluster.coordinator_once(GROUP, self._settings.group_id, request, response, verify, deadline)

        return self._cluster.retry(what, attempt, longest + self._cluster.settings.api_timeout)

    def _heard(self) -> None:
        self._heard_at = time.monotonic()
        self._heartbeat_at = self._heard_at + self._settings.heartbeat_interval

    def wait(self) -> float:
        """Seconds until the next heartbeat is due."""
        return max(self._heartbeat_at - time.monotonic(), 0.0)

    def heartbeat(self) -> bool:
        """Send one if it is due; whether the member still has its part. False: commit what may be, and `join`."""
        if not self._joined or self.wait() > 0:
            return self._joined
        now = time.monotonic()
        self._heartbeat_at = now + self._settings.heartbeat_interval
        request = HeartbeatRequest(
            self._settings.group_id, self._generation, self._member_id, self._settings.instance_id
        )
        try:
            self._cluster.coordinator_once(
                GROUP,
                self._settings.group_id,
                request,
                HeartbeatResponse,
                lambda response: check(response.error_code),
                now + min(self._settings.session_timeout, self._cluster.settings.request_timeout),
            )
        except Unreachable:
            return now - self._heard_at < self._settings.session_timeout
        except BrokerError as error:
            if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
                self._heard()
                return False
            if error.code in _LOST:
                self._joined = False
                self._member_id = ""
                return False
            if error.code == ErrorCode.FENCED_INSTANCE_ID:
                raise
            return True
        self._heard()
        return True

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Next offsets, as a member; one that lost its part commits nothing. Raises ToolError."""
        if not positions or not self._joined:
            return
        offsets = {where: Committed(offset, -1, "") for where, offset in positions.items()}
        request = commit_request(self._settings.group_id, offsets, self._generation, self._member_id)
        request.group_instance_id = self._settings.instance_id
        try:
            self._cluster.coordinator(
                "offsetCommit", GROUP, self._settings.group_id, request, OffsetCommitResponse, self._check_committed
            )
        except BrokerError as error:
            if error.code not in (*_LOST, ErrorCode.REBALANCE_IN_PROGRESS):
                raise

    def _check_committed(self, response: OffsetCommitResponse) -> None:
        """Raises BrokerError, but not for a topic that is deleted: no other try helps, and the others are committed."""
        for topic in response.topics:
            for one in topic.partitions:
                if one.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    check(one.error_code)
                elif topic.name not in self._gone:
                    self._gone.add(topic.name)
                    error = BrokerError(one.error_code)
                    print(
                        f"WARN offset of {topic.name}-{one.partition_index} was not committed: {error}", file=sys.stderr
                    )

    def leave(self) -> None:
        """A dynamic member's partitions go to others at once; a static one stays until its session ends."""
        if not self._member_id or self._settings.instance_id is not None:
            return
        identity = MemberIdentity(self._member_id, None, "the consumer is being closed")
        request = LeaveGroupRequest(self._settings.group_id, members=[identity])
        deadline = time.monotonic() + self._cluster.settings.request_timeout
        # The session's end does the same, later.
        with contextlib.suppress(ToolError):
            self._cluster.coordinator_once(
                GROUP,
                self._settings.group_id,
                request,
                LeaveGroupResponse,
                lambda found: check(found.error_code),
                deadline,
            )
        self._joined = False
        self._member_id = ""


def _encoded(mine: list[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in mine:
        topics.setdefault(topic, []).append(partition)
    owned = [OwnedPartitions(topic, partitions) for topic, partitions in topics.items()]
    return ConsumerProtocolAssignment(owned).encode(1)
