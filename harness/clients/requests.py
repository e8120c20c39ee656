"""Requests as functions: arguments in, one exchange, the part of the response that the harness needs out.

Decides protocol versions and which fields count. Must not know routing, retries or the history. Every function sends
one request over a connection that is already made, and raises ClientError when there is no response that can be read;
an error code of the broker is a value (`error`: Kafka's name).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages import produce
from broker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker.wire.records import NewRecord, encode_batch
from harness.clients.connection import Connection
from harness.clients.responses import decoded, malformed
from harness.clients.values import encode_value

PRODUCE_VERSION = 9
LIST_OFFSETS_VERSION = 7
METADATA_VERSION = 9
CREATE_TOPICS_VERSION = 7
INIT_PRODUCER_VERSION = 4
NO_TIMEOUT_MS = 2**31 - 1
"""As Kafka's client sends it where there is no transaction to time out."""

LATEST = -1
EARLIEST = -2


class Produced(NamedTuple):
    """base_offset: −1 when unknown (acks=0 or an error)."""

    error: str | None
    base_offset: int
    at_ns: int


class NewProducer(NamedTuple):
    """producer_id, producer_epoch: -1 with an error. at_ns: CLOCK_MONOTONIC when the response had come."""

    error: str | None
    producer_id: int
    producer_epoch: int
    at_ns: int


class Listed(NamedTuple):
    """offset, leader_epoch: -1 with an error, and where no record is as new as the timestamp that was asked for.
    timestamp: of the record found, in ms; -1 where none was looked for. at_ns: CLOCK_MONOTONIC when the response had
    come.
    """

    error: str | None
    offset: int
    leader_epoch: int
    at_ns: int
    timestamp: int = -1


class PartitionState(NamedTuple):
    """As one node's Metadata says. leader: broker id, −1 for none."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class ClusterState(NamedTuple):
    """As one node's Metadata says. brokers: ids alive; partitions: of one topic, empty with `error` when it is not
    known.
    """

    brokers: tuple[int, ...]
    controller: int
    error: str | None
    partitions: Mapping[int, PartitionState]


def produce_one(
    connection: Connection,
    topic: str,
    partition: int,
    values: Sequence[int],
    *,
    acks: int,
    record_bytes: int,
    timeout_ms: int,
    deadline_ns: int,
) -> Produced:
    """One batch with one record for each value. timeout_ms: how long the broker may wait for the ISR."""
    batch = batch_of(values, topic, partition, record_bytes)
    return produce_batch(connection, topic, partition, batch, acks=acks, timeout_ms=timeout_ms, deadline_ns=deadline_ns)


def batch_of(
    values: Sequence[int], topic: str, partition: int, record_bytes: int, stamp_ms: int | None = None
) -> bytes:
    """A record for each value, stamped with that wall time, or now."""
    records = [NewRecord(None, encode_value(value, topic, partition, record_bytes)) for value in values]
    return encode_batch(records, timestamps=time.time_ns() // 1_000_000 if stamp_ms is None else stamp_ms)


def produce_batch(
    connection: Connection,
    topic: str,
    partition: int,
    batch: bytes,
    *,
    acks: int,
    timeout_ms: int,
    deadline_ns: int,
    transactional_id: str | None = None,
) -> Produced:
    """A batch as it is: who sends it again sends the same bytes."""
    return produce_several(
        connection,
        topic,
        {partition: batch},
        acks=acks,
        timeout_ms=timeout_ms,
        deadline_ns=deadline_ns,
        transactional_id=transactional_id,
    )[partition]


def produce_several(
    connection: Connection,
    topic: str,
    batches: Mapping[int, bytes],
    *,
    acks: int,
    timeout_ms: int,
    deadline_ns: int,
    transactional_id: str | None = None,
) -> Mapping[int, Produced]:
    """How each came out, by partition. batches: partition → its batch, in the order in which the request has them.

    timeout_ms: how long the broker may wait for the ISR. Raises ClientError when there is no response that can be read,
    of any of them.
    """
    request = produce.ProduceRequest(
        transactional_id,
        acks,
        timeout_ms,
        [produce.ProducePartition(topic, partition, memoryview(batch)) for partition, batch in batches.items()],
    )
    body = produce.encode_request(PRODUCE_VERSION, request)
    if acks == 0:
        at_ns = connection.send_only(ApiKey.PRODUCE, PRODUCE_VERSION, body, deadline_ns)
        return {partition: Produced(None, -1, at_ns) for partition in batches}
    received = connection.exchange(ApiKey.PRODUCE, PRODUCE_VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: produce.decode_response(PRODUCE_VERSION, received.body))
    return {partition: _produced(connection, response, topic, partition, received.at_ns) for partition in batches}


def _produced(
    connection: Connection, response: produce.ProduceResponse, topic: str, partition: int, at_ns: int
) -> Produced:
    """What a response says of one partition's batch. Raises ClientError where it says nothing that can be."""
    for result in response.results:
        if (result.topic, result.partition) == (topic, partition):
            if result.error:
                return Produced(error_name(result.error), -1, at_ns)
            if result.base_offset < 0:
                raise malformed(connection, f"success at offset {result.base_offset}")
            return Produced(None, result.base_offset, at_ns)
    raise malformed(connection, f"no result for {topic}-{partition}")


