"""Accepting connections on one address, and closing the ones that fell idle.

Source: Kafka's SocketServer, without its threads: the loop's turn does what acceptor and processors do there.
"""

from __future__ import annotations

import logging
import resource
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.model.timers import TimerHandle
from broker.net.complaints import Complaints
from broker.net.connection import Connection, OnClose, OnFileFailure, OnFrame
from broker.net.first_to_end import SILENT_CONNECTIONS_MAX, first_silent, listening_above
from broker.net.loop import READABLE, EpollLoop
from broker.net.receive import BufferPool
from broker.net.send import HeldFiles

_log = logging.getLogger(__name__)

REQUEST_BYTES_MAX: Final = 100 * 1024 * 1024  # socket.request.max.bytes
IDLE_MS_MAX: Final = 600_000.0  # connections.max.idle.ms
BACKLOG: Final = 512
SYSTEMS_CHOICE: Final = -1  # of the sizes of a socket's buffers
ACCEPTS_PER_TURN_MAX: Final = 128
ACCEPT_PAUSE_MS: Final = 200.0
KEPT_DESCRIPTORS_MAX: Final = 8192
_KEPT_SHARE: Final = 8
_SWEEPS_PER_IDLE_TIME: Final = 10
_SWEEP_MS_MIN: Final = 5.0
_SWEEP_MS_MAX: Final = 10_000.0
_SILENT_MS: Final = 1000.0
"""A client asks for something long before."""


def kept_descriptors() -> int:
    """How many no connection gets: an eighth of them, KEPT_DESCRIPTORS_MAX at most, is for files.

    A segment that cannot be made takes its log dir offline; a client that is turned away comes again.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return KEPT_DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else min(KEPT_DESCRIPTORS_MAX, soft // _KEPT_SHARE)


def _descriptor_limit() -> int:
    """Connections get descriptors below this number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft - kept_descriptors()


