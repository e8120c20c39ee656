"""One blocking connection from a process to a node: a request goes out, its response comes back, or an error says how
far it got.

Decides deadlines, framing and what a broken socket is called. Must not know what requests mean. Invariants: a
request is handed to the kernel at most once; after any failure the connection is closed, so a response never meets
another's request.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import NamedTuple

from broker.wire.headers import decode_response_header, encode_request_header
from broker.wire.primitives import MalformedFrame
from harness.operations import outcomes

_LENGTH = struct.Struct(">i")
RESPONSE_BYTES_MAX = 128 << 20
_READ_BYTES = 64 * 1024


class Address(NamedTuple):
    """Where a broker listens, as the harness reaches it."""

    host: str
    port: int


class ClientError(Exception):
    """A request without a response. error: a name of `outcomes`; at_ns: CLOCK_MONOTONIC when that was known."""

    def __init__(self, error: str, detail: str) -> None:
        super().__init__(f"{error}: {detail}")
        self.error = error
        self.detail = detail
        self.at_ns = time.monotonic_ns()


class Response(NamedTuple):
    """body: the bytes after the response header; at_ns: CLOCK_MONOTONIC when the last of them had come."""

    body: memoryview
    at_ns: int


class Connection:
    """Not thread-safe; belongs to one process."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self._client_id = client_id
        self._stream: _Stream | None = None
        self._correlation_id = 0

    @property
    def open(self) -> bool:
        """Whether there is a connection, as far as is known: the peer may have closed it."""
        return self._stream is not None

    def connect(self, deadline_ns: int) -> None:
        """Make sure that there is a live connection. Raises ClientError `connection-refused` or `not-connected`."""
        if self._stream is not None and self._stream.quiet():
            return
        self.close()
        wait_s = _left_s(deadline_ns)
        if wait_s <= 0:
            raise ClientError(outcomes.NOT_CONNECTED, f"{self._where}: no time left to connect")
        try:
            made = socket.create_connection(self.address, timeout=wait_s)
        except ConnectionRefusedError as error:
            raise ClientError(outcomes.REFUSED, f"{self._where}: {error}") from None
        except OSError as error:
            raise ClientError(outcomes.NOT_CONNECTED, f"{self._where}: {error}") from None
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = _Stream(made)

    def exchange(self, api_key: int, version: int, body: bytes, deadline_ns: int) -> Response:
        """One request and its response over a connection that `connect` made. Raises ClientError; connects nothing."""
        stream, sent_id = self._send(api_key, version, body, deadline_ns)
        try:
            frame = self._receive(stream, deadline_ns)
            at_ns = time.monotonic_ns()
            header = decode_response_header(api_key, version, frame)
        except MalformedFrame as error:
            raise self._malformed(str(error)) from None
        if header.correlation_id != sent_id:
            raise self._malformed(f"response to request {header.correlation_id}, {sent_id} was sent")
        return Response(frame[header.body_start :], at_ns)

    def send_only(self, api_key: int, version: int, body: bytes, deadline_ns: int) -> int:
        """A request without a response (acks=0): CLOCK_MONOTONIC in ns, once the kernel has taken all of it."""
        self._send(api_key, version, body, deadline_ns)
        return time.monotonic_ns()

    def _send(self, api_key: int, version: int, body: bytes, deadline_ns: int) -> tuple[_Stream, int]:
        stream = self._stream
        if stream is None:
            raise ClientError(outcomes.NOT_CONNECTED, f"{self._where}: not connected")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = encode_request_header(api_key, version, self._correlation_id, self._client_id)
        try:
            stream.write(b"".join((_LENGTH.pack(len(header) + len(body)), header, body)), deadline_ns)
        except OSError as error:
            # Some bytes may have been sent; it is unknown which.
            raise self._broken(error) from None
        return stream, self._correlation_id

    def _receive(self, stream: _Stream, deadline_ns: int) -> memoryview:
        """The frame after its length, which is all that has come."""
        received = bytearray()
        end = 4
        while len(received) < end:
            try:
                data = stream.read(max(_READ_BYTES, end - len(received)), deadline_ns)
            except TimeoutError:
                raise self._broken(TimeoutError(f"{len(received)} bytes of a response came in time")) from None
            except OSError as error:
                raise self._broken(error) from None
            if not data:
                raise self._broken(ConnectionResetError("closed by the node"))
            received += data
            if end == 4 and len(received) >= 4:
                (length,) = _LENGTH.unpack_from(received)
                if not 4 <= length <= RESPONSE_BYTES_MAX:
                    raise self._malformed(f"a response of {length} bytes")
                end = 4 + length
        if len(received) > end:
            raise self._malformed(f"{len(received) - end} bytes after the response")
        return memoryview(received)[4:]

    def _malformed(self, what: str) -> ClientError:
        self.close()
        return ClientError(outcomes.MALFORMED, f"{self._where}: {what}")

    def _broken(self, error: OSError) -> ClientError:
        self.close()
        name = outcomes.TIMEOUT if isinstance(error, TimeoutError) else outcomes.RESET
        return ClientError(name, f"{self._where}: {error}")

    @property
    def _where(self) -> str:
        return f"{self.address.host}:{self.address.port}"

    def close(self) -> None:
        """Close the socket; idempotent. `connect` makes another."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _left_s(deadline_ns: int) -> float:
    return (deadline_ns - time.monotonic_ns()) / 1e9


class _Stream:
    """A non-blocking socket and what waits on it: fewer system calls than a socket's own time-outs."""

    def __init__(self, made: socket.socket) -> None:
        made.setblocking(False)
        self._socket = made
        self._readable = select.poll()
        self._readable.register(made, select.POLLIN)
        self._writable = select.poll()
        self._writable.register(made, select.POLLOUT)

    def quiet(self) -> bool:
        """Whether nothing waits to be read: no end of stream, no reset, no unexpected response."""
        return not self._readable.poll(0)

    def write(self, data: bytes, deadline_ns: int) -> None:
        """All of data. Raises OSError, TimeoutError after the deadline."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                _wait(self._writable, deadline_ns)

    def read(self, size: int, deadline_ns: int) -> bytes:
        """What is there, at most size bytes, b"" at the end of the stream. Raises OSError, TimeoutError."""
        while True:
            _wait(self._readable, deadline_ns)
            try:
                return self._socket.recv(size)
            except BlockingIOError:
                continue

    def close(self) -> None:
        self._socket.close()


def _wait(poller: select.poll, deadline_ns: int) -> None:
    left_ms = (deadline_ns - time.monotonic_ns()) / 1e6
    if left_ms <= 0 or not poller.poll(left_ms):
        raise TimeoutError
