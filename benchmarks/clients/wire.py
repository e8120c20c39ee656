"""Requests of Kafka's protocol on many connections of one thread, for loads that no library makes cheaply.

Decides how frames go out and how responses find whoever asked: on each connection in turn. Frames that are sent again
and again are made once. Must not know what is asked.
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable

from benchmarks.process import BenchmarkFailed
from broker.wire.api import ApiKey, response_header_version
from broker.wire.headers import encode_request_header
from broker.wire.schema import Message
from harness.clients.connection import Address

CLIENT_ID = "highwater-bench"
_CONNECT_TIMEOUT_S = 10.0
_LOOK_S = 0.5
_READ_BYTES = 1 << 16

Then = Callable[[memoryview], None]
"""Takes the body of a response."""


class Frame:
    """A whole request, and where the body of its response begins."""

    __slots__ = ("body_start", "data")

    def __init__(self, api: ApiKey, version: int, body: bytes) -> None:
        request = encode_request_header(api, version, 1, CLIENT_ID) + body
        self.data = len(request).to_bytes(4, "big") + request
        self.body_start = 4 + response_header_version(api, version)


def frame(request: Message, version: int) -> Frame:
    """Of a request whose codec is generated."""
    return Frame(request.API, version, request.encode(version))


class Line:
    """One connection."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection((address.host, address.port), _CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._waiting: deque[tuple[int, Then]] = deque()
        self._received = bytearray()

    def send(self, frame: Frame, then: Then) -> None:
        """Requests are small: there is room for them."""
        self._waiting.append((frame.body_start, then))
        self.socket.sendall(frame.data)

    def receive(self) -> bool:
        """What is there to be read, handed to whoever asked; False once the broker has closed it.

        Raises BenchmarkFailed when somebody still waits then.
        """
        try:
            more = self.socket.recv(_READ_BYTES)
        except ConnectionError:
            more = b""
        if not more:
            if self._waiting:
                raise BenchmarkFailed("a broker closed a connection that waited for a response")
            return False
        received = self._received
        received += more
        while len(received) >= 4:
            end = 4 + int.from_bytes(received[:4], "big")
            if len(received) < end:
                break
            response = memoryview(bytes(received[4:end]))
            del received[:end]
            body_start, then = self._waiting.popleft()
            then(response[body_start:])
        return True


class Wire:
    """All connections of one load, and what is to be done later. Closed like a file."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lines: list[Line] = []
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            line.socket.close()
        self._selector.close()

    def connect(self, address: Address) -> Line:
        """Raises BenchmarkFailed when nobody takes it."""
        try:
            line = Line(address)
        except OSError as error:
            raise BenchmarkFailed(f"{address.host}:{address.port} takes no connection: {error}") from None
        self._lines.append(line)
        self._selector.register(line.socket, selectors.EVENT_READ, line)
        return line

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._numbers), action))

    def run_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._run(lambda: time.monotonic() >= until, until)

    def run_until(self, done: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Raises BenchmarkFailed with `what` when it does not come about."""
        until = time.monotonic() + timeout_s
        self._run(done, until)
        if not done():
            raise BenchmarkFailed(f"not within {timeout_s:g} s: {what}")

    def _run(self, done: Callable[[], bool], until: float) -> None:
        while not done():
            now = time.monotonic()
            if now >= until:
                return
            while self._later and self._later[0][0] <= now:
                heapq.heappop(self._later)[2]()
            next_s = self._later[0][0] - now if self._later else _LOOK_S
            for key, _ in self._selector.select(max(0.0, min(next_s, until - now, _LOOK_S))):
                line: Line = key.data
                if not line.receive():
                    self._selector.unregister(line.socket)


def ask(wire: Wire, line: Line, frame: Frame, timeout_s: float = 30.0) -> memoryview:
    """One response, awaited while everything else goes on."""
    got: list[memoryview] = []
    line.send(frame, got.append)
    wire.run_until(lambda: bool(got), "a response", timeout_s)
    return got[0]
