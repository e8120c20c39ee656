"""Administrative requests as functions: what a tool asks for, sent to the broker that can say it.

Decides who is asked and which error codes mean another try. Errors of single topics, groups or partitions are raised as
BrokerError unless a function hands them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import BrokerError, check
from broker.wire.errors import ErrorCode
from broker.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from broker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementallyAlterableConfig,
    IncrementallyAlteredResource,
)
from broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from broker.wire.messages.metadata import MetadataResponseTopic

_TOPIC_NAMES_UP_TO: Final = 5
"""DeleteTopics 6 has another field, for names and ids; this client asks by name only."""

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16

DEFAULT_SOURCE: Final = 5
SOURCES: Final[Mapping[int, str]] = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    DEFAULT_SOURCE: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
}
"""Where a setting's value comes from. Source: DescribeConfigsResponse.ConfigSource."""

SET: Final = 0
DELETE: Final = 1

TopicPartition = tuple[str, int]


class Reassignment(NamedTuple):
    """replicas: all of them while it goes on, those that leave included."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def describe_topics(cluster: Cluster, names: Sequence[str] | None = None) -> dict[str, MetadataResponseTopic]:
    """Topics by name, all of them for None. Raises BrokerError for one that is not there."""
    found = {topic.name or "": topic for topic in cluster.metadata(names, "describeTopics").topics}
    for topic in found.values():
        check(topic.error_code)
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    return dict(sorted(found.items()))


def topic_names(cluster: Cluster, *, internal: bool = True) -> list[str]:
    """Names of all topics, sorted."""
    topics = cluster.metadata(None, "listTopics").topics
    return sorted(topic.name or "" for topic in topics if internal or not topic.is_internal)


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    assignment: Mapping[int, Sequence[int]],
    configs: Mapping[str, str],
) -> None:
    """None: the broker's default. Raises BrokerError."""
    topic = CreatableTopic(
        name,
        -1 if partitions is None or assignment else partitions,
        -1 if replication_factor is None or assignment else replication_factor,
        [CreatableReplicaAssignment(index, list(replicas)) for index, replicas in assignment.items()],
        [CreatableTopicConfig(key, value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest([topic], _timeout_ms(cluster))

    def verify(response: CreateTopicsResponse) -> None:
        _raise_moved(one.error_code for one in response.topics)

    response = cluster.controller("createTopics", request, CreateTopicsResponse, verify)
    for one in response.topics:
        check(one.error_code, one.error_message)


def create_partitions(
    cluster: Cluster, counts: Mapping[str, int], assignments: Sequence[Sequence[int]] | None = None
) -> None:
    """counts: the new number of partitions by topic. assignments: of the new partitions, None: as the controller likes.

    Raises BrokerError.
    """
    placed = None if assignments is None else [CreatePartitionsAssignment(list(replicas)) for replicas in assignments]
    topics = [CreatePartitionsTopic(name, count, placed) for name, count in counts.items()]
    request = CreatePartitionsRequest(topics, _timeout_ms(cluster))

    def verify(response: CreatePartitionsResponse) -> None:
        _raise_moved(one.error_code for one in response.results)

    response = cluster.controller("createPartitions", request, CreatePartitionsResponse, verify)
    for one in response.results:
        check(one.error_code, one.error_message)


def delete_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Raises BrokerError for the first that cannot be deleted; the others are."""
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=_timeout_ms(cluster))

    def verify(response: DeleteTopicsResponse) -> None:
        _raise_moved(one.error_code for one in response.responses)

    response = cluster.controller("deleteTopics", request, DeleteTopicsResponse, verify, at_most=_TOPIC_NAMES_UP_TO)
    for one in response.responses:
        check(one.error_code, one.error_message)


def _timeout_ms(cluster: Cluster) -> int:
    """For how long the controller may wait: as long as this client waits for a response."""
    return int(cluster.settings.request_timeout * 1000)


def _raise_moved(codes: Iterable[int]) -> None:
    """Another try helps where the broker is not the controller any more; every other error is the answer."""
    if ErrorCode.NOT_CONTROLLER in codes:
        raise BrokerError(ErrorCode.NOT_CONTROLLER)


def describe_configs(
    cluster: Cluster, kind: int, names: Sequence[str], *, synonyms: bool = False
) -> dict[str, list[DescribeConfigsResourceResult]]:
    """Settings of topics or brokers by name. A broker says its own, whoever responds all others. Raises BrokerError."""
    resources = [DescribeConfigsResource(kind, name) for name in names]
    request = DescribeConfigsRequest(resources, include_synonyms=synonyms)
    if not resources:
        return {}
    broker_id = int(names[0]) if kind in (BROKER, BROKER_LOGGER) and names[0] else None

    def attempt(deadline: float) -> DescribeConfigsResponse:
        if broker_id is None:
            return cluster.any(request, DescribeConfigsResponse, deadline)
        return cluster.at(broker_id, request, DescribeConfigsResponse, deadline)

    response = cluster.retry("describeConfigs", attempt)
    for one in response.results:
        check(one.error_code, one.error_message)
    return {one.resource_name: one.configs for one in response.results}


def alter_configs(cluster: Cluster, kind: int, name: str, added: Mapping[str, str], deleted: Iterable[str]) -> None:
    """Set and remove single settings of one topic or broker. Raises BrokerError."""
    changes = [IncrementallyAlterableConfig(key, SET, value) for key, value in added.items()]
    changes += [IncrementallyAlterableConfig(key, DELETE, "") for key in deleted]
    request = IncrementalAlterConfigsRequest([IncrementallyAlteredResource(kind, name, changes)])
    response_type = IncrementalAlterConfigsResponse

    def at_broker(deadline: float) -> IncrementalAlterConfigsResponse:
        return cluster.at(int(name), request, response_type, deadline)

    if kind in (BROKER, BROKER_LOGGER) and name:
        response = cluster.retry("incrementalAlterConfigs", at_broker)
    else:
        response = cluster.controller(
            "incrementalAlterConfigs",
            request,
            response_type,
            lambda found: _raise_moved(one.error_code for one in found.responses),
        )
    for one in response.responses:
        check(one.error_code, one.error_message)


def list_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """What goes on, of all partitions for None. Raises BrokerError."""
    topics = None
    if partitions is not None:
        topics = [ListPartitionReassignmentsTopics(topic, indexes) for topic, indexes in by_topic(partitions).items()]
    request = ListPartitionReassignmentsRequest(_timeout_ms(cluster), topics)
    response = cluster.controller(
        "listPartitionReassignments",
        request,
        ListPartitionReassignmentsResponse,
        lambda found: check(found.error_code, found.error_message),
    )
    return {
        (topic.name, one.partition_index): Reassignment(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in response.topics
        for one in topic.partitions
    }


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, both sorted."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(set(partitions)):
        found.setdefault(topic, []).append(partition)
    return found
