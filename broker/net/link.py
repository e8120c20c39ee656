"""A connection to a broker that carries nothing: it shows at once when the other process ends.

No byte is sent but the kernel's own keepalives, by which a host that lost its memory, or a link that rejects, shows
itself within seconds. When a connection ends, the next attempt follows at once: a process that is gone refuses it.
Refused attempts are repeated at growing intervals: the link notices when the process is back, without a new attempt
every few milliseconds to a server that accepts connections and closes them at once.
Source: C10 of docs/guarantees.md; docs/adr/0011.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Final

from broker.core.controller.suspicion import LinkEvent
from broker.model.timers import TimerHandle
from broker.net.connecting import outcome
from broker.net.loop import READABLE, WRITABLE, EpollLoop
from broker.net.resolver import Destination, Lookup, Resolution, Resolver, SocketAddress

CONNECT_TIMEOUT_MS: Final = 1000.0
_RETRY_FIRST_MS: Final = 20.0
_RETRY_MAX_MS: Final = 500.0
_READ_BYTES: Final = 4096
_SOUND_MS: Final = 1000.0
_KEEPALIVE_IDLE_S: Final = 2
_KEEPALIVE_INTERVAL_S: Final = 2
_KEEPALIVE_COUNT: Final = 5


class Link:
    """Keeps a connection to host:port and reports what happens to it, until `close`."""

    def __init__(
        self,
        loop: EpollLoop,
        host: str,
        port: int,
        on_event: Callable[[LinkEvent], None],
        resolver: Resolver | None = None,
    ) -> None:
        """resolver: of this loop; names need one."""
        self._loop = loop
        self._destination = Destination(host, resolver)
        self._port = port
        self._lookup: Lookup | None = None
        self._on_event = on_event
        self._socket: socket.socket | None = None
        self._connected = False
        self._connected_ms = 0.0
        self._failures = 0
        self._timer: TimerHandle | None = None
        self._closed = False
        loop.call_soon(self._connect)

    def close(self) -> None:
        """No more attempts, no more events."""
        self._closed = True
        self._drop()

    def _connect(self) -> None:
        if self._closed:
            return
        self._timer = self._loop.call_later(CONNECT_TIMEOUT_MS, lambda: self._again(LinkEvent.UNREACHABLE))
        self._lookup = self._destination.find(self._found)

    def _found(self, resolution: Resolution) -> None:
        self._lookup = None
        if isinstance(resolution, SocketAddress):
            self._open(resolution)
        else:
            self._again(LinkEvent.UNREACHABLE)

    def _open(self, address: SocketAddress) -> None:
        try:
            sock = socket.socket(address.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError:
            self._again(LinkEvent.UNREACHABLE)
            return
        self._socket = sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_COUNT)
        code = sock.connect_ex(address.at(self._port))
        self._loop.register(sock.fileno(), WRITABLE, self._on_socket)
        if code not in (0, errno.EINPROGRESS):
            self._failed(code)

    def _on_socket(self, events: int) -> None:
        assert self._socket is not None
        if self._connected:
            self._read()
            return
        code, to_itself = outcome(self._socket)
        if code:
            self._failed(code)
        elif to_itself:
            self._failed(errno.ECONNREFUSED)
        else:
            self._loop.modify(self._socket.fileno(), READABLE)
            self._is_connected()

    def look(self) -> None:
        """See now whether the connection has ended, and report it, without waiting for the loop's next turn."""
        if self._socket is None or not self._connected:
            return
        try:
            ended = not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            self._read()

    def _read(self) -> None:
        assert self._socket is not None
        try:
            received = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._has_ended()

    def _is_connected(self) -> None:
        self._cancel_timer()
        self._connected = True
        self._connected_ms = self._loop.now_ms()
        self._on_event(LinkEvent.CONNECTED)

    def _has_ended(self) -> None:
        """A connection that was there."""
        if self._loop.now_ms() - self._connected_ms >= _SOUND_MS:
            self._failures = 0
        # The first time at once: what comes next tells a dead process from a closed connection.
        delay_ms = 0.0 if self._failures == 0 else self._pause_ms()
        self._failures += 1
        self._drop()
        self._timer = self._loop.call_later(delay_ms, self._connect)
        self._on_event(LinkEvent.CLOSED)

    def _failed(self, code: int) -> None:
        self._again(LinkEvent.REFUSED if code == errno.ECONNREFUSED else LinkEvent.UNREACHABLE)

    def _again(self, event: LinkEvent) -> None:
        self._drop()
        self._failures += 1
        self._timer = self._loop.call_later(self._pause_ms(), self._connect)
        self._on_event(event)

    def _pause_ms(self) -> float:
        return float(min(_RETRY_MAX_MS, _RETRY_FIRST_MS * 2 ** min(self._failures, 16)))

    def _drop(self) -> None:
        self._cancel_timer()
        if self._lookup is not None:
            self._lookup.cancel()
            self._lookup = None
        if self._socket is not None:
            self._loop.unregister(self._socket.fileno())
            self._socket.close()
            self._socket = None
        self._connected = False

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
