"""A transactional producer that writes one record a transaction, one transaction after the other.

As the Java client does it: the partition is added at the coordinator, the record goes to its leader, the coordinator
ends the transaction. Where the markers of the transaction before are still on their way, it asks again after a
millisecond (the Java client after 20): so what is measured is the brokers' work, not the wait of a client.
"""

from __future__ import annotations

import time
from functools import partial

from benchmarks.clients.coordinators import PASSING
from benchmarks.clients.wire import Frame, Line, Wire, frame
from benchmarks.process import BenchmarkFailed
from broker.wire.api import ApiKey
from broker.wire.messages import produce
from broker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from broker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.records import NewRecord, encode_batch

AGAIN_S = 0.001
_INIT_AGAIN_S = 0.05
_TIMEOUT_MS = 60_000
_VALUE = bytes(100)
_INIT_VERSION, _ADD_VERSION, _PRODUCE_VERSION, _END_VERSION = 4, 3, 9, 3


class TransactionalProducer:
    """latencies_ns: of each committed transaction, from its first request to the last response; the caller clears it.

    requests, transactions: since it was opened.
    """

    def __init__(self, wire: Wire, coordinator: Line, leader: Line, transactional_id: str, topic: str, partition: int):
        self._wire, self._coordinator, self._leader = wire, coordinator, leader
        self._id, self._topic, self._partition = transactional_id, topic, partition
        self._producer_id = self._epoch = -1
        self._sequence = 0
        self._begun_ns = 0
        self._add = self._end = frame(InitProducerIdRequest(transactional_id, _TIMEOUT_MS), _INIT_VERSION)
        self.latencies_ns: list[int] = []
        self.requests = self.transactions = 0
        self.ready = False
        self.stopping = False
        self.idle = False

    def open(self) -> None:
        """Get a producer id; `ready` once it is there."""
        request = InitProducerIdRequest(self._id, _TIMEOUT_MS)
        self._coordinator.send(frame(request, _INIT_VERSION), self._opened)

    def _opened(self, body: memoryview) -> None:
        response = InitProducerIdResponse.decode(_INIT_VERSION, body)
        if response.error_code in PASSING:
            self._wire.later(_INIT_AGAIN_S, self.open)
            return
        self._require("InitProducerId", response.error_code)
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        topics = [AddPartitionsToTxnTopic(self._topic, [self._partition])]
        added = AddPartitionsToTxnRequest([], self._id, self._producer_id, self._epoch, topics)
        self._add = frame(added, _ADD_VERSION)
        self._end = frame(EndTxnRequest(self._id, self._producer_id, self._epoch, True), _END_VERSION)
        self.ready = True

    def begin(self) -> None:
        if self.stopping:
            self.idle = True
            return
        self._begun_ns = time.monotonic_ns()
        self._send_add()

    def _send_add(self) -> None:
        self.requests += 1
        self._coordinator.send(self._add, self._added)

    def _added(self, body: memoryview) -> None:
        results = AddPartitionsToTxnResponse.decode(_ADD_VERSION, body).results_by_topic_v3_and_below
        error = results[0].results_by_partition[0].partition_error_code
        if error in PASSING:
            self._wire.later(AGAIN_S, self._send_add)
            return
        self._require("AddPartitionsToTxn", error)
        batch = encode_batch(
            [NewRecord(None, _VALUE)],
            timestamps=int(time.time() * 1000),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += 1
        part = produce.ProducePartition(self._topic, self._partition, memoryview(bytearray(batch)))
        body_out = produce.encode_request(_PRODUCE_VERSION, produce.ProduceRequest(self._id, -1, 30_000, [part]))
        self._write(Frame(ApiKey.PRODUCE, _PRODUCE_VERSION, bytes(body_out)))

    def _write(self, written: Frame) -> None:
        self.requests += 1
        self._leader.send(written, partial(self._written, written))

    def _written(self, written: Frame, body: memoryview) -> None:
        error = produce.decode_response(_PRODUCE_VERSION, body).results[0].error
        if error in PASSING:
            self._wire.later(AGAIN_S, partial(self._write, written))
            return
        self._require("Produce", error)
        self._send_end()

    def _send_end(self) -> None:
        self.requests += 1
        self._coordinator.send(self._end, self._ended)

    def _ended(self, body: memoryview) -> None:
        error = EndTxnResponse.decode(_END_VERSION, body).error_code
        if error in PASSING:
            self._wire.later(AGAIN_S, self._send_end)
            return
        self._require("EndTxn", error)
        self.transactions += 1
        self.latencies_ns.append(time.monotonic_ns() - self._begun_ns)
        self.begin()

    def _require(self, what: str, error: int) -> None:
        if error:
            raise BenchmarkFailed(f"{what} of {self._id}: error {error}")
