"""Carries leaders' ISR proposals to the controller. Loop thread.

One request is in flight; what is proposed meanwhile goes with the next. Nothing is repeated: the proposer decides that.
The controller is the one that the metadata cache names; where none is known, or it does not respond, the result is
REQUEST_TIMED_OUT, which means that the outcome is unknown.
Source: kafka.server.DefaultAlterPartitionManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from broker.core.replication.isr import Proposal
from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.metadata.cache import Address, MetadataCache
from broker.runtime.ports import Loop, Peer
from broker.runtime.replicas.ports import AlterPartitionResult
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from broker.wire.primitives import MalformedFrame

_log = logging.getLogger("broker.isr")

VERSION = 3
_PARTITIONS_MAX = 1000
_TIMED_OUT = AlterPartitionResult(ErrorCode.REQUEST_TIMED_OUT)


class _Item(NamedTuple):
    topic_partition: TopicPartition
    topic_id: str
    proposal: Proposal
    on_result: Callable[[AlterPartitionResult], None]


class AlterPartitionManager:
    """Satisfies `replication_ports.AlterPartitionSender`."""

    def __init__(
        self,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        cache: MetadataCache,
        loop: Loop,
        connect: Callable[[Address], Peer],
        timeout_ms: float,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._cache = cache
        self._loop = loop
        self._connect = connect
        self._timeout_ms = timeout_ms
        self._queue: list[_Item] = []
        self._in_flight = False
        self._scheduled = False
        self._peer: Peer | None = None
        self._peer_address: Address | None = None
        cache.add_listener(self._on_metadata)

    def send(
        self,
        topic_partition: TopicPartition,
        topic_id: str,
        proposal: Proposal,
        on_result: Callable[[AlterPartitionResult], None],
    ) -> None:
        """on_result is called exactly once, later."""
        self._queue.append(_Item(topic_partition, topic_id, proposal, on_result))
        self._schedule()

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def _on_metadata(self) -> None:
        """A new controller: responses of the old one are not waited for."""
        address = self._cache.address(self._cache.controller_id)
        if address is not None and address != self._peer_address:
            self.close()

    def _schedule(self) -> None:
        if not self._scheduled and not self._in_flight and self._queue:
            self._scheduled = True
            self._loop.call_soon(self._send_queued)

    def _send_queued(self) -> None:
        self._scheduled = False
        if self._in_flight:
            return
        items, self._queue = self._queue[:_PARTITIONS_MAX], self._queue[_PARTITIONS_MAX:]
        peer = self._controller()
        if peer is None:
            _hand_all(items, _TIMED_OUT)
            self._schedule()
            return
        self._in_flight = True
        request = AlterPartitionRequest(self._broker_id, self._broker_epoch(), _topics(items))

        def on_response(view: memoryview) -> None:
            try:
                result = AlterPartitionResponse.decode(VERSION, view)
            except MalformedFrame as error:
                on_failure(f"malformed: {error}")
                return
            self._done()
            _deliver(items, result)

        def on_failure(reason: str) -> None:
            _log.info("AlterPartition to controller %d: %s", self._cache.controller_id, reason)
            self._done()
            _hand_all(items, _TIMED_OUT)

        peer.send(ApiKey.ALTER_PARTITION, VERSION, request.encode(VERSION), on_response, on_failure, self._timeout_ms)

    def _done(self) -> None:
        self._in_flight = False
        self._schedule()

    def _controller(self) -> Peer | None:
        """The connection to whoever is controller now."""
        address = self._cache.address(self._cache.controller_id)
        if address is None:
            return None
        if address != self._peer_address:
            self.close()
            self._peer_address = address
        if self._peer is None:
            self._peer = self._connect(address)
        return self._peer


def _topics(items: list[_Item]) -> list[RequestTopicData]:
    topics: dict[str, RequestTopicData] = {}
    for topic_partition, topic_id, proposal, _ in items:
        entry = topics.setdefault(topic_id, RequestTopicData(topic_id, []))
        entry.partitions.append(
            RequestPartitionData(
                partition_index=topic_partition.partition,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=[
                    BrokerState(member, proposal.broker_epochs.get(member, -1)) for member in proposal.isr
                ],
                partition_epoch=proposal.partition_epoch,
            )
        )
    return list(topics.values())


def _hand_all(items: list[_Item], result: AlterPartitionResult) -> None:
    for item in items:
        _hand(item, result)


def _hand(item: _Item, result: AlterPartitionResult) -> None:
    try:
        item.on_result(result)
    except Exception:
        # Who proposed for another partition waits for its own result, and proposes nothing else until then.
        _log.exception("%s: the result of its ISR change could not be taken up", item.topic_partition)


def _deliver(items: list[_Item], response: AlterPartitionResponse) -> None:
    """Each item gets its partition's result; the request's error stands for all, and a partition without a result is
    unknown.
    """
    if response.error_code != ErrorCode.NONE:
        _hand_all(items, AlterPartitionResult(response.error_code))
        return
    results = {
        (topic.topic_id, part.partition_index): AlterPartitionResult(
            part.error_code, tuple(part.isr), part.partition_epoch, part.leader_epoch, part.elr_min_isr
        )
        for topic in response.topics
        for part in topic.partitions
    }
    for item in items:
        _hand(item, results.get((item.topic_id, item.topic_partition.partition), _TIMED_OUT))
