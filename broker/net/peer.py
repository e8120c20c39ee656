"""A pipelined connection to another broker.

Connects when there is something to send, reconnects with backoff and jitter, and gives every request exactly one
callback, never from inside `send` and never in the send phase. Responses are matched in request order, as brokers send
them; one out of order closes the connection. A request times out when its connection stays silent for its whole
time: as long as bytes come, its response or one before it is under way, and giving up would only request the same bytes
again over a slow link. A time-out closes the connection, because the responses behind it would come no sooner; what
else was in flight fails as `closed`. A closed connection delivers nothing more: what it had not delivered is lost with
it. What waits for a connection is bounded: above QUEUED_MAX requests `send` fails the new one.
Source: Kafka's NetworkClient, NetworkClientUtils; reconnect.backoff.ms.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.model.backoff import Backoff
from broker.model.timers import TimerHandle
from broker.net.connecting import outcome
from broker.net.loop import FAILED, READABLE, WRITABLE, EpollLoop
from broker.net.receive import FrameBuffer, FrameSizeError
from broker.net.resolver import Destination, Lookup, Resolution, Resolver, SocketAddress
from broker.net.send import OutputQueue
from broker.wire.headers import decode_response_header, encode_request_header
from broker.wire.primitives import MalformedFrame

_log = logging.getLogger(__name__)

# Kafka waits 10 s (socket.connection.setup.timeout.ms). Packets to a host that is cut off vanish, and TCP repeats the
# first one after 1, 3, 7 s: a cut that heals is found sooner by a new attempt.
CONNECT_TIMEOUT_MS: Final = 1000.0
RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
# A fetch response holds one batch at least, however large; when its leader took that batch it went by the leader's
# limits, not by this broker's. A limit below that would refuse the same batch for ever. So only the length of a frame
# is bounded; memory grows with the bytes that came. Source: NetworkReceive.UNLIMITED, as Kafka's brokers read each
# other.
FETCHED_BYTES_MAX: Final = 2**31 - 1
QUEUED_MAX: Final = 10_000
_CORRELATION_ID_MAX: Final = 0x7FFFFFFF
_LENGTH = struct.Struct(">i")
_NO_LINGERING: Final = struct.pack("ii", 1, 0)


class _Request:
    """One request from send to its callback."""

    __slots__ = (
        "api_key",
        "api_version",
        "correlation_id",
        "created_ms",
        "frame",
        "on_failure",
        "on_response",
        "timeout_ms",
    )

    def __init__(
        self,
        correlation_id: int,
        api_key: int,
        api_version: int,
        frame: bytes,
        on_response: Callable[[memoryview], None],
        on_failure: Callable[[str], None],
        created_ms: float,
        timeout_ms: float,
    ) -> None:
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.api_version = api_version
        self.frame = frame
        self.on_response = on_response
        self.on_failure = on_failure
        self.created_ms = created_ms
        self.timeout_ms = timeout_ms


class BrokerPeer:
    """Satisfies runtime's Peer."""

    def __init__(
        self,
        loop: EpollLoop,
        host: str,
        port: int,
        client_id: str,
        *,
        resolver: Resolver | None = None,
        backoff: Backoff | None = None,
        connect_timeout_ms: float = CONNECT_TIMEOUT_MS,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        """resolver: of this loop; names need one. connect_timeout_ms: covers the lookup of a name."""
        self.address = f"{host}:{port}"
        self._loop = loop
        self._destination = Destination(host, resolver)
        self._port = port
        self._lookup: Lookup | None = None
        self._client_id = client_id
        self._backoff = backoff if backoff is not None else Backoff()
        self._connect_timeout_ms = connect_timeout_ms
        self._response_bytes_max = response_bytes_max
        self._correlation_id = 0
        self._queued: deque[_Request] = deque()
        self._in_flight: deque[_Request] = deque()
        self._socket: socket.socket | None = None
        self._connected = False
        self._events = 0
        self._heard_ms = 0.0
        self._received = FrameBuffer(response_bytes_max)
        self._output = OutputQueue()
        self._send_wanted = False
        self._timeout_timer: TimerHandle | None = None
        self._timeout_armed_ms = 0.0
        self._connect_timer: TimerHandle | None = None
        self._backoff_timer: TimerHandle | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<peer {self.address}>"

    @property
    def connected(self) -> bool:
        return self._connected

    @property
    def in_flight(self) -> int:
        """Requests that are sent and have no response yet."""
        return len(self._in_flight)

    def send(
        self,
        api_key: int,
        api_version: int,
        body: bytes,
        on_response: Callable[[memoryview], None],
        on_failure: Callable[[str], None],
        timeout_ms: float,
    ) -> int:
        """Queue one request for the end of this turn; returns its correlation id.

        on_response: the bytes after the response header, valid until the end of the turn's before-send hooks.
        on_failure: a reason that starts with refused, reset, timeout or closed. timeout_ms counts from now, and from
        every byte that comes once the request is sent; it includes connecting.
        """
        self._correlation_id = correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        header = encode_request_header(api_key, api_version, correlation_id, self._client_id)
        frame = _LENGTH.pack(len(header) + len(body)) + header + body
        now_ms = self._loop.now_ms()
        request = _Request(correlation_id, api_key, api_version, frame, on_response, on_failure, now_ms, timeout_ms)
        if self._closed:
            self._fail_soon([request], "closed: this peer was closed")
        elif len(self._queued) >= QUEUED_MAX:
            self._fail_soon([request], f"closed: {QUEUED_MAX} requests wait for {self.address} already")
        else:
            if self._timeout_timer is None or now_ms + timeout_ms < self._timeout_armed_ms:
                self._arm_timeout(now_ms + timeout_ms)
            self._queued.append(request)
            self._want_send()
        return correlation_id

    def close(self) -> None:
        """Give the connection up; what is in flight or queued fails as `closed`."""
        if not self._closed:
            self._closed = True
            self._drop("closed: this peer was closed")
            for timer in (self._backoff_timer, self._timeout_timer):
                if timer is not None:
                    timer.cancel()

    def flush_output(self) -> None:
        """Send phase: connect when there is no connection yet, else send once."""
        self._send_wanted = False
        if self._closed:
            return
        if self._socket is None:
            if self._queued and self._backoff_timer is None and self._lookup is None:
                self._connect()
            return
        if not self._connected or self._events & WRITABLE:
            return
        while self._queued:
            request = self._queued.popleft()
            self._in_flight.append(request)
            self._output.append(request.frame, len(request.frame))
        try:
            done = self._output.send(self._socket)
        except OSError as error:
            self._fail(f"reset: {self.address}: {error}")
            return
        if not done:
            self._set_events(READABLE | WRITABLE)

    def _want_send(self) -> None:
        if not self._send_wanted:
            self._send_wanted = True
            self._loop.want_send(self)

    def _connect(self) -> None:
        self._connect_timer = self._loop.call_later(self._connect_timeout_ms, self._on_connect_timeout)
        self._lookup = self._destination.find(self._found)

    def _found(self, resolution: Resolution) -> None:
        self._lookup = None
        if isinstance(resolution, SocketAddress):
            self._open(resolution)
        else:
            self._fail(f"refused: {self.address}: {resolution}")

    def _open(self, address: SocketAddress) -> None:
        try:
            sock = socket.socket(address.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            self._fail(f"refused: {self.address}: {error}")
            return
        self._socket = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(address.at(self._port))
        self._events = WRITABLE
        self._loop.register(sock.fileno(), WRITABLE, self._on_events)
        if code not in (0, errno.EINPROGRESS):
            self._fail(f"refused: {self.address}: {os.strerror(code)}")

    def _on_connect_timeout(self) -> None:
        what = "no connection" if self._lookup is None else "no address"
        self._fail(f"timeout: {self.address}: {what} in {self._connect_timeout_ms:.0f} ms")

    def _on_events(self, events: int) -> None:
        if not self._connected:
            self._finish_connect()
            return
        if events & (READABLE | FAILED):
            self._read()
        if events & WRITABLE and self._connected:
            self._set_events(READABLE)
            self._want_send()

    def _finish_connect(self) -> None:
        assert self._socket is not None
        code, to_itself = outcome(self._socket)
        if code:
            self._fail(f"refused: {self.address}: {os.strerror(code)}")
            return
        if to_itself:
            self._fail(f"refused: {self.address}: nobody listens, the kernel connected us to ourselves")
            return
        if self._connect_timer is not None:
            self._connect_timer.cancel()
        self._connected = True
        self._set_events(READABLE)
        self._want_send()

    def _read(self) -> None:
        assert self._socket is not None
        try:
            received = self._received.receive(self._socket)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(f"reset: {self.address}: {error}")
            return
        if received == 0:
            self._fail(f"closed: {self.address} closed the connection")
            return
        self._heard_ms = self._loop.now_ms()
        try:
            while self._connected and (frame := self._received.next_frame()) is not None:
                self._on_frame(frame)
        except (FrameSizeError, MalformedFrame) as nonsense:
            self._fail(f"closed: {self.address} sent nonsense: {nonsense}")

    def _on_frame(self, frame: memoryview) -> None:
        if not self._in_flight:
            raise MalformedFrame("response", 0, len(frame), "no request waits for one")
        request = self._in_flight[0]
        correlation_id, body_start = decode_response_header(request.api_key, request.api_version, frame)
        if correlation_id != request.correlation_id:
            raise MalformedFrame("correlation_id", 0, correlation_id, f"{request.correlation_id} is next")
        self._in_flight.popleft()
        self._backoff.reset()
        try:
            request.on_response(frame[body_start:])
        except Exception:
            _log.exception(
                "response of %s to request %d (API %d) failed", self.address, correlation_id, request.api_key
            )

    def _arm_timeout(self, due_ms: float) -> None:
        """One timer for all requests; it may come early for requests whose connection has received bytes since."""
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
        self._timeout_armed_ms = due_ms
        self._timeout_timer = self._loop.call_later(due_ms - self._loop.now_ms(), self._check_timeouts)

    def _check_timeouts(self) -> None:
        self._timeout_timer = None
        now_ms = self._loop.now_ms()
        for request in self._in_flight:
            if max(request.created_ms, self._heard_ms) + request.timeout_ms <= now_ms:
                self._in_flight.remove(request)
                self._fail_soon([request], self._no_response(request))
                self._fail(f"closed: request {request.correlation_id} to {self.address} timed out")
                return
        late = [request for request in self._queued if request.created_ms + request.timeout_ms <= now_ms]
        for request in late:
            self._queued.remove(request)
            self._fail_soon([request], self._no_response(request))
        dues = [max(request.created_ms, self._heard_ms) + request.timeout_ms for request in self._in_flight]
        dues += [request.created_ms + request.timeout_ms for request in self._queued]
        if dues:
            self._arm_timeout(min(dues))

    def _no_response(self, request: _Request) -> str:
        return f"timeout: {self.address}: no response in {request.timeout_ms:.0f} ms"

    def _fail(self, reason: str) -> None:
        """Drop the connection and wait before the next."""
        self._drop(reason)
        if self._backoff_timer is not None:
            self._backoff_timer.cancel()
        self._backoff_timer = self._loop.call_later(self._backoff.next_ms(), self._on_backoff_over)

    def _on_backoff_over(self) -> None:
        self._backoff_timer = None
        if self._queued:
            self._want_send()

    def _drop(self, reason: str) -> None:
        """Close the socket, fail everything that waits, and forget half-sent and half-received bytes."""
        if self._connect_timer is not None:
            self._connect_timer.cancel()
            self._connect_timer = None
        if self._lookup is not None:
            self._lookup.cancel()
            self._lookup = None
        if self._socket is not None:
            self._loop.unregister(self._socket.fileno())
            # What the other end has not taken must not reach it later, behind what a newer connection brings: the
            # kernel would go on sending it for minutes. With no time to linger it forgets it, and resets.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
            self._socket.close()
            self._socket = None
        self._connected = False
        self._output.close()
        self._received = FrameBuffer(self._response_bytes_max)
        waiting = [*self._in_flight, *self._queued]
        self._in_flight.clear()
        self._queued.clear()
        self._fail_soon(waiting, reason)

    def _fail_soon(self, requests: list[_Request], reason: str) -> None:
        if not requests:
            return

        def fail() -> None:
            for request in requests:
                try:
                    request.on_failure(reason)
                except Exception:
                    _log.exception("failure of request %d to %s failed", request.correlation_id, self.address)

        self._loop.call_soon(fail)

    def _set_events(self, events: int) -> None:
        if events != self._events:
            assert self._socket is not None
            self._events = events
            self._loop.modify(self._socket.fileno(), events)
