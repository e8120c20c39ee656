"""Markers on their way from a coordinator to the leaders of a transaction's partitions.

Each partition is asked until it has the marker, or exists no more. What goes to one broker in one turn is one request;
a few may be under way. This broker's own partitions are written directly.
Source: kafka.coordinator.transaction.TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from broker.core.transaction.metadata import TransactionMetadata
from broker.core.transaction.states import TransactionState
from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.ports import Loop, Timer
from broker.runtime.transaction.ports import ClusterView, MarkerOf, OwnLeaders, Peers
from broker.runtime.transaction.state import TransactionPartition, by_topic
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.wire.primitives import MalformedFrame

logger = logging.getLogger(__name__)

_VERSION: Final = 1
_RETRY_MS: Final = 50.0
_GONE_AFTER_MS: Final = 5000.0
"""A partition that this broker has not heard of for so long is deleted; a new one may be known later here.

One that was known when it was added to the transaction here is deleted as soon as it is known no more.
"""
_IN_FLIGHT_MAX: Final = 5
_REQUEST_MARKERS_MAX: Final = 5000

_TAKEN: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION},
)
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class _Job:
    """One decided transaction."""

    __slots__ = ("cancelled", "done", "home", "transaction")

    def __init__(self, home: TransactionPartition, transaction: TransactionMetadata, done: Callable[[], None]) -> None:
        self.home = home
        self.transaction = transaction
        self.done = done
        self.cancelled = False

    @property
    def open(self) -> bool:
        return self.home.live and not self.cancelled


class _Marker(NamedTuple):
    """One that is to be written. missing_ms: since when its partition is not known here, by the loop's clock."""

    job: _Job
    partition: TopicPartition
    missing_ms: float | None = None


