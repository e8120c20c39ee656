"""One connection to one broker: requests go out, their responses come back in order.

Asks for the broker's versions when it connects, and says each message in the newest version that both know. After any
failure it is closed. Not thread-safe.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from typing import Final, NamedTuple, TypeVar

from broker import __version__
from broker.tools.client.errors import BrokerError, Unreachable, Unresolvable
from broker.tools.client.waits import readable, writable
from broker.wire.api import SUPPORTED, ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.headers import decode_response_header, encode_request_header
from broker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.wire.primitives import MalformedFrame
from broker.wire.schema import Message

R = TypeVar("R", bound=Message)
_LENGTH = struct.Struct(">i")
_RESPONSE_BYTES_MAX: Final = 1 << 30
_READ_BYTES: Final = 1 << 16
_API_VERSIONS_VERSION: Final = 3
_NO_ADDRESS: Final = (socket.EAI_NONAME, socket.EAI_NODATA)


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Sent(NamedTuple):
    correlation_id: int
    api: ApiKey
    version: int


class Connection:
    """`open` before anything else. Deadlines: by time.monotonic(), in seconds."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self._client_id = client_id
        self._socket: socket.socket | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._waiting: deque[_Sent] = deque()
        self._received = bytearray()
        self._correlation_id = 0

    @property
    def is_open(self) -> bool:
        """As far as is known: the broker may have closed it."""
        return self._socket is not None

    @property
    def outstanding(self) -> int:
        """Requests whose responses have not come."""
        return len(self._waiting)

    def fileno(self) -> int:
        """For select, -1 while closed."""
        return -1 if self._socket is None else self._socket.fileno()

    def open(self, deadline: float) -> None:
        """Connect and learn the broker's versions, unless that is done. Raises Unreachable, BrokerError."""
        if self._socket is not None:
            if self._waiting or not readable((self.fileno(),), 0.0):
                return
            self.close()
        left = deadline - time.monotonic()
        if left <= 0:
            raise Unreachable(f"{self.address}: no time left to connect")
        try:
            made = socket.create_connection(self.address, timeout=left)
        except UnicodeError as error:
            # Of a name that DNS cannot have: a label is empty, or longer than 63 characters.
            raise Unresolvable(f"{self.address}: {error.__cause__ or error}") from None
        except OSError as error:
            kind = Unresolvable if isinstance(error, socket.gaierror) and error.errno in _NO_ADDRESS else Unreachable
            raise kind(f"{self.address}: {error}") from None
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setblocking(False)
        self._socket = made
        self._learn_versions(deadline)

    def _learn_versions(self, deadline: float) -> None:
        self._versions = {ApiKey.API_VERSIONS: (_API_VERSIONS_VERSION, _API_VERSIONS_VERSION)}
        request = ApiVersionsRequest("highwater", __version__)
        self.send(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, request.encode(_API_VERSIONS_VERSION), deadline)
        body = self.receive(deadline)
        try:
            response = ApiVersionsResponse.decode(_API_VERSIONS_VERSION, body)
        except MalformedFrame:
            # A broker that does not know the version answers in version 0.
            response = self._decoded(ApiVersionsResponse, 0, body)
        if response.error_code not in (0, ErrorCode.UNSUPPORTED_VERSION):
            self.close()
            raise BrokerError(response.error_code)
        self._versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}

    def version(self, api: ApiKey, at_most: int | None = None) -> int:
        """The newest that both sides know. Raises BrokerError UNSUPPORTED_VERSION."""
        first, last = SUPPORTED[api]
        served = self._versions.get(api)
        if served is not None:
            newest = min(last, served[1], last if at_most is None else at_most)
            if newest >= max(first, served[0]):
                return newest
        spoken = "not at all" if served is None else f"in versions {served[0]} to {served[1]}"
        raise BrokerError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The broker at {self.address} serves {api.name} {spoken}; this client speaks {first} to {last}.",
        )

    def exchange(self, request: Message, response: type[R], deadline: float, at_most: int | None = None) -> R:
        """One request and its response. Raises Unreachable, BrokerError UNSUPPORTED_VERSION."""
        version = self.version(request.API, at_most)
        try:
            body = request.encode(version)
        except ValueError as error:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"broker at {self.address}: {error}") from None
        self.send(request.API, version, body, deadline)
        return self._decoded(response, version, self.receive(deadline))

    def _decoded(self, response: type[R], version: int, body: memoryview) -> R:
        try:
            return response.decode(version, body)
        except MalformedFrame as error:
            raise self._broken(str(error)) from None

    def send(self, api: ApiKey, version: int, body: bytes, deadline: float, *, answered: bool = True) -> None:
        """answered: a response will come, as to everything but Produce with acks=0. Raises Unreachable."""
        if self._socket is None:
            raise Unreachable(f"{self.address}: not connected")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = encode_request_header(api, version, self._correlation_id, self._client_id)
        view = memoryview(b"".join((_LENGTH.pack(len(header) + len(body)), header, body)))
        try:
            while view:
                try:
                    view = view[self._socket.send(view) :]
                except BlockingIOError:
                    left = deadline - time.monotonic()
                    if left <= 0 or not writable(self.fileno(), left):
                        raise TimeoutError("the request was not taken in time") from None
        except OSError as error:
            raise self._broken(str(error)) from None
        if answered:
            self._waiting.append(_Sent(self._correlation_id, api, version))

    def receive(self, deadline: float) -> memoryview:
        """The body of the response to the oldest request. Raises Unreachable."""
        while (body := self.poll()) is None:
            assert self._socket is not None
            left = deadline - time.monotonic()
            if left <= 0 or not readable((self.fileno(),), left):
                raise self._broken(f"no response to {self._waiting[0].api.name} in time")
        return body

    def poll(self) -> memoryview | None:
        """The body of the next response if it has come; waits for nothing. Raises Unreachable."""
        if self._socket is None:
            raise Unreachable(f"{self.address}: not connected")
        while True:
            frame = self._frame()
            if frame is not None:
                return self._body(frame)
            try:
                data = self._socket.recv(_READ_BYTES if len(self._received) < _READ_BYTES else 1 << 20)
            except BlockingIOError:
                return None
            except OSError as error:
                raise self._broken(str(error)) from None
            if not data:
                raise self._broken("closed by the broker")
            self._received += data

    def _frame(self) -> memoryview | None:
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        if not 4 <= length <= _RESPONSE_BYTES_MAX:
            raise self._broken(f"a response of {length} bytes")
        end = _LENGTH.size + length
        if len(self._received) < end:
            return None
        frame = bytes(memoryview(self._received)[_LENGTH.size : end])
        del self._received[:end]
        return memoryview(frame)

    def _body(self, frame: memoryview) -> memoryview:
        if not self._waiting:
            raise self._broken("a response that nothing was asked for")
        sent = self._waiting.popleft()
        try:
            header = decode_response_header(sent.api, sent.version, frame)
        except MalformedFrame as error:
            raise self._broken(str(error)) from None
        if header.correlation_id != sent.correlation_id:
            raise self._broken(f"a response to request {header.correlation_id} instead of {sent.correlation_id}")
        return frame[header.body_start :]

    def _broken(self, why: str) -> Unreachable:
        self.close()
        return Unreachable(f"{self.address}: {why}")

    def close(self) -> None:
        """Idempotent; `open` connects again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._waiting.clear()
        self._received.clear()
