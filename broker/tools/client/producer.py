"""Sends records: gathers them to batches, sends these to leaders, again when a leader changes, and reports on each.

One request at a time to each broker, with a batch of each partition. With acks=all, and unless the settings say
otherwise, a producer id keeps retries from doubling records (KIP-98).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from broker.tools.client.admin import TopicPartition
from broker.tools.client.batches import Accumulator, Batch, Outgoing
from broker.tools.client.cluster import Cluster
from broker.tools.client.connection import Connection
from broker.tools.client.errors import RETRIABLE, BrokerError, ToolError, Unreachable, check
from broker.tools.client.offsets import Leader
from broker.tools.client.partitioner import Sticky, partition_of
from broker.tools.client.properties import Properties
from broker.tools.client.waits import readable
from broker.wire.api import ApiKey
from broker.wire.compression import CodecMissing, Compression, check_installed
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.primitives import MalformedFrame
from broker.wire.records import Headers, NewRecord

_ALL: Final = -1


class ProducerSettings(NamedTuple):
    """Times in seconds. retries: further tries of a batch; delivery_timeout: for how long it is tried at all."""

    acks: int
    linger: float
    batch_size: int
    buffer_memory: int
    request_timeout: float
    retries: int
    backoff: float
    delivery_timeout: float
    max_block: float
    compression: Compression
    idempotent: bool


class Sent(NamedTuple):
    """What became of a record. offset: −1 where unknown; at: time.monotonic()."""

    token: object
    where: TopicPartition
    offset: int
    error: ToolError | None
    at: float


def producer_settings(properties: Properties) -> ProducerSettings:
    """By Kafka's names and defaults. Raises ToolError, also for a codec that is not installed."""
    acks_text = properties.text("acks", "all", ("all", "-1", "0", "1"))
    acks = _ALL if acks_text == "all" else int(acks_text)
    if "transactional.id" in properties:
        raise ToolError("transactional.id: this producer sends without transactions")
    idempotent = properties.flag("enable.idempotence", acks == _ALL)
    if idempotent and acks != _ALL:
        raise ToolError(f"acks={acks_text}: enable.idempotence=true needs acks=all")
    names = [codec.name.lower() for codec in Compression]
    compression = Compression[properties.text("compression.type", "none", names).upper()]
    try:
        check_installed(compression)
    except CodecMissing as error:
        raise ToolError(f"compression.type: {error}") from None
    return ProducerSettings(
        acks,
        properties.number("linger.ms", 0) / 1000,
        properties.number("batch.size", 16384),
        properties.number("buffer.memory", 32 * 1024 * 1024, 1),
        properties.number("request.timeout.ms", 30_000, 1) / 1000,
        properties.number("retries", 2**31 - 1),
        properties.number("retry.backoff.ms", 100) / 1000,
        properties.number("delivery.timeout.ms", 120_000, 1) / 1000,
        properties.number("max.block.ms", 60_000) / 1000,
        compression,
        idempotent,
    )


