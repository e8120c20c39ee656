"""Requests from one process to another over the links, at both ends: as `broker.net.peer` and `broker.net.slot` do."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.model.backoff import Backoff
from broker.runtime.ports import Peer
from broker.wire.chunks import Chunk, FileSlice
from broker.wire.headers import decode_response_header, encode_request_header
from tests.support.chunks import chunk_view
from tests.support.simulation.loop import SimulatedLoop
from tests.support.simulation.network import Connection, Network

_CONNECT_MS = 1000.0


@dataclass
class _Request:
    api_key: int
    api_version: int
    frame: bytes
    on_response: Callable[[memoryview], None]
    on_failure: Callable[[str], None]
    timeout_ms: float
    created_ms: float


class SimulatedPeer(Peer):
    """Satisfies runtime's Peer; built as BrokerPeer is."""

    def __init__(self, loop: SimulatedLoop, host: str, client_id: str, network: Network) -> None:
        self._loop = loop
        self._network = network
        self._host = host
        self._client_id = client_id
        self._correlation = 0
        self._backoff = Backoff()
        self._waits = False
        self._closed = False
        self._connection: Connection | None = None
        self._connected = False
        self._heard_ms = 0.0
        self._looks_ms = float("inf")
        self._queued: deque[_Request] = deque()
        self._in_flight: deque[_Request] = deque()

    def send(
        self,
        api_key: int,
        api_version: int,
        body: bytes,
        on_response: Callable[[memoryview], None],
        on_failure: Callable[[str], None],
        timeout_ms: float,
    ) -> int:
        self._correlation += 1
        frame = encode_request_header(api_key, api_version, self._correlation, self._client_id) + body
        request = _Request(api_key, api_version, frame, on_response, on_failure, timeout_ms, self._loop.now_ms())
        if self._closed:
            self._fail_soon([request], "closed: this peer was closed")
            return self._correlation
        self._queued.append(request)
        self._look_at(self._loop.now_ms() + timeout_ms)
        self._loop.want_send(self)
        return self._correlation

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._drop("closed: this peer was closed")

    def abandon(self) -> None:
        """The process is dead: its kernel closes the connection."""
        self._closed = True
        if self._connection is not None:
            self._connection.give_up()

    def flush_output(self) -> None:
        """Send what is queued, over a new connection where there is none."""
        if self._closed or not self._queued:
            return
        if self._connection is None:
            if not self._waits:
                self._connect()
        elif self._connected:
            while self._queued:
                request = self._queued.popleft()
                self._in_flight.append(request)
                self._connection.request(request.frame)

    def _connect(self) -> None:
        loop, name = self._loop, self._loop.process.name
        connection = self._connection = Connection(self._network, name, self._host, f"{name}:1")
        connection.connected = lambda: loop.arrive(lambda: self._on_connected(connection))
        connection.heard = lambda frame: loop.arrive(lambda: self._on_frame(connection, frame))
        connection.lost = lambda reason: loop.arrive(lambda: self._on_lost(connection, reason))
        connection.open()
        loop.call_later(_CONNECT_MS, lambda: self._on_connect_timeout(connection))

    def _on_connected(self, connection: Connection) -> None:
        if connection is self._connection:
            self._connected = True
            self._loop.want_send(self)

    def _on_connect_timeout(self, connection: Connection) -> None:
        if connection is self._connection and not self._connected:
            self._fail("timeout: no connection")

    def _on_lost(self, connection: Connection, reason: str) -> None:
        if connection is self._connection:
            self._fail(reason)

    def _on_frame(self, connection: Connection, frame: bytes) -> None:
        if connection is not self._connection:
            return
        self._heard_ms = self._loop.now_ms()
        request = self._in_flight.popleft()
        _, start = decode_response_header(request.api_key, request.api_version, memoryview(frame))
        self._backoff.reset()
        request.on_response(memoryview(frame)[start:])

    def _look_at(self, due_ms: float) -> None:
        """One timer for all requests; it may come early for those whose connection was heard of since."""
        if due_ms < self._looks_ms:
            self._looks_ms = due_ms
            self._loop.call_later(due_ms - self._loop.now_ms(), self._look)

    def _look(self) -> None:
        """Whether a response is late."""
        now_ms = self._loop.now_ms()
        self._looks_ms = float("inf")
        for request in self._in_flight:
            if max(request.created_ms, self._heard_ms) + request.timeout_ms <= now_ms:
                self._in_flight.remove(request)
                self._fail_soon([request], "timeout: no response")
                self._fail("closed: a request timed out")
                return
        for request in [one for one in self._queued if one.created_ms + one.timeout_ms <= now_ms]:
            self._queued.remove(request)
            self._fail_soon([request], "timeout: no response")
        dues = [max(one.created_ms, self._heard_ms) + one.timeout_ms for one in self._in_flight]
        dues += [one.created_ms + one.timeout_ms for one in self._queued]
        if dues:
            self._look_at(min(dues))

    def _fail(self, reason: str) -> None:
        self._drop(reason)
        self._waits = True
        self._loop.call_later(self._backoff.next_ms(), self._on_backoff_over)

    def _on_backoff_over(self) -> None:
        self._waits = False
        self._loop.want_send(self)

    def _drop(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.give_up()
            self._connection = None
        self._connected = False
        waiting = [*self._in_flight, *self._queued]
        self._in_flight.clear()
        self._queued.clear()
        self._fail_soon(waiting, reason)

    def _fail_soon(self, requests: list[_Request], reason: str) -> None:
        for request in requests:
            self._loop.call_soon(lambda request=request: request.on_failure(reason))  # type: ignore[misc]


class Slot:
    """One request's place in the order of its connection's responses."""

    def __init__(self, end: ServerEnd) -> None:
        self._end = end
        self.done = False
        self.data: bytes | None = None
        self.overtaken: Callable[[], None] | None = None
        self._chunks: Sequence[Chunk] = ()
        self.closes = False

    @property
    def open(self) -> bool:
        return self._end.open

    def fulfil(self, chunks: Sequence[Chunk]) -> None:
        assert not self.done, "fulfilled twice"
        self.done = True
        # As the net does: what is memory may be used again after the turn, what is a file's is read when it is sent.
        self._chunks = [_held(chunk) for chunk in chunks]
        self._end.want_send()

    def fulfil_nothing(self) -> None:
        assert not self.done, "fulfilled twice"
        self.done = True
        self._end.want_send()

    def when_overtaken(self, call: Callable[[], None] | None) -> None:
        self.overtaken = call

    def close_connection(self, reason: str, response: Sequence[Chunk] = ()) -> None:
        self.closes = True
        if response:
            self.fulfil(response)
        else:
            self.fulfil_nothing()

    def read(self) -> bytes:
        """The response's bytes, b"" where there is none."""
        data = b"".join(bytes(chunk_view(chunk)) for chunk in self._chunks)
        for chunk in self._chunks:
            if isinstance(chunk, FileSlice):
                os.close(chunk.fd)
        return data


def _held(chunk: Chunk) -> Chunk:
    return chunk._replace(fd=os.dup(chunk.fd)) if isinstance(chunk, FileSlice) else bytes(chunk)


class ServerEnd:
    """The accepting end of one connection."""

    def __init__(self, loop: SimulatedLoop, connection: Connection) -> None:
        self.open = True
        self.connection = connection
        self._loop = loop
        self._slots: deque[Slot] = deque()
        self._wanted = False

    def slot(self) -> Slot:
        slot = Slot(self)
        self._slots.append(slot)
        return slot

    def want_send(self) -> None:
        if not self._wanted:
            self._wanted = True
            self._loop.want_send(self)

    def flush_output(self) -> None:
        """Send the responses that are there, in the order of the requests."""
        self._wanted = False
        while self._slots and self._slots[0].done:
            slot = self._slots.popleft()
            data = slot.read()
            if self.open and data:
                self.connection.respond(data)
            if slot.closes and self.open:
                self.open = False
                self.connection.reset("closed: by the broker")
        if self._slots and any(slot.done for slot in self._slots):
            call, self._slots[0].overtaken = self._slots[0].overtaken, None
            if call is not None:
                self._loop.call_soon(call)
