"""What leaders know of producers and coordinators of transactions, and the marker that ends a hanging one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from broker.tools.client.admin import TopicPartition, by_topic
from broker.tools.client.cluster import TRANSACTION, Cluster
from broker.tools.client.errors import BrokerError, Unreachable, check
from broker.tools.client.offsets import leaders
from broker.wire.errors import ErrorCode
from broker.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from broker.wire.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from broker.wire.messages.list_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from broker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_PARTITIONS_PER_REQUEST = 500


class Transaction(NamedTuple):
    """coordinator: broker id. partitions: sorted."""

    coordinator: int
    described: DescribedTransaction
    partitions: list[TopicPartition]


def list_transactions(
    cluster: Cluster, *, longer_than_ms: int = -1, producer_ids: Collection[int] = ()
) -> dict[int, list[ListedTransaction]]:
    """By coordinator. producer_ids: only theirs, of all where there are none. Raises BrokerError."""
    request = ListTransactionsRequest([], sorted(producer_ids), longer_than_ms)
    responses = cluster.every_broker("listTransactions", request, ListTransactionsResponse)
    for response in responses.values():
        check(response.error_code)
    return {broker_id: response.transaction_states for broker_id, response in responses.items()}


def describe_transaction(cluster: Cluster, transactional_id: str) -> Transaction:
    """Raises BrokerError, among it TRANSACTIONAL_ID_NOT_FOUND."""
    response = cluster.coordinator(
        "describeTransactions",
        TRANSACTION,
        transactional_id,
        DescribeTransactionsRequest([transactional_id]),
        DescribeTransactionsResponse,
        lambda response: check(response.transaction_states[0].error_code),
    )
    coordinator = cluster.retry(
        "findCoordinator", lambda deadline: cluster.coordinator_id(TRANSACTION, transactional_id, deadline)
    )
    described = response.transaction_states[0]
    partitions = sorted((topic.topic, index) for topic in described.topics for index in topic.partitions)
    return Transaction(coordinator, described, partitions)


def describe_producers(
    cluster: Cluster, partitions: Sequence[TopicPartition], broker_id: int | None = None
) -> dict[TopicPartition, list[ProducerState]]:
    """Producers of partitions as their leaders, or one broker, know them. Raises BrokerError."""
    found: dict[TopicPartition, list[ProducerState]] = {}

    def attempt(deadline: float) -> None:
        left = [one for one in partitions if one not in found]
        by_broker: dict[int, list[TopicPartition]] = {}
        if broker_id is not None:
            by_broker[broker_id] = left
        else:
            led = leaders(cluster, {topic for topic, _ in left}, deadline)
            for one in left:
                by_broker.setdefault(_leader(led.get(one)), []).append(one)
        for asked, those in by_broker.items():
            for start in range(0, len(those), _PARTITIONS_PER_REQUEST):
                some = those[start : start + _PARTITIONS_PER_REQUEST]
                request = DescribeProducersRequest([TopicRequest(*one) for one in by_topic(some).items()])
                response = cluster.at(asked, request, DescribeProducersResponse, deadline)
                for topic in response.topics:
                    for one_of in topic.partitions:
                        check(one_of.error_code, one_of.error_message)
                        found[topic.name, one_of.partition_index] = one_of.active_producers

    cluster.retry("describeProducers", attempt)
    return found


def _leader(leader: tuple[int, int] | None) -> int:
    if leader is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if leader[0] < 0:
        raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)
    return leader[0]


def abort(cluster: Cluster, where: TopicPartition, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
    """Have the leader write an abort marker. Raises BrokerError, TimedOut."""
    topic, partition = where
    marker = WritableTxnMarker(
        producer_id, epoch, False, [WritableTxnMarkerTopic(topic, [partition])], max(coordinator_epoch, 0)
    )

    def attempt(deadline: float) -> None:
        leader = _leader(leaders(cluster, [topic], deadline).get(where))
        response = cluster.at(leader, WriteTxnMarkersRequest([marker]), WriteTxnMarkersResponse, deadline)
        codes = [one.error_code for made in response.markers for part in made.topics for one in part.partitions]
        if not codes:
            raise Unreachable("the response does not name the partition")
        check(codes[0])

    cluster.retry("abortTransaction", attempt)
