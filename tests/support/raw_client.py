"""A client made of one socket, for tests of what well-behaved clients don't do: not reading, sending halves, lying."""

from __future__ import annotations

import os
import socket
import struct
import time

from broker.wire.api import ApiKey
from broker.wire.headers import encode_request_header
from broker.wire.messages import fetch, produce
from broker.wire.records import NewRecord, encode_batch

_CORRELATION_ID = 7


class RawClient:
    """Frames out, frames in. address: of a broker; source: the loopback address to come from."""

    def __init__(self, port: int, *, source: str = "127.0.0.1", receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(20)
        try:
            self.socket.bind((source, 0))
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise

    def send(self, frame: bytes) -> None:
        self.socket.sendall(frame)

    def send_until_full(self, frame: bytes, frames_max: int, quiet_s: float = 0.5) -> int:
        """Send copies of frame until the other end has read nothing for quiet_s; how many bytes it took."""
        self.socket.setblocking(False)
        data = memoryview(frame * max(1, 65536 // len(frame)))
        sent = 0
        moved = time.monotonic()
        while sent < frames_max * len(frame) and time.monotonic() - moved < quiet_s:
            try:
                sent += self.socket.send(data[sent % len(data) :])
                moved = time.monotonic()
            except BlockingIOError:
                time.sleep(0.005)
        self.socket.settimeout(20)
        return sent

    def receive(self) -> bytes:
        """One frame without its length."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(min(size - len(data), 1 << 20))
            if not more:
                raise EOFError(f"closed after {len(data)} of {size} bytes")
            data += more
        return data

    def produce(
        self, topic: str, records: bytes, acks: int = 1, transactional_id: str | None = None
    ) -> produce.ProducePartitionResult:
        """One batch to partition 0, and what the broker says to it."""
        self.send(produce_frame(topic, records, acks, transactional_id))
        (result,) = produce.decode_response(9, memoryview(self.receive())[5:]).results
        return result

    def close(self) -> None:
        self.socket.close()


def framed(api_key: int, version: int, body: bytes) -> bytes:
    """A whole request."""
    header = encode_request_header(api_key, version, _CORRELATION_ID, "raw")
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce_frame(topic: str, records: bytes, acks: int, transactional_id: str | None = None) -> bytes:
    part = produce.ProducePartition(topic, 0, memoryview(bytearray(records)))
    request = produce.ProduceRequest(transactional_id, acks, 30_000, [part])
    return framed(ApiKey.PRODUCE, 9, produce.encode_request(9, request))


def fetch_frame(topic: str, offset: int, max_bytes: int, max_wait_ms: int = 500) -> bytes:
    """A fetch of partition 0 outside of any session."""
    part = fetch.FetchPartition(topic, partition=0, fetch_offset=offset, max_bytes=max_bytes)
    asked = fetch.FetchRequest(max_wait_ms=max_wait_ms, max_bytes=max_bytes, partitions=[part])
    return framed(ApiKey.FETCH, 12, fetch.encode_request(12, asked))


def batch_of(size: int) -> bytes:
    """A batch of one record with a random value of that size."""
    return encode_batch([NewRecord(None, os.urandom(size))], timestamps=1_700_000_000_000)
