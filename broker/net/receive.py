"""Cutting a byte stream into length-prefixed frames, in place.

Frames are writable views into one buffer per connection. They stay valid until the next `receive`, which the loop
calls in a later turn: no space is reused or moved before the turn's writes and answers are done.
The buffer grows with the bytes that came, not with the size that a sender claims, so that a half-sent frame holds
at most about twice what was sent of it.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

_LENGTH = struct.Struct(">i")
_LENGTH_SIZE: Final = 4
BUFFER_BYTES_MIN: Final = 64 * 1024
_BUFFER_BYTES_STEP: Final = 64 * 1024


class FrameSizeError(Exception):
    """A frame whose size is negative or above the limit."""

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(f"frame of {size} bytes; 0 to {size_max} are allowed (socket.request.max.bytes)")
        self.size = size


class FrameBuffer:
    """Bytes received and not yet handed out: [start, end) of the buffer."""

    __slots__ = ("_end", "_frame_bytes_max", "_start", "_view")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._view = memoryview(bytearray())
        self._start = 0
        self._end = 0

    @property
    def capacity(self) -> int:
        """Bytes of memory held."""
        return len(self._view)

    def receive(self, sock: socket.socket) -> int:
        """One recv; returns its bytes, 0 at the stream's end. Raises OSError, BlockingIOError included.

        Frames handed out before are void from here on.
        """
        self._make_room()
        received = sock.recv_into(self._view[self._end :])
        self._end += received
        return received

    def next_frame(self) -> memoryview | None:
        """The next complete frame without its length, None when it is not complete; raises FrameSizeError."""
        start = self._start
        available = self._end - start - _LENGTH_SIZE
        if available < 0:
            return None
        size = _LENGTH.unpack_from(self._view, start)[0]
        if size > available or size < 0:
            if not 0 <= size <= self._frame_bytes_max:
                raise FrameSizeError(size, self._frame_bytes_max)
            return None
        if size > self._frame_bytes_max:
            raise FrameSizeError(size, self._frame_bytes_max)
        self._start = start = start + _LENGTH_SIZE
        self._start += size
        return self._view[start : start + size]

    def release_if_empty(self) -> None:
        """Give the memory back; for idle connections."""
        if self._start == self._end:
            self._start = self._end = 0
            self._view = memoryview(bytearray())

    def _make_room(self) -> None:
        """Leave space behind `end`: for the rest of the frame that has begun, as far as the growth rule lets it."""
        held = self._end - self._start
        capacity = len(self._view)
        if held == 0:
            self._start = self._end = 0
            if capacity:
                return
        wanted = BUFFER_BYTES_MIN
        if held >= _LENGTH_SIZE:
            frame_bytes = _LENGTH.unpack_from(self._view, self._start)[0] + _LENGTH_SIZE
            wanted = max(wanted, min(frame_bytes, 2 * held))
            if self._start + frame_bytes <= capacity and self._end < capacity:
                return
        if wanted > capacity:
            steps = -(-wanted // _BUFFER_BYTES_STEP)
            grown = memoryview(bytearray(steps * _BUFFER_BYTES_STEP))
            grown[:held] = self._view[self._start : self._end]
            self._view = grown
        elif self._start:
            # Source and destination may overlap; memoryview assignment copies as memmove does.
            self._view[:held] = self._view[self._start : self._end]
        elif self._end < capacity:
            return
        else:
            raise AssertionError(f"a full buffer of {capacity} bytes that holds a whole frame was not emptied first")
        self._start, self._end = 0, held
