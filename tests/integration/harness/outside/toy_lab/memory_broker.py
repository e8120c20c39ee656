"""A broker with one partition in memory: Produce, Fetch and ListOffsets over TCP, by the codecs of `broker.wire`."""

from __future__ import annotations

import socketserver
import struct
import threading

from broker.wire.api import ApiKey
from broker.wire.headers import decode_request_header, encode_response_header
from broker.wire.messages import fetch, fetch_response, produce
from broker.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.record_batch import read_header, stamp

EARLIEST = -2
EPOCH = 5
OFFSET_OUT_OF_RANGE = 1
_LENGTH = struct.Struct(">i")


class MemoryBroker(socketserver.ThreadingTCPServer):
    """Partition 0 of one topic. log: its batches, as they came, stamped with offset and epoch."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, topic: str, host: str, port: int) -> None:
        super().__init__((host, port), _Requests)
        self.topic = topic
        self.lock = threading.Lock()
        self.log = bytearray()
        self.leo = 0
        self.log_start = 0

    def append(self, batch: bytes) -> int:
        """Stamp and keep one batch; its base offset."""
        writable = memoryview(bytearray(batch))
        base = self.leo
        stamp(writable, 0, base, EPOCH)
        self.log += writable
        self.leo = base + read_header(writable).last_offset_delta + 1
        return base

    def respond(self, frame: memoryview) -> bytes:
        """The response to one request, with its header."""
        header = decode_request_header(frame)
        api, version, body = ApiKey(header.api_key), header.api_version, frame[header.body_start :]
        with self.lock:
            match api:
                case ApiKey.PRODUCE:
                    response = self._produce(version, produce.decode_request(version, body))
                case ApiKey.FETCH:
                    response = self._fetch(version, fetch.decode_request(version, body))
                case ApiKey.LIST_OFFSETS:
                    response = self._list_offsets(ListOffsetsRequest.decode(version, body)).encode(version)
                case _:
                    raise AssertionError(api)
        return encode_response_header(header.api_key, version, header.correlation_id) + response

    def _produce(self, version: int, request: produce.ProduceRequest) -> bytes:
        results = []
        for topic, index, records in request.partitions:
            assert records is not None
            results.append(produce.ProducePartitionResult(topic, index, 0, self.append(bytes(records))))
        return produce.encode_response(version, results)

    def _fetch(self, version: int, request: fetch.FetchRequest) -> bytes:
        (wanted,) = request.partitions
        inside = self.log_start <= wanted.fetch_offset <= self.leo
        view = memoryview(bytes(self.log))
        at = 0
        while at < len(view) and read_header(view, at).last_offset < wanted.fetch_offset:
            at += read_header(view, at).size
        result = fetch_response.FetchPartitionResult(
            self.topic,
            "",
            wanted.partition,
            0 if inside else OFFSET_OUT_OF_RANGE,
            self.leo,
            self.leo,
            self.log_start,
            None,
            -1,
            [view[at : at + wanted.max_bytes]] if inside else [],
        )
        return b"".join(bytes(chunk) for chunk in fetch_response.encode_response(version, [result]))

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            parts = [
                ListOffsetsPartitionResponse(
                    one.partition_index, 0, -1, self.log_start if one.timestamp == EARLIEST else self.leo, EPOCH
                )
                for one in topic.partitions
            ]
            topics.append(ListOffsetsTopicResponse(topic.name, parts))
        return ListOffsetsResponse(topics=topics)


class _Requests(socketserver.StreamRequestHandler):
    """One connection: requests, each behind its length, and their responses in the same order."""

    server: MemoryBroker

    def handle(self) -> None:
        while len(prefix := self.rfile.read(4)) == 4:
            response = self.server.respond(memoryview(self.rfile.read(_LENGTH.unpack(prefix)[0])))
            self.wfile.write(_LENGTH.pack(len(response)) + response)
