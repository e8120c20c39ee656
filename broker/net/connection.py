"""One accepted connection: frames in, responses out in the order of the requests. Each frame gets a `Slot`, its place
in that order. Slots may be fulfilled in any order and any later turn; what is fulfilled at the front goes out once per
turn. Bounds: a connection is not read while IN_FLIGHT_MAX slots are open or UNSENT_BYTES_MAX of responses wait for a
slow reader, and read again at half of that. Frames are limited in size, and a frame that never completes holds little
(see receive). Nothing is allocated for a claimed length.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from broker.model.timers import TimerHandle
from broker.net.complaints import Complaints
from broker.net.first_to_end import moved_up
from broker.net.loop import FAILED, READABLE, WRITABLE, EpollLoop
from broker.net.receive import BufferPool, FrameBuffer, FrameSizeError
from broker.net.send import FileFailure, HeldFiles, OutputQueue
from broker.net.slot import Slot, take_fulfilled
from broker.wire.primitives import MalformedFrame

_log = logging.getLogger(__name__)

IN_FLIGHT_MAX: Final = 1024
UNSENT_BYTES_MAX: Final = 4 * 1024 * 1024
LINGER_MS: Final = 1000.0
_DISCARD_BYTES: Final = 64 * 1024

OnFrame = Callable[["Connection", memoryview, Slot], None]
OnClose = Callable[["Connection"], None]
OnFileFailure = Callable[[FileFailure], None]


class Connection:
    """A client's or another broker's connection to us.

    context: what the listener's owner keeps for this connection; see Listener's context_of.
    """

    __slots__ = (
        "_closing",
        "_complaints",
        "_events",
        "_full",
        "_linger",
        "_loop",
        "_on_close",
        "_on_file_failure",
        "_on_frame",
        "_output",
        "_paused",
        "_reading_done",
        "_received",
        "_refused",
        "_rest_pending",
        "_send_wanted",
        "_slots",
        "_socket",
        "_unsent_bytes",
        "address",
        "context",
        "last_progress_ms",
        "open",
    )

    def __init__(
        self,
        loop: EpollLoop,
        sock: socket.socket,
        address: str,
        on_frame: OnFrame,
        on_close: OnClose,
        frame_bytes_max: int,
        buffers: BufferPool,
        held: HeldFiles | None = None,
        on_file_failure: OnFileFailure | None = None,
        complaints: Complaints | None = None,
    ) -> None:
        """sock: connected and non-blocking. address: `host:port` of the other end. buffers, held, complaints: of this
        loop.

        on_file_failure: called in the next turn where a response's file slice could not be read.
        """
        self._loop = loop
        self._socket = sock
        self.address = address
        self._on_frame = on_frame
        self._on_close = on_close
        self._on_file_failure = on_file_failure
        self._complaints = complaints or Complaints(loop)
        self._received = FrameBuffer(frame_bytes_max, buffers)
        self._output = OutputQueue(held)
        self._slots: deque[Slot] = deque()
        self._unsent_bytes = 0  # fulfilled and not yet taken by the kernel
        self._send_wanted = False
        self._full = False  # the kernel takes no more until it says so
        self._paused = False
        self._rest_pending = False  # resumed, and what was in the buffer then is not handed out yet
        self._reading_done = False  # set by close_connection: later frames are not served
        self._refused: Slot | None = None  # the slot that asked for it
        self._closing = False  # a slot's request to close has come to the front: nothing more is answered
        self._linger: TimerHandle | None = None
        self.context: Any = None
        self.open = True
        self.last_progress_ms = loop.now_ms()
        self._events = READABLE
        loop.register(sock.fileno(), READABLE, self._on_events)

    def __repr__(self) -> str:
        return f"<connection from {self.address}>"

    def move_up(self, lowest: int, count: int) -> bool:
        """Under one of these descriptors, `count` from lowest on, if one of them is free (first_to_end)."""
        moved = moved_up(self._socket, lowest, count) if self.open else None
        if moved is None:
            return False
        self._loop.unregister(self._socket.fileno())
        self._socket.close()
        self._socket = moved
        self._loop.register(moved.fileno(), self._events, self._on_events)
        return True

    @property
    def in_flight(self) -> int:
        """Requests whose response is not there, or waits for its turn to be sent."""
        return len(self._slots)

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    @property
    def buffer_bytes(self) -> int:
        """Memory held for receiving."""
        return self._received.capacity

    @property
    def responses_wanted(self) -> bool:
        """False once the connection is closed, or closes and has sent its last response."""
        return self.open and not self._closing

    def slot_fulfilled(self, slot: Slot) -> None:
        """Of Slot: a response is there. It goes out at this turn's end when it is the next in order."""
        if not self.open or self._closing:
            return
        self._unsent_bytes += slot.length
        if self._slots[0] is slot:
            if not self._send_wanted:
                self._send_wanted = True
                self._loop.want_send(self)
            return
        self._overtake()
        if slot.files:
            # It will wait for its turn longer than its file slices are good for.
            try:
                slot.chunks = self._output.own(slot.chunks or ())
            except OSError as error:
                self.close(f"cannot hold a log file open for a response: {error}")

    def _overtake(self) -> None:
        """A response behind the next one is there: what waits for something to come, as a long poll does, keeps it from
        being sent no longer.
        """
        front = self._slots[0]
        if front.overtaken is not None:
            self._loop.call_soon(front.overtaken)
            front.overtaken = None

    def close_after(self, slot: Slot) -> None:
        """Of Slot: later requests are not served, and those that wait already get no response."""
        self._reading_done = True
        self._refused = slot
        for later in reversed(self._slots):
            if later is slot:
                break
            later.abandon()
        if self.open:
            # Earlier requests may wait for weeks, which is nothing to their sender once it has gone. That it has gone
            # stands behind all that it sent before, and does not come through a full window.
            self._set_events(self._events | READABLE)

    def close(self, reason: str = "") -> None:
        """Close at once; responses that are not sent are lost. reason: logged when there is one."""
        if not self.open:
            return
        self.open = False
        if reason:
            self._complaints.closing(self.address, reason)
        if self._linger is not None:
            self._linger.cancel()
        self._loop.unregister(self._socket.fileno())
        self._socket.close()
        self._output.close()
        self._received.drop()
        self._slots.clear()
        # Not from here: a send phase runs no code but its own.
        self._loop.call_soon(self._report_close)

    def _report_close(self) -> None:
        self._on_close(self)

    def _on_events(self, events: int) -> None:
        if events & WRITABLE:
            self._full = False
            self._want_send()
        if self.open and events & (READABLE | FAILED):
            if self._reading_done:
                self._discard(events)
            elif not self._paused:
                self._read()
            elif events & FAILED:
                self.close("reset by the other end while responses were pending" if self._slots else "")

    def _read(self) -> None:
        """One recv and every frame that it completed."""
        if self._rest_pending:
            return  # frames are handed out later in this turn, and a recv would void them; the next turn reads
        try:
            received = self._received.receive(self._socket)
        except BlockingIOError:
            return
        except OSError as error:
            _log.debug("connection from %s: %s", self.address, error)
            self.close()
            return
        if received == 0:
            self.close()
            return
        self.last_progress_ms = self._loop.now_ms()
        self._dispatch()

    def _dispatch(self) -> None:
        """Hand out complete frames, as many as may be in flight."""
        received, slots, on_frame = self._received, self._slots, self._on_frame
        try:
            while True:
                if len(slots) >= IN_FLIGHT_MAX or self._unsent_bytes >= UNSENT_BYTES_MAX:
                    self._paused = True
                    self._set_events(self._events & ~READABLE)
                    return
                frame = received.next_frame()
                if frame is None:
                    received.park()
                    return
                slot = Slot(self)
                slots.append(slot)
                on_frame(self, frame, slot)
                if not self.open or self._reading_done:
                    return
        except (FrameSizeError, MalformedFrame) as malformed:
            self.close(str(malformed))
        except Exception as error:
            reason = f"its request could not be handled, {type(error).__name__}"
            if self._complaints.first(self.address, reason):
                _log.exception("request from %s failed", self.address)
            self.close(reason)

    def _resume_if_drained(self) -> None:
        if len(self._slots) <= IN_FLIGHT_MAX // 2 and self._unsent_bytes <= UNSENT_BYTES_MAX // 2:
            self._paused = False
            if not self._reading_done:
                self._set_events(self._events | READABLE)
                # Frames that are in the buffer already make no event.
                self._rest_pending = True
                self._loop.call_soon(self._dispatch_rest)

    def _dispatch_rest(self) -> None:
        self._rest_pending = False
        if self.open and not self._paused and not self._reading_done:
            self._dispatch()

    def _set_events(self, events: int) -> None:
        if events != self._events:
            self._events = events
            self._loop.modify(self._socket.fileno(), events)

    def _want_send(self) -> None:
        if not self._send_wanted:
            self._send_wanted = True
            self._loop.want_send(self)

    def flush_output(self) -> None:
        """Send phase: move what is fulfilled at the front to the output, and send once."""
        self._send_wanted = False
        if not self.open:
            return
        prefix_bytes, close_reason = take_fulfilled(self._slots, self._output)
        self._unsent_bytes += prefix_bytes
        if close_reason is not None:
            if close_reason:
                self._complaints.closing(self.address, close_reason)
            self._closing = True
            self._slots.clear()
        before = self._output.pending_bytes
        try:
            done = not self._output if self._full else self._output.send(self._socket)
            if not done:
                self._output.own_pending()
        except FileFailure as failure:
            self.close(str(failure))
            if self._on_file_failure is not None:
                self._loop.call_soon(partial(self._on_file_failure, failure))
            return
        except OSError as error:
            # The other end is gone, or (own_pending) we are out of descriptors.
            self.close(f"responses lost: {error}")
            return
        except Exception:
            _log.exception("responses to %s cannot be sent", self.address)
            self.close("its responses could not be sent")
            return
        sent = before - self._output.pending_bytes
        if sent:
            self._unsent_bytes -= sent
            self.last_progress_ms = self._loop.now_ms()
        if not done:
            # Kept until all is sent: a large response leaves in some ten parts.
            self._full = True
            self._set_events(self._events | WRITABLE)
        else:
            if self._events & WRITABLE:
                self._set_events(self._events & ~WRITABLE)
            if self._closing and self._linger is None:
                self._begin_linger()
        if self._paused:
            self._resume_if_drained()
        if self._slots and self._unsent_bytes > self._output.pending_bytes:
            self._overtake()

    def _begin_linger(self) -> None:
        """All is sent. Bytes still unread would make close() a reset, which can overtake the last response."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self._linger = self._loop.call_later(LINGER_MS, self.close)
        self._set_events(READABLE)

    def _discard(self, events: int) -> None:
        """Read what comes after the refused request, for its end alone."""
        self._received.drop()
        try:
            if self._socket.recv(_DISCARD_BYTES):
                return
        except BlockingIOError:
            return
        except OSError:
            events |= FAILED
        if self._linger is None and self._closing and not events & FAILED:
            self._set_events(self._events & ~READABLE)  # what is left to send is sent to one that listens only
        else:
            self.close(self._refused.close_reason or "" if self._slots and self._refused is not None else "")
