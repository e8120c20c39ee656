"""Groups as an administrator sees them: which there are, their members, their committed offsets.

Only groups of the classic protocol, whose coordinators answer DescribeGroups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.tools.client.admin import TopicPartition, by_topic
from broker.tools.client.cluster import GROUP, Cluster, Node
from broker.tools.client.errors import BrokerError, check
from broker.wire.coordinator_records.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolAssignment
from broker.wire.errors import ErrorCode
from broker.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from broker.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from broker.wire.primitives import MalformedFrame

_DEAD: Final = "Dead"


class Member(NamedTuple):
    """assigned: sorted. instance_id: "" for a dynamic member."""

    id: str
    instance_id: str
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...]


class Group(NamedTuple):
    """state: as the coordinator says, `Dead` for a group that is not there. strategy: the assignor's name."""

    id: str
    state: str
    strategy: str
    members: tuple[Member, ...]
    coordinator: Node


class Committed(NamedTuple):
    """A committed offset, with the leader epoch of the record before it (−1 unknown) and the committer's text."""

    offset: int
    epoch: int
    metadata: str


def list_groups(cluster: Cluster, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """Consumer groups of all brokers, sorted by id. Raises BrokerError."""
    request = ListGroupsRequest(list(states), list(types))
    found: dict[str, ListedGroup] = {}
    for response in cluster.every_broker("listGroups", request, ListGroupsResponse).values():
        check(response.error_code)
        found.update((one.group_id, one) for one in response.groups if one.protocol_type in ("", PROTOCOL_TYPE))
    return [found[name] for name in sorted(found)]


def describe_group(cluster: Cluster, group_id: str) -> Group:
    """Raises BrokerError, among it for a group that is none of consumers."""

    def verify(response: DescribeGroupsResponse) -> None:
        check(response.groups[0].error_code)

    request = DescribeGroupsRequest([group_id])
    response = cluster.coordinator("describeGroups", GROUP, group_id, request, DescribeGroupsResponse, verify)
    described = response.groups[0]
    if described.protocol_type not in ("", PROTOCOL_TYPE):
        raise BrokerError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"GroupId {group_id} is not a consumer group ({described.protocol_type})."
        )
    coordinator = cluster.retry("findCoordinator", lambda deadline: cluster.coordinator_id(GROUP, group_id, deadline))
    members = tuple(_members(described))
    return Group(group_id, described.group_state or _DEAD, described.protocol_data, members, cluster.nodes[coordinator])


def _members(group: DescribedGroup) -> Iterable[Member]:
    for one in group.members:
        assigned: list[TopicPartition] = []
        if one.member_assignment:
            try:
                given = ConsumerProtocolAssignment.decode(one.member_assignment).assigned_partitions
            except MalformedFrame as error:
                raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"assignment of {one.member_id}: {error}") from None
            assigned = [(owned.topic, partition) for owned in given for partition in owned.partitions]
        yield Member(
            one.member_id, one.group_instance_id or "", one.client_id, one.client_host, tuple(sorted(assigned))
        )


def committed_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, stable: bool = False
) -> dict[TopicPartition, Committed]:
    """Of all partitions for None; one without an offset is left out. stable: wait for transactions that commit some.

    Raises BrokerError, TimedOut.
    """
    topics = None
    if partitions is not None:
        topics = [OffsetFetchRequestTopics(topic, indexes) for topic, indexes in by_topic(partitions).items()]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=topics)], require_stable=stable)

    def verify(response: OffsetFetchResponse) -> None:
        check(response.groups[0].error_code)
        for topic in response.groups[0].topics:
            for one in topic.partitions:
                check(one.error_code)

    response = cluster.coordinator("offsetFetch", GROUP, group_id, request, OffsetFetchResponse, verify)
    return {
        (topic.name, one.partition_index): Committed(
            one.committed_offset, one.committed_leader_epoch, one.metadata or ""
        )
        for topic in response.groups[0].topics
        for one in topic.partitions
        if one.committed_offset >= 0
    }


def commit_request(
    group_id: str, offsets: Mapping[TopicPartition, Committed], generation: int = -1, member_id: str = ""
) -> OffsetCommitRequest:
    """generation and member: as a member; without them for a group that has no members."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            [OffsetCommitRequestPartition(index, *offsets[topic, index]) for index in indexes],
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    return OffsetCommitRequest(group_id, generation, member_id, topics=topics)


def check_committed(response: OffsetCommitResponse) -> None:
    """Raises BrokerError for the first partition whose offset was not taken."""
    for topic in response.topics:
        for one in topic.partitions:
            check(one.error_code)


def alter_offsets(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit for a group without members. Raises BrokerError, TimedOut."""
    request = commit_request(group_id, {one: Committed(offset, -1, "") for one, offset in offsets.items()})
    if offsets:
        cluster.coordinator("offsetCommit", GROUP, group_id, request, OffsetCommitResponse, check_committed)


def delete_group(cluster: Cluster, group_id: str) -> None:
    """Raises BrokerError, among it NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND."""
    cluster.coordinator(
        "deleteConsumerGroups",
        GROUP,
        group_id,
        DeleteGroupsRequest([group_id]),
        DeleteGroupsResponse,
        lambda response: check(response.results[0].error_code),
    )


def delete_offsets(cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Error code by partition, 0 where the offset is gone. Raises BrokerError for an error of the whole group."""
    topics = [
        OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
        for topic, indexes in by_topic(partitions).items()
    ]
    response = cluster.coordinator(
        "deleteConsumerGroupOffsets",
        GROUP,
        group_id,
        OffsetDeleteRequest(group_id, topics),
        OffsetDeleteResponse,
        lambda response: check(response.error_code),
    )
    return {(topic.name, one.partition_index): one.error_code for topic in response.topics for one in topic.partitions}
