"""One blocking connection from a process to a node: a request goes out, its answer comes back, or an error says how
far it got.

Decides deadlines, framing and what a broken socket is called. Must not know what requests mean. Invariants: a
request is handed to the kernel at most once; after any failure the connection is closed, so an answer never meets
another's question.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from typing import NamedTuple

from broker.wire.headers import decode_response_header, encode_request_header
from broker.wire.primitives import MalformedFrame
from harness import outcomes

_LENGTH = struct.Struct(">i")
ANSWER_BYTES_MAX = 128 << 20
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL)


class Address(NamedTuple):
    host: str
    port: int


class ClientError(Exception):
    """A request without an answer. error: a name of `outcomes`; at_ns: CLOCK_MONOTONIC when that was known."""

    def __init__(self, error: str, detail: str) -> None:
        super().__init__(f"{error}: {detail}")
        self.error = error
        self.detail = detail
        self.at_ns = time.monotonic_ns()


class Answer(NamedTuple):
    """body: the bytes after the response header; at_ns: CLOCK_MONOTONIC when the last of them had come."""

    body: memoryview
    at_ns: int


class Connection:
    """Not thread-safe; belongs to one process."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self._client_id = client_id
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    @property
    def open(self) -> bool:
        return self._socket is not None

    def connect(self, deadline_ns: int) -> None:
        """Make sure that there is a live connection. Raises ClientError `connection-refused` or `not-connected`."""
        if self._socket is not None and _quiet(self._socket):
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
        self._socket = made

    def exchange(self, api_key: int, version: int, body: bytes, deadline_ns: int) -> Answer:
        """One request and its answer over a connection that `connect` made. Raises ClientError; connects nothing."""
        made, sent_id = self._send(api_key, version, body, deadline_ns)
        try:
            frame = self._receive(made, deadline_ns)
            at_ns = time.monotonic_ns()
            header = decode_response_header(api_key, version, frame)
        except MalformedFrame as error:
            self.close()
            raise ClientError(outcomes.MALFORMED, f"{self._where}: {error}") from None
        if header.correlation_id != sent_id:
            self.close()
            raise ClientError(
                outcomes.MALFORMED, f"{self._where}: answer to request {header.correlation_id}, {sent_id} was sent"
            )
        return Answer(frame[header.body_start :], at_ns)

    def send_only(self, api_key: int, version: int, body: bytes, deadline_ns: int) -> int:
        """A request that has no answer (acks=0): returns when the kernel has taken all of it, in CLOCK_MONOTONIC ns."""
        self._send(api_key, version, body, deadline_ns)
        return time.monotonic_ns()

    def _send(self, api_key: int, version: int, body: bytes, deadline_ns: int) -> tuple[socket.socket, int]:
        made = self._socket
        if made is None:
            raise ClientError(outcomes.NOT_CONNECTED, f"{self._where}: not connected")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = encode_request_header(api_key, version, self._correlation_id, self._client_id)
        try:
            made.settimeout(max(0.001, _left_s(deadline_ns)))
            made.sendall(b"".join((_LENGTH.pack(len(header) + len(body)), header, body)))
        except OSError as error:
            # Some bytes may have gone out; nobody knows which.
            raise self._broken(error) from None
        return made, self._correlation_id

    def _receive(self, made: socket.socket, deadline_ns: int) -> memoryview:
        (length,) = _LENGTH.unpack(self._read(made, 4, deadline_ns))
        if not 4 <= length <= ANSWER_BYTES_MAX:
            self.close()
            raise ClientError(outcomes.MALFORMED, f"{self._where}: an answer of {length} bytes")
        return self._read(made, length, deadline_ns)

    def _read(self, made: socket.socket, length: int, deadline_ns: int) -> memoryview:
        buffer = bytearray(length)
        view = memoryview(buffer)
        got = 0
        while got < length:
            left_s = _left_s(deadline_ns)
            if left_s <= 0:
                raise self._broken(TimeoutError(f"{got} of {length} bytes came in time"))
            try:
                made.settimeout(left_s)
                count = made.recv_into(view[got:])
            except OSError as error:
                raise self._broken(error) from None
            if count == 0:
                raise self._broken(ConnectionResetError("closed by the node"))
            got += count
        return view

    def _broken(self, error: OSError) -> ClientError:
        self.close()
        name = outcomes.TIMEOUT if isinstance(error, TimeoutError) else outcomes.RESET
        return ClientError(name, f"{self._where}: {error}")

    @property
    def _where(self) -> str:
        return f"{self.address.host}:{self.address.port}"

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _left_s(deadline_ns: int) -> float:
    return (deadline_ns - time.monotonic_ns()) / 1e9


def _quiet(made: socket.socket) -> bool:
    """Whether nothing waits to be read: no end of stream, no reset, no answer that nobody asked for."""
    poller = select.poll()
    poller.register(made, select.POLLIN | select.POLLERR | select.POLLHUP)
    return not poller.poll(0)
