"""Cutting a byte stream into length-prefixed frames, in place.

Frames are writable views into a buffer that the connection has while it needs one. They stay valid until the end of the
turn: no space is reused or moved before the turn's writes and responses are done. The buffer grows with the bytes that
came, not with the size that a sender claims: a half-sent frame holds at most about twice what was sent of it, and no
more memory than that, also while it moves to a larger buffer. A connection that waits for its next bytes has no buffer,
only the few bytes of a frame that has begun: ten thousand idle ones cost nothing here, and busy ones share memory that
is in the cache.
"""

from __future__ import annotations

import mmap
import socket
import struct
from collections.abc import Callable
from typing import Final

_LENGTH = struct.Struct(">i")
_LENGTH_SIZE: Final = 4
BUFFER_BYTES_MIN: Final = 64 * 1024
_BUFFER_BYTES_STEP: Final = 64 * 1024
_PARKED_BYTES_MAX: Final = 4096
POOLED_BYTES_MAX: Final = 16 * 1024 * 1024
_NO_BUFFER: Final = memoryview(bytearray())
_MOVED_BYTES: Final = 1024 * 1024
_MAPPING: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class FrameSizeError(Exception):
    """A frame whose size is negative or above the limit."""

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(f"frame of {size} bytes; 0 to {size_max} are allowed (socket.request.max.bytes)")
        self.size = size


class BufferPool:
    """Buffers that no connection needs right now, of one loop. What is given back is used again in a later turn."""

    __slots__ = ("_free", "_free_bytes", "_given", "_given_in", "_turn")

    def __init__(self, turn: Callable[[], int]) -> None:
        """turn: the number of the loop's turn."""
        self._turn = turn
        self._free: list[memoryview] = []
        self._free_bytes = 0
        self._given: list[memoryview] = []
        self._given_in = 0

    def take(self) -> memoryview:
        """A writable buffer of BUFFER_BYTES_MIN or more, the one that was used last if there is any; raises OSError."""
        if self._given and self._turn() != self._given_in:
            self._keep()
        if self._free:
            buffer = self._free.pop()
            self._free_bytes -= len(buffer)
            return buffer
        return _mapped(BUFFER_BYTES_MIN)

    def give(self, buffer: memoryview) -> None:
        """buffer: one that was taken, or a larger one. This turn's frames in it stay as they are."""
        turn = self._turn()
        if self._given and turn != self._given_in:
            self._keep()
        self._given_in = turn
        self._given.append(buffer)

    def _keep(self) -> None:
        for buffer in self._given:
            if self._free_bytes + len(buffer) <= POOLED_BYTES_MAX:
                self._free.append(buffer)
                self._free_bytes += len(buffer)
        self._given.clear()


def _mapped(size: int) -> memoryview:
    """Mapped, not allocated: only the pages that bytes come into take memory, and they go back to the system at once
    when a thousand connections that spoke in one turn are silent again. Raises OSError.
    """
    return memoryview(mmap.mmap(-1, size, flags=_MAPPING))


def _move(old: memoryview, start: int, end: int, new: memoryview) -> None:
    """Move [start, end) of old to the beginning of new. The pages of old go back while it moves: of a frame that takes
    much memory nothing is there twice.
    """
    mapping, given_back = old.obj, 0
    for at in range(start, end, _MOVED_BYTES):
        upto = min(at + _MOVED_BYTES, end)
        new[at - start : upto - start] = old[at:upto]
        whole_pages = upto - upto % mmap.PAGESIZE
        if isinstance(mapping, mmap.mmap) and whole_pages - given_back >= _MOVED_BYTES:
            mapping.madvise(mmap.MADV_DONTNEED, given_back, whole_pages - given_back)
            given_back = whole_pages


class FrameBuffer:
    """Bytes received and not yet handed out: [start, end) of the buffer, or `parked` while there is no buffer."""

    __slots__ = ("_end", "_frame_bytes_max", "_parked", "_pool", "_start", "_view")

    def __init__(self, frame_bytes_max: int, pool: BufferPool | None = None) -> None:
        """pool: None for a buffer of its own."""
        self._frame_bytes_max = frame_bytes_max
        self._pool = pool
        self._view = _NO_BUFFER
        self._start = 0
        self._end = 0
        self._parked = b""

    @property
    def capacity(self) -> int:
        """Bytes of memory held."""
        return len(self._view) + len(self._parked)

    def receive(self, sock: socket.socket) -> int:
        """One recv; returns its bytes, 0 at the stream's end. Raises OSError, BlockingIOError included.

        Frames handed out before are void from here on.
        """
        if self._view is _NO_BUFFER:
            self._unpark()
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

    def park(self) -> None:
        """Every whole frame is handed out: give the buffer back unless it holds much of the next one."""
        view, start, held = self._view, self._start, self._end - self._start
        if self._pool is None or held > _PARKED_BYTES_MAX or view is _NO_BUFFER:
            return
        if held:
            self._parked = bytes(view[start : self._end])
        self._start = self._end = 0
        self._view = _NO_BUFFER
        self._pool.give(view)

    def drop(self) -> None:
        """The connection is gone: hold nothing, whoever still knows the connection. Frames handed out stay valid."""
        self._view = _NO_BUFFER
        self._start = self._end = 0
        self._parked = b""

    def _unpark(self) -> None:
        parked = self._parked
        self._view = self._pool.take() if self._pool is not None else memoryview(bytearray(BUFFER_BYTES_MIN))
        if parked:
            self._view[: len(parked)] = parked
            self._end = len(parked)
            self._parked = b""

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
            grown = _mapped(steps * _BUFFER_BYTES_STEP)
            _move(self._view, self._start, self._end, grown)
            self._view = grown  # the smaller one is not worth keeping: the grown one goes back in its place
        elif self._start:
            # Source and destination may overlap; memoryview assignment copies as memmove does.
            self._view[:held] = self._view[self._start : self._end]
        elif self._end < capacity:
            return
        else:
            raise AssertionError(f"a full buffer of {capacity} bytes that holds a whole frame was not emptied first")
        self._start, self._end = 0, held
