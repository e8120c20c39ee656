"""WriteTxnMarkers: a leader writes how transactions ended, as their coordinator has decided.

Source: kafka.server.KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from broker.core.coordination import OFFSETS_TOPIC
from broker.runtime.replicas.append import ACKS_ALL, Appender, AppendOrigin
from broker.runtime.replicas.replica import PendingAppend
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.runtime.transaction.ports import MarkerOf
from broker.wire.control_records import EndOfTransaction, marker
from broker.wire.errors import ErrorCode
from broker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.wire.records import encode_batch

logger = logging.getLogger(__name__)


Results = Mapping[MarkerOf, ErrorCode]
OnOffsetsMarker = Callable[[int, int, bool], None]
"""on_offsets_marker(partition of `__consumer_offsets`, producer id, committed), once the marker is committed."""


class _Writing:
    """The markers of one request: outcomes as they come in, and how many are missing."""

    def __init__(self, missing: int, done: Callable[[Results], None]) -> None:
        self.results: dict[MarkerOf, ErrorCode] = {}
        self.missing = missing
        self.done = done

    def take(self, which: MarkerOf, error: ErrorCode) -> None:
        self.results[which] = error
        self.missing -= 1
        if not self.missing:
            self.done(self.results)


class MarkerWriter:
    """Markers in partitions that this broker leads; all are written with acks=all."""

    def __init__(self, appender: Appender, timeout_ms: int) -> None:
        """timeout_ms: how long a marker may wait for its replication."""
        self.on_offsets_marker: OnOffsetsMarker = lambda partition, producer_id, committed: None
        self._appender = appender
        self._timeout_ms = timeout_ms

    def handle(self, request: Request) -> None:
        """Respond once every marker is committed, or will not be confirmed."""
        body = decode_or_refuse(request, WriteTxnMarkersRequest)
        if body is None:
            return
        version = request.api_version

        def written(results: Results) -> None:
            respond(request, _response(results).encode(version))

        self.write(body.markers, written)

    def write(self, markers: Sequence[WritableTxnMarker], done: Callable[[Results], None]) -> None:
        """Append them; done(outcome of each) is called once, from within only where there are none."""
        count = sum(len(topic.partition_indexes) for each in markers for topic in each.topics)
        writing = _Writing(count, done)
        if not count:
            done({})
        for each in markers:
            end = EndOfTransaction(each.transaction_result, each.coordinator_epoch)
            batch = encode_batch(
                [marker(end)],
                timestamps=self._appender.wall_ms(),
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                transactional=True,
                control=True,
            )
            for topic in each.topics:
                for index in topic.partition_indexes:
                    self._append(MarkerOf(each.producer_id, topic.name, index), each.transaction_result, batch, writing)

    def _append(self, which: MarkerOf, committed: bool, batch: bytes, writing: _Writing) -> None:
        def done(append: PendingAppend) -> None:
            error = append.error
            if error is ErrorCode.NONE and which.topic == OFFSETS_TOPIC:
                try:
                    self.on_offsets_marker(which.partition, which.producer_id, committed)
                except Exception:
                    logger.exception("offsets of producer %d in %s-%d", which.producer_id, which.topic, which.partition)
                    error = ErrorCode.UNKNOWN_SERVER_ERROR
            writing.take(which, error)

        self._appender.append_records(
            (which.topic, which.partition),
            memoryview(bytearray(batch)),
            ACKS_ALL,
            AppendOrigin.COORDINATOR,
            done,
            self._timeout_ms,
            internal_topics=True,
        )


def _response(results: Results) -> WriteTxnMarkersResponse:
    found: dict[int, dict[str, list[WritableTxnMarkerPartitionResult]]] = {}
    for (producer_id, topic, partition), error in results.items():
        result = WritableTxnMarkerPartitionResult(partition, error)
        found.setdefault(producer_id, {}).setdefault(topic, []).append(result)
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(producer, [WritableTxnMarkerTopicResult(*topic) for topic in topics.items()])
            for producer, topics in found.items()
        ]
    )