def init_producer(connection: Connection, deadline_ns: int) -> NewProducer:
    """A producer id for an idempotent producer, which has no transactional id; any broker has one."""
    body = InitProducerIdRequest(None, NO_TIMEOUT_MS).encode(INIT_PRODUCER_VERSION)
    received = connection.exchange(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_VERSION, body, deadline_ns)
    response = decoded(
        connection, received, lambda: InitProducerIdResponse.decode(INIT_PRODUCER_VERSION, received.body)
    )
    error = error_name(response.error_code) if response.error_code else None
    return NewProducer(error, response.producer_id, response.producer_epoch, received.at_ns)


def list_offset(
    connection: Connection,
    topic: str,
    partition: int,
    *,
    timestamp: int,
    isolation: int,
    leader_epoch: int,
    deadline_ns: int,
) -> Listed:
    """The first offset whose record is as new as the timestamp, in ms of wall time; or LATEST or EARLIEST."""
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(partition, leader_epoch, timestamp)])],
    )
    body = request.encode(LIST_OFFSETS_VERSION)
    received = connection.exchange(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: ListOffsetsResponse.decode(LIST_OFFSETS_VERSION, received.body))
    for group in response.topics:
        for found in group.partitions:
            if (group.name, found.partition_index) == (topic, partition):
                error = error_name(found.error_code) if found.error_code else None
                return Listed(error, found.offset, found.leader_epoch, received.at_ns, found.timestamp)
    raise malformed(connection, f"no offset for {topic}-{partition}")


def metadata(connection: Connection, topic: str, deadline_ns: int) -> ClusterState:
    """The cluster and one topic as that node sees them; creates nothing."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    body = request.encode(METADATA_VERSION)
    received = connection.exchange(ApiKey.METADATA, METADATA_VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: MetadataResponse.decode(METADATA_VERSION, received.body))
    brokers = tuple(sorted(broker.node_id for broker in response.brokers))
    for found in response.topics:
        if found.name == topic:
            partitions = {
                p.partition_index: PartitionState(
                    p.leader_id, p.leader_epoch, tuple(p.isr_nodes), tuple(p.replica_nodes)
                )
                for p in found.partitions
            }
            error = error_name(found.error_code) if found.error_code else None
            return ClusterState(brokers, response.controller_id, error, partitions)
    raise malformed(connection, f"no topic {topic} in the response")


def create_topic(
    connection: Connection,
    topic: str,
    *,
    partitions: int,
    replication_factor: int,
    assignment: Sequence[Sequence[int]] | None,
    config: Mapping[str, str],
    timeout_ms: int,
    deadline_ns: int,
) -> tuple[str | None, str]:
    """(error, message); the node should be the controller."""
    manual = [CreatableReplicaAssignment(index, list(replicas)) for index, replicas in enumerate(assignment or ())]
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=-1 if manual else partitions,
                replication_factor=-1 if manual else replication_factor,
                assignments=manual,
                configs=[CreatableTopicConfig(key, value) for key, value in config.items()],
            )
        ],
        timeout_ms=timeout_ms,
    )
    body = request.encode(CREATE_TOPICS_VERSION)
    received = connection.exchange(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, body, deadline_ns)
    response = decoded(connection, received, lambda: CreateTopicsResponse.decode(CREATE_TOPICS_VERSION, received.body))
    for result in response.topics:
        if result.name == topic:
            error = error_name(result.error_code) if result.error_code else None
            return error, result.error_message or ""
    raise malformed(connection, f"no result for topic {topic}")
