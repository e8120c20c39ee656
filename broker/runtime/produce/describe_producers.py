"""DescribeProducers: who has written to a partition, and has a transaction open in it.

Any replica answers from its own state, as in Kafka; tools ask the leader.
Source: kafka.cluster.Partition.activeProducerState, KafkaApis.handleDescribeProducersRequest; KIP-664.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.core.admin import topic_names
from broker.core.producers.state import NONE, ProducerEntry
from broker.model.ids import TopicPartition
from broker.runtime.ports import Loop
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


class DescribeProducersHandler:
    """See the module."""

    def __init__(self, replicas: Replicas, loop: Loop, wall_ms: Callable[[], int]) -> None:
        """wall_ms: ms since 1970, by which clients are told when a producer was last seen."""
        self._replicas = replicas
        self._loop = loop
        self._wall_ms = wall_ms

    def handle(self, request: Request) -> None:
        """Respond at once."""
        body = decode_or_refuse(request, DescribeProducersRequest)
        if body is None:
            return
        topics = []
        for topic in body.topics:
            illegal = topic_names.refusal(topic.name)
            partitions = [
                PartitionResponse(index, ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
                if illegal is not None
                else self._partition(topic.name, index)
                for index in topic.partition_indexes
            ]
            topics.append(TopicResponse(topic.name, partitions))
        respond(request, DescribeProducersResponse(topics=topics).encode(request.api_version))

    def _partition(self, topic: str, index: int) -> PartitionResponse:
        replica = self._replicas.by_partition.get(TopicPartition(topic, index))
        if replica is None:
            return PartitionResponse(index, self._replicas.unhosted_error(topic, index))
        if replica.offline:
            return PartitionResponse(index, ErrorCode.KAFKA_STORAGE_ERROR)
        return PartitionResponse(index, active_producers=self._producers(replica))

    def _producers(self, replica: Replica) -> list[ProducerState]:
        ago = self._wall_ms() - self._loop.now_ms()
        return [_state(producer_id, entry, int(entry.seen_ms + ago)) for producer_id, entry in replica.log.producers]


def _state(producer_id: int, entry: ProducerEntry, seen_ms: int) -> ProducerState:
    last = entry.batches[-1].last_sequence if entry.batches else NONE
    return ProducerState(
        producer_id, entry.epoch, last, seen_ms, entry.coordinator_epoch, entry.transaction_first_offset
    )