class Producer:
    """Not thread-safe. on_sent: called once for each record, in the order of its partition."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        on_sent: Callable[[Sent], None],
        random: Random | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._on_sent = on_sent
        self._sticky = Sticky(random or Random())
        self._waiting = Accumulator(settings.batch_size, settings.linger)
        self._leaders: dict[str, dict[int, Leader]] = {}
        self._connections: dict[int, Connection] = {}
        self._requests: dict[int, tuple[list[Batch], int, float]] = {}
        self._producer: tuple[int, int] | None = None if settings.idempotent else (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._stale: set[str] = set()

    def close(self) -> None:
        """Close its connections; what was not flushed is lost."""
        for connection in self._connections.values():
            connection.close()

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        *,
        token: object = None,
        partition: int | None = None,
    ) -> None:
        """Take one record; blocks while the buffer is full. Raises ToolError for a topic that is not there in time."""
        known = self._partitions(topic)
        if partition is None:
            if key is not None:
                partition = partition_of(key, len(known))
            else:
                led = [index for index, leader in known.items() if leader.broker_id >= 0]
                partition = self._sticky.partition(topic, led or list(known))
        elif partition not in known:
            raise ToolError(f"partition {partition} of {topic} is not there; it has {len(known)}")
        outgoing = Outgoing(NewRecord(key, value, headers), time.time_ns() // 1_000_000, token)
        if self._waiting.add((topic, partition), outgoing, time.monotonic()):
            self._sticky.batch_full(topic)
            self.poll(0.0)
        while self._waiting.bytes > self._settings.buffer_memory:
            self.poll(0.1)

    def _partitions(self, topic: str) -> dict[int, Leader]:
        """Leaders by partition, from the last metadata. Asking makes the topic where brokers do that."""
        if topic not in self._leaders:

            def attempt(deadline: float) -> None:
                self._learn(topic, deadline)

            self._cluster.retry(f"metadata of {topic}", attempt, self._settings.max_block)
        return self._leaders[topic]

    def _learn(self, topic: str, deadline: float) -> None:
        (found,) = self._cluster.metadata_once([topic], deadline, create=True).topics
        check(found.error_code)
        self._leaders[topic] = {
            one.partition_index: Leader(one.leader_id, one.leader_epoch)
            for one in sorted(found.partitions, key=lambda one: one.partition_index)
        }

    def flush(self) -> None:
        """Return when everything is acknowledged or given up."""
        while self._waiting.count:
            self.poll(0.5, flush=True)

    def wait(self) -> float | None:
        """Seconds until a batch has waited long enough; None while there is none."""
        return self._waiting.next_wait(time.monotonic(), flush=False)

    def descriptors(self) -> list[int]:
        """Of the connections on which responses will come."""
        return [self._connections[broker_id].fileno() for broker_id in self._requests]

    def poll(self, timeout: float, *, flush: bool = False) -> None:
        """Send what is due and take the responses that have come, waiting for one for up to timeout seconds."""
        self._send_due(flush)
        self._receive()
        if timeout <= 0 or not self._waiting.count:
            return
        pause = self._waiting.next_wait(time.monotonic(), flush=flush)
        if pause:
            timeout = min(timeout, pause)
        if self._requests:
            readable(self.descriptors(), timeout)
        elif pause:
            time.sleep(timeout)
        self._receive()
        self._send_due(flush)

    def _send_due(self, flush: bool) -> None:
        now = time.monotonic()
        by_broker: dict[int, list[Batch]] = {}
        for batch in list(self._waiting.due(now, flush=flush)):
            if now - batch.created > self._settings.delivery_timeout:
                self._give_up(batch, ToolError(f"Expiring {len(batch.records)} record(s): delivery.timeout.ms is over"))
                continue
            leader = self._leader(batch.where)
            if leader is None:
                batch.not_before = now + self._settings.backoff
            elif leader not in self._requests:
                by_broker.setdefault(leader, []).append(batch)
        for broker_id, batches in by_broker.items():
            self._send_to(broker_id, batches)

    def _leader(self, where: TopicPartition) -> int | None:
        topic, partition = where
        if topic in self._stale:
            try:
                self._learn(topic, time.monotonic() + self._settings.request_timeout)
                self._stale.discard(topic)
            except (Unreachable, BrokerError):
                return None
        leader = self._leaders[topic].get(partition)
        if leader is None or leader.broker_id < 0:
            self._stale.add(topic)
            return None
        return leader.broker_id

    def _identity(self, deadline: float) -> tuple[int, int]:
        """Producer id and epoch, (−1, −1) for a producer without. Raises ToolError."""
        if self._producer is None:
            request = InitProducerIdRequest(None, 2**31 - 1)
            response = self._cluster.any(request, InitProducerIdResponse, deadline)
            check(response.error_code)
            self._producer = (response.producer_id, response.producer_epoch)
        return self._producer

    def _send_to(self, broker_id: int, batches: Sequence[Batch]) -> None:
        deadline = time.monotonic() + self._settings.request_timeout
        batches = sorted(batches, key=lambda batch: batch.where)
        try:
            producer = self._identity(deadline)
            connection = self._connection(broker_id, deadline)
            version = connection.version(ApiKey.PRODUCE)
            partitions = []
            for batch in batches:
                if batch.producer is None:
                    batch.producer = producer
                    if self._settings.idempotent:
                        batch.sequence = self._sequences.get(batch.where, 0)
                        self._sequences[batch.where] = (batch.sequence + len(batch.records)) & 0x7FFFFFFF
                encoded = batch.encode(self._settings.compression)
                partitions.append(produce.ProducePartition(*batch.where, memoryview(encoded)))
            request = produce.ProduceRequest(
                None, self._settings.acks, int(self._settings.request_timeout * 1000), partitions
            )
            body = produce.encode_request(version, request)
            answered = self._settings.acks != 0
            self._waiting.sent(batches)
            connection.send(ApiKey.PRODUCE, version, body, deadline, answered=answered)
        except (Unreachable, BrokerError) as error:
            for batch in batches:
                self._failed(batch, error)
            return
        if answered:
            self._requests[broker_id] = (batches, version, deadline)
        else:
            for batch in batches:
                self._finish(batch, -1)

    def _connection(self, broker_id: int, deadline: float) -> Connection:
        known = self._connections.get(broker_id)
        if known is None or not known.is_open:
            known = self._connections[broker_id] = self._cluster.connect(broker_id, deadline, "produce")
        return known

    def _receive(self) -> None:
        for broker_id, (batches, version, deadline) in list(self._requests.items()):
            connection = self._connections[broker_id]
            try:
                body = connection.poll()
                if body is None and time.monotonic() < deadline:
                    continue
                if body is None:
                    raise Unreachable(f"{connection.address}: no response to PRODUCE in time")
                response = produce.decode_response(version, body)
            except (Unreachable, MalformedFrame) as error:
                connection.close()
                del self._requests[broker_id]
                for batch in batches:
                    self._failed(batch, Unreachable(str(error)))
                continue
            del self._requests[broker_id]
            results = {(one.topic, one.partition): one for one in response.results}
            for batch in batches:
                result = results.get(batch.where)
                if result is None:
                    self._failed(batch, Unreachable("the response does not name the partition"))
                elif result.error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._finish(batch, result.base_offset)
                else:
                    self._failed(batch, BrokerError(result.error, result.error_message))

    def _failed(self, batch: Batch, error: ToolError) -> None:
        again = isinstance(error, Unreachable) or (isinstance(error, BrokerError) and error.code in RETRIABLE)
        if not again or batch.attempts > self._settings.retries:
            self._waiting.back(batch, 0.0)
            self._give_up(batch, error)
            return
        self._stale.add(batch.where[0])
        self._waiting.back(batch, time.monotonic() + self._settings.backoff)

    def _give_up(self, batch: Batch, error: ToolError) -> None:
        if self._settings.idempotent and batch.producer is not None and batch.producer == self._producer:
            # Whether it was appended is unknown: whatever follows needs numbers that do not depend on it.
            self._producer = None
            self._sequences.clear()
        self._report(batch, -1, error)

    def _finish(self, batch: Batch, offset: int) -> None:
        self._report(batch, offset, None)

    def _report(self, batch: Batch, offset: int, error: ToolError | None) -> None:
        at = time.monotonic()
        for index, one in enumerate(self._waiting.done(batch)):
            self._on_sent(Sent(one.token, batch.where, offset + index if offset >= 0 else -1, error, at))