class MarkerSender:
    """All markers of this broker's transactions."""

    def __init__(
        self,
        broker_id: BrokerId,
        cluster: ClusterView,
        peers: Peers,
        writer: OwnLeaders,
        loop: Loop,
        epoch: Callable[[int], int],
        timeout_ms: int,
    ) -> None:
        """epoch: under which this broker coordinates a partition of `__transaction_state`. timeout_ms: of a request."""
        self._broker_id = broker_id
        self._cluster = cluster
        self._peers = peers
        self._writer = writer
        self._loop = loop
        self._epoch = epoch
        self._timeout_ms = timeout_ms
        self._queues: dict[BrokerId, list[_Marker]] = {}
        self._in_flight: dict[BrokerId, int] = {}
        self._later: list[_Marker] = []
        """Without a leader, or refused a moment ago."""
        self._timer: Timer | None = None
        self._flushing = False

    def send(self, home: TransactionPartition, transaction: TransactionMetadata, done: Callable[[], None]) -> None:
        """Have every partition of a decided transaction get its marker; `done` is called once all have.

        Never where the partition of the transactional id is given up meanwhile: another coordinator sends them then.
        """
        job = _Job(home, transaction, done)
        if not transaction.partitions:
            done()
            return
        for topic_partition in sorted(transaction.partitions):
            self._queue(_Marker(job, topic_partition))

    def on_metadata(self) -> None:
        """Leaders may have changed."""
        if self._later:
            self._retry()

    def _queue(self, marker: _Marker) -> None:
        job, topic_partition, missing_ms = marker
        if not job.open:
            return
        leader, _ = self._cluster.leader_of(*topic_partition)
        if leader == self._broker_id or (leader >= 0 and self._peers(leader) is not None):
            self._queues.setdefault(leader, []).append(_Marker(job, topic_partition))
            self._flush_soon()
        elif self._cluster.live_brokers() is None or self._cluster.has_partition(*topic_partition):
            self._put_off(_Marker(job, topic_partition))
        else:
            now_ms = self._loop.now_ms()
            missing_ms = now_ms if missing_ms is None else missing_ms
            if topic_partition in job.transaction.seen or now_ms - missing_ms >= _GONE_AFTER_MS:
                logger.info("%s is deleted: %r needs no marker there", topic_partition, job.transaction)
                self._written(job, topic_partition)
            else:
                self._put_off(_Marker(job, topic_partition, missing_ms))

    def _put_off(self, marker: _Marker) -> None:
        self._later.append(marker)
        if self._timer is None:
            self._timer = self._loop.call_later(_RETRY_MS, self._retry)

    def _retry(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        later, self._later = self._later, []
        for marker in later:
            self._queue(marker)

    # -- requests --------------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        for broker in list(self._queues):
            self._send(broker)

    def _send(self, broker: BrokerId) -> None:
        while self._in_flight.get(broker, 0) < _IN_FLIGHT_MAX:
            queue = self._queues.pop(broker, None)
            if queue is None:
                return
            if len(queue) > _REQUEST_MARKERS_MAX:
                self._queues[broker] = queue[_REQUEST_MARKERS_MAX:]
                del queue[_REQUEST_MARKERS_MAX:]
            markers = [marker for marker in queue if marker.job.open]
            if not markers:
                continue
            request = WriteTxnMarkersRequest(self._wire(markers))
            if broker == self._broker_id:
                self._writer.write(request.markers, partial(self._answered, markers))
                continue
            peer = self._peers(broker)
            if peer is None:
                for marker in markers:
                    self._put_off(marker)
                continue
            self._in_flight[broker] = self._in_flight.get(broker, 0) + 1
            peer.send(
                ApiKey.WRITE_TXN_MARKERS,
                _VERSION,
                request.encode(_VERSION),
                partial(self._on_response, broker, markers),
                partial(self._on_failure, broker, markers),
                self._timeout_ms,
            )

    def _wire(self, markers: list[_Marker]) -> list[WritableTxnMarker]:
        partitions: dict[int, tuple[_Job, list[TopicPartition]]] = {}
        for marker in markers:
            partitions.setdefault(id(marker.job), (marker.job, []))[1].append(marker.partition)
        return [
            WritableTxnMarker(
                job.transaction.producer_id,
                job.transaction.epoch,
                job.transaction.state is TransactionState.PREPARE_COMMIT,
                [WritableTxnMarkerTopic(*topic) for topic in by_topic(found).items()],
                self._epoch(job.home.number),
            )
            for job, found in partitions.values()
        ]

    def _on_response(self, broker: BrokerId, markers: list[_Marker], body: memoryview) -> None:
        try:
            response = WriteTxnMarkersResponse.decode(_VERSION, body)
        except MalformedFrame as malformed:
            self._on_failure(broker, markers, f"malformed response: {malformed}")
            return
        self._landed(broker)
        results = {
            MarkerOf(producer.producer_id, topic.name, partition.partition_index): partition.error_code
            for producer in response.markers
            for topic in producer.topics
            for partition in topic.partitions
        }
        self._answered(markers, {which: _known(code) for which, code in results.items()})

    def _on_failure(self, broker: BrokerId, markers: list[_Marker], reason: str) -> None:
        logger.info("%d markers for broker %d are sent again: %s", len(markers), broker, reason)
        self._landed(broker)
        for marker in markers:
            self._put_off(marker)

    def _landed(self, broker: BrokerId) -> None:
        self._in_flight[broker] -= 1
        if broker in self._queues:
            self._flush_soon()

    # -- outcomes --------------------------------------------------------------------------------------------------

    def _answered(self, markers: list[_Marker], results: Mapping[MarkerOf, ErrorCode]) -> None:
        for marker in markers:
            job, topic_partition, _ = marker
            if not job.open:
                continue
            error = results.get(MarkerOf(job.transaction.producer_id, *topic_partition), ErrorCode.UNKNOWN_SERVER_ERROR)
            if error in _TAKEN:
                self._written(job, topic_partition)
            elif error in _FENCED:
                # Another coordinator has this id, with a later epoch: it ends the transaction.
                job.cancelled = True
                logger.warning("%s: markers of %r are given up: %s", topic_partition, job.transaction, error.name)
            else:
                logger.debug("%s: marker of %r is sent again: %s", topic_partition, job.transaction, error.name)
                self._put_off(marker)

    def _written(self, job: _Job, topic_partition: TopicPartition) -> None:
        job.transaction.marker_written(topic_partition)
        if not job.transaction.partitions:
            job.done()


def _known(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
