"""Requests of transactional producers as functions: arguments in, one exchange, what the harness needs out.

Decides protocol versions and which fields count. Must not know routing, retries, the history, or what a transaction is
for. Every function sends one request over a connection that is already made, and raises ClientError where no response
that can be read comes; an error code of the broker is a value (`error`: Kafka's name). Source: KIP-98, KIP-447.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from broker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from broker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from broker.wire.records import NewRecord, encode_batch
from harness.clients.connection import Connection
from harness.clients.requests import Produced, produce_batch
from harness.clients.responses import decoded, malformed
from harness.clients.values import encode_value

INIT_PRODUCER_ID_VERSION = 4
ADD_PARTITIONS_VERSION = 3
"""The last for clients: 4 is for brokers, which verify."""
ADD_OFFSETS_VERSION = 3
END_TXN_VERSION = 3
TXN_OFFSET_COMMIT_VERSION = 3
OFFSET_FETCH_VERSION = 7

TopicPartition = tuple[str, int]


class Answer(NamedTuple):
    """A response of which only the error counts. at_ns: CLOCK_MONOTONIC when it had come."""

    error: str | None
    at_ns: int


class Initialized(NamedTuple):
    """producer_id, epoch: -1 with an error."""

    error: str | None
    producer_id: int
    epoch: int
    at_ns: int


class FetchedOffsets(NamedTuple):
    """offsets: the next one to read of each partition, -1 where none is committed; empty with an error."""

    error: str | None
    offsets: Mapping[TopicPartition, int]
    at_ns: int


class Producer(NamedTuple):
    """Who a transactional producer is, as InitProducerId said."""

    transactional_id: str
    producer_id: int
    epoch: int


def init_producer(connection: Connection, transactional_id: str, timeout_ms: int, deadline_ns: int) -> Initialized:
    """A producer id and epoch; whoever had the transactional id before is fenced. timeout_ms: of a transaction."""
    version = INIT_PRODUCER_ID_VERSION
    body = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms).encode(version)
    received = connection.exchange(ApiKey.INIT_PRODUCER_ID, version, body, deadline_ns)
    response = decoded(connection, received, lambda: InitProducerIdResponse.decode(version, received.body))
    if response.error_code:
        return Initialized(error_name(response.error_code), -1, -1, received.at_ns)
    return Initialized(None, response.producer_id, response.producer_epoch, received.at_ns)


def add_partitions(
    connection: Connection, producer: Producer, partitions: Sequence[TopicPartition], deadline_ns: int
) -> Answer:
    """All of the partitions or none: an error of one counts as the request's."""
    version = ADD_PARTITIONS_VERSION
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(*topic) for topic in _by_topic(partitions).items()],
    )
    received = connection.exchange(ApiKey.ADD_PARTITIONS_TO_TXN, version, request.encode(version), deadline_ns)
    response = decoded(connection, received, lambda: AddPartitionsToTxnResponse.decode(version, received.body))
    codes = {
        (topic.name, result.partition_index): result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    }
    return _answer_of_all(connection, partitions, codes, received.at_ns)


def add_offsets(connection: Connection, producer: Producer, group: str, deadline_ns: int) -> Answer:
    """The transaction is to commit offsets of that group."""
    version = ADD_OFFSETS_VERSION
    body = AddOffsetsToTxnRequest(*producer, group).encode(version)
    received = connection.exchange(ApiKey.ADD_OFFSETS_TO_TXN, version, body, deadline_ns)
    response = decoded(connection, received, lambda: AddOffsetsToTxnResponse.decode(version, received.body))
    return Answer(_name(response.error_code), received.at_ns)


def commit_in_transaction(
    connection: Connection, producer: Producer, group: str, offsets: Mapping[TopicPartition, int], deadline_ns: int
) -> Answer:
    """TxnOffsetCommit, of no member: offsets that count once the transaction is committed."""
    version = TXN_OFFSET_COMMIT_VERSION
    topics = [
        TxnOffsetCommitRequestTopic(
            topic, [TxnOffsetCommitRequestPartition(index, offsets[topic, index], -1, "") for index in indexes]
        )
        for topic, indexes in _by_topic(list(offsets)).items()
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=topics,
    )
    received = connection.exchange(ApiKey.TXN_OFFSET_COMMIT, version, request.encode(version), deadline_ns)
    response = decoded(connection, received, lambda: TxnOffsetCommitResponse.decode(version, received.body))
    codes = {(topic.name, p.partition_index): p.error_code for topic in response.topics for p in topic.partitions}
    return _answer_of_all(connection, list(offsets), codes, received.at_ns)


def end_transaction(connection: Connection, producer: Producer, commit: bool, deadline_ns: int) -> Answer:
    """Commit or abort."""
    version = END_TXN_VERSION
    body = EndTxnRequest(*producer, commit).encode(version)
    received = connection.exchange(ApiKey.END_TXN, version, body, deadline_ns)
    response = decoded(connection, received, lambda: EndTxnResponse.decode(version, received.body))
    return Answer(_name(response.error_code), received.at_ns)


def fetch_offsets(
    connection: Connection, group: str, partitions: Sequence[TopicPartition], deadline_ns: int
) -> FetchedOffsets:
    """Committed offsets, none that a transaction under way may still change (require_stable, KIP-447)."""
    version = OFFSET_FETCH_VERSION
    topics = [OffsetFetchRequestTopic(*topic) for topic in _by_topic(partitions).items()]
    body = OffsetFetchRequest(group_id=group, topics=topics, require_stable=True).encode(version)
    received = connection.exchange(ApiKey.OFFSET_FETCH, version, body, deadline_ns)
    response = decoded(connection, received, lambda: OffsetFetchResponse.decode(version, received.body))
    codes = {(topic.name, p.partition_index): p.error_code for topic in response.topics for p in topic.partitions}
    if response.error_code:
        return FetchedOffsets(error_name(response.error_code), {}, received.at_ns)
    answer = _answer_of_all(connection, partitions, codes, received.at_ns)
    offsets = {
        (topic.name, p.partition_index): p.committed_offset for topic in response.topics for p in topic.partitions
    }
    return FetchedOffsets(answer.error, {} if answer.error else offsets, received.at_ns)


def produce_in_transaction(
    connection: Connection,
    producer: Producer,
    topic: str,
    partition: int,
    values: Sequence[int],
    *,
    sequence: int,
    record_bytes: int,
    timeout_ms: int,
    deadline_ns: int,
) -> Produced:
    """One transactional batch with one record for each value. sequence: of the first."""
    records = [NewRecord(None, encode_value(value, topic, partition, record_bytes)) for value in values]
    batch = encode_batch(
        records,
        timestamps=time.time_ns() // 1_000_000,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return produce_batch(
        connection,
        topic,
        partition,
        batch,
        acks=-1,
        timeout_ms=timeout_ms,
        deadline_ns=deadline_ns,
        transactional_id=producer.transactional_id,
    )


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, index in partitions:
        grouped.setdefault(topic, []).append(index)
    return grouped


def _answer_of_all(
    connection: Connection, asked: Sequence[TopicPartition], codes: Mapping[TopicPartition, int], at_ns: int
) -> Answer:
    """The first error of any partition."""
    missing = [f"{topic}-{index}" for topic, index in asked if (topic, index) not in codes]
    if missing:
        raise malformed(connection, f"no result for {', '.join(missing)}")
    names = [_name(codes[one]) for one in asked]
    return Answer(next((name for name in names if name is not None), None), at_ns)


def _name(code: int) -> str | None:
    return error_name(code) if code else None