class Listener:
    """A bound socket and the connections that came through it."""

    def __init__(
        self,
        loop: EpollLoop,
        host: str,
        port: int,
        on_frame: OnFrame,
        on_close: OnClose | None = None,
        *,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        idle_ms_max: float = IDLE_MS_MAX,
        send_buffer_bytes: int = SYSTEMS_CHOICE,
        receive_buffer_bytes: int = SYSTEMS_CHOICE,
        on_file_failure: OnFileFailure | None = None,
        context_of: Callable[[str], object] | None = None,
    ) -> None:
        """host: "" for every address; port 0 for any. Raises OSError that names the address.

        on_frame(connection, frame, slot): frame is writable and valid until the end of this turn's before-send
        hooks; slot must be fulfilled exactly once. An exception from it closes the connection.
        on_close(connection): in the turn after the connection closed, whoever closed it.
        send_buffer_bytes, receive_buffer_bytes: of each connection's socket; the system may round them, and takes no
        more than net.core.wmem_max and rmem_max.
        idle_ms_max: negative to close none for being idle. on_file_failure(failure): a connection closed because a file
        slice of its responses could not be read. context_of(host:port of the other end): makes the `context` of each
        connection, once, when it is accepted.
        """
        self._loop = loop
        self._on_frame = on_frame
        self._on_close = on_close
        self._on_file_failure = on_file_failure
        self._context_of = context_of
        self._request_bytes_max = request_bytes_max
        self._idle_ms_max = idle_ms_max
        self._buffers = BufferPool(lambda: loop.turn)
        self._held = HeldFiles()
        self._complaints = Complaints(loop)
        self.connections: set[Connection] = set()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            # create_server appends "(while attempting to bind on address …)": the address would stand there twice.
            cause, _, _ = str(error.strerror).partition(" (while attempting")
            raise OSError(error.errno, f"cannot listen on {host or '*'}:{port}: {cause}") from error
        self._descriptor_limit = _descriptor_limit()
        self._socket = listening_above(self._socket, self._descriptor_limit)
        self._socket.setblocking(False)
        # What is accepted has them from here.
        for option, size in ((socket.SO_SNDBUF, send_buffer_bytes), (socket.SO_RCVBUF, receive_buffer_bytes)):
            if size != SYSTEMS_CHOICE:
                self._socket.setsockopt(socket.SOL_SOCKET, option, size)
        self.host: str = host
        self.port: int = self._socket.getsockname()[1]
        self._accepting = True
        self._new: deque[tuple[Connection, float]] = deque()
        """Connections that may turn out to be silent, with when they were accepted, oldest first."""
        self._silent_timer: TimerHandle | None = None
        self._turned_away = False  # and said so
        loop.register(self._socket.fileno(), READABLE, self._on_events)
        self._sweep_ms = min(_SWEEP_MS_MAX, max(_SWEEP_MS_MIN, idle_ms_max / _SWEEPS_PER_IDLE_TIME))
        self._sweep: TimerHandle | None = None
        if idle_ms_max >= 0:
            self._sweep = loop.call_later(self._sweep_ms, self._close_idle)

    def stop_accepting(self) -> None:
        """Refuse new connections; those that are there go on."""
        if self._accepting:
            self._accepting = False
            self._loop.unregister(self._socket.fileno())
            self._socket.close()

    def close(self) -> None:
        """Stop accepting and close every connection at once."""
        self.stop_accepting()
        for timer in (self._sweep, self._silent_timer):
            if timer is not None:
                timer.cancel()
        for connection in list(self.connections):
            connection.close()

    def _on_events(self, _: int) -> None:
        for _ in range(ACCEPTS_PER_TURN_MAX):
            try:
                sock, address = self._socket.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue  # it went away while it waited
            except OSError as error:
                self._turn_away(str(error))
                return
            if sock.fileno() >= self._descriptor_limit:
                sock.close()
                self._turn_away(
                    f"{len(self.connections)} connections are open, descriptors from {self._descriptor_limit} on are "
                    "kept for files (limit: ulimit -n)"
                )
                return
            self._turned_away = False
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            name = f"{address[0]}:{address[1]}"
            connection = Connection(
                self._loop,
                sock,
                name,
                self._on_frame,
                self._forget,
                self._request_bytes_max,
                self._buffers,
                self._held,
                self._on_file_failure,
                self._complaints,
            )
            if self._context_of is not None:
                connection.context = self._context_of(name)
            self.connections.add(connection)
            self._new.append((connection, connection.last_progress_ms))
            if self._silent_timer is None:
                self._silent_timer = self._loop.call_later(_SILENT_MS, self._move_silent)

    def _move_silent(self) -> None:
        """Whoever has said nothing is perhaps another broker's link, which is to end first with this process."""
        self._silent_timer = None
        lowest = first_silent(self._descriptor_limit)
        now_ms = self._loop.now_ms()
        while self._new:
            connection, accepted_ms = self._new[0]
            if now_ms - accepted_ms < _SILENT_MS:
                wait_ms = accepted_ms + _SILENT_MS - now_ms
                self._silent_timer = self._loop.call_later(wait_ms, self._move_silent)
                return
            self._new.popleft()
            if lowest is not None and connection.last_progress_ms == accepted_ms:
                connection.move_up(lowest, SILENT_CONNECTIONS_MAX)

    def _turn_away(self, reason: str) -> None:
        """Accept nobody for a while; logged once, until it is over."""
        if not self._turned_away:
            self._turned_away = True
            _log.error("accepting nobody on port %d for now: %s", self.port, reason)
        self._loop.modify(self._socket.fileno(), 0)
        self._loop.call_later(ACCEPT_PAUSE_MS, self._accept_again)

    def _accept_again(self) -> None:
        if self._accepting:
            self._loop.modify(self._socket.fileno(), READABLE)

    def _forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if self._on_close is not None:
            self._on_close(connection)

    def _close_idle(self) -> None:
        self._sweep = self._loop.call_later(self._sweep_ms, self._close_idle)
        now_ms = self._loop.now_ms()
        for connection in list(self.connections):
            idle_ms = now_ms - connection.last_progress_ms
            # A connection with a request that waits here (a long poll) is not idle; one with output that its client
            # does not read is.
            if idle_ms >= self._idle_ms_max and (connection.in_flight == 0 or connection.unsent_bytes):
                _log.info("closing connection from %s: idle for %.0f ms", connection.address, idle_ms)
                connection.close()
