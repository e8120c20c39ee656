"""Leaders of partitions, and offsets that they tell: the end, the start, or by time.

Source: ListOffsetsRequest (Kafka); KIP-79, KIP-734.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from broker.tools.client.admin import TopicPartition, by_topic
from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import BrokerError, ToolError
from broker.wire.errors import ErrorCode
from broker.wire.isolation import READ_UNCOMMITTED
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


class Leader(NamedTuple):
    """broker_id: −1 for none."""

    broker_id: int
    epoch: int


class Listed(NamedTuple):
    """offset: −1 where there is no record with that time or a later one. timestamp: ms, −1 where none was asked for."""

    offset: int
    timestamp: int


def leaders(
    cluster: Cluster,
    topics: Iterable[str],
    deadline: float,
    passed_over: Callable[[str, BrokerError], None] | None = None,
) -> dict[TopicPartition, Leader]:
    """Of all partitions of these topics. Raises BrokerError for a topic with an error, Unreachable.

    passed_over: called for such a topic instead, of which nothing is said then.
    """
    names = sorted(set(topics))
    found = {}
    for topic in cluster.metadata_once(names, deadline).topics:
        if topic.error_code:
            error = BrokerError(topic.error_code)
            if passed_over is None:
                raise error
            passed_over(topic.name or "", error)
            continue
        for one in topic.partitions:
            found[topic.name or "", one.partition_index] = Leader(one.leader_id, one.leader_epoch)
    return found


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, Listed]:
    """wanted: by partition a time in ms, or one of `list_offsets_timestamps`. Raises BrokerError, TimedOut.

    Leaders are looked up again until all partitions have told.
    """
    found: dict[TopicPartition, Listed] = {}

    def attempt(deadline: float) -> None:
        left = [one for one in wanted if one not in found]
        problem: ToolError | None = None
        led: dict[int, list[TopicPartition]] = {}
        where = leaders(cluster, {topic for topic, _ in left}, deadline) if left else {}
        for one in left:
            leader = where.get(one)
            if leader is None:
                problem = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=one)
            elif leader.broker_id < 0:
                problem = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, about=one)
            else:
                led.setdefault(leader.broker_id, []).append(one)
        for broker_id, partitions in led.items():
            problem = _ask(cluster, broker_id, partitions, wanted, isolation, found, deadline) or problem
        if problem is not None:
            raise problem

    cluster.retry("listOffsets", attempt)
    return found


def _ask(
    cluster: Cluster,
    broker_id: int,
    partitions: Iterable[TopicPartition],
    wanted: Mapping[TopicPartition, int],
    isolation: int,
    found: dict[TopicPartition, Listed],
    deadline: float,
) -> BrokerError | None:
    """Adds what one leader tells to `found`; the error of a partition that it does not tell."""
    topics = [
        ListOffsetsTopic(topic, [ListOffsetsPartition(index, -1, wanted[topic, index]) for index in indexes])
        for topic, indexes in by_topic(partitions).items()
    ]
    request = ListOffsetsRequest(-1, isolation, topics)
    problem = None
    for topic in cluster.at(broker_id, request, ListOffsetsResponse, deadline).topics:
        for one in topic.partitions:
            if one.error_code:
                problem = BrokerError(one.error_code, about=(topic.name, one.partition_index))
            else:
                found[topic.name, one.partition_index] = Listed(one.offset, one.timestamp)
    return problem
