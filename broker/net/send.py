"""A socket's pending output: memory by gathered sends, file slices by pread or sendfile.

A file slice is good for the turn in which it was handed over. What cannot be sent in that turn is held by a duplicated
descriptor, so that a log which closes or renames its file, and a number that the kernel gives to another file, cannot
put foreign bytes on the wire; there is one for all that waits for the same file, for a client that does not read must
not use them up. A file that was truncated meanwhile reads short, one on a bad sector not at all: `FileFailure`, and the
connection must close, because the length prefix is gone already; it is not the other end's fault. Bytes that were
truncated and written anew cannot be distinguished here; a leader serves consumers only below the HW, which is never
truncated, and followers check each batch's epoch (KAFKA-18723).
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import Final

from broker.wire.chunks import Chunk, FileSlice

SENDFILE_BYTES_MIN: Final = 64 * 1024 + 1  # up to 64 KiB a pread and one gathered send is cheaper
_JOIN_BYTES_MAX: Final = 16 * 1024  # below, one joined buffer is cheaper than many iovecs
_BUFFERS_PER_SEND_MAX: Final = 1024  # IOV_MAX
_BYTES_PER_SEND_MAX: Final = 4 * 1024 * 1024

# What sendfile says of the file it reads, sectors and file system; the rest is the socket's.
_FILE_ERRORS: Final = frozenset((errno.EIO, errno.EUCLEAN, errno.EBADMSG))

Buffer = bytes | bytearray | memoryview


class FileFailure(Exception):
    """A file did not give the bytes of a slice; the socket has nothing to do with it."""


class UnreadableFile(FileFailure):
    """The system could not read it."""

    def __init__(self, wanted: FileSlice, error: OSError) -> None:
        super().__init__(f"file slice at {wanted.position} of {wanted.length} bytes cannot be read: {error}")


class ShortRead(FileFailure):
    """The file ended before the slice did."""

    def __init__(self, wanted: FileSlice, got: int) -> None:
        super().__init__(
            f"file slice at {wanted.position} of {wanted.length} bytes: {got} read; the file was truncated or closed"
        )


class HeldFiles:
    """Duplicated descriptors of one loop, one per file, and how many queues need each. Not thread-safe."""

    __slots__ = ("_files", "_uses")

    def __init__(self) -> None:
        self._files: dict[tuple[int, int], int] = {}  # (device, inode) → duplicate; no other file gets it meanwhile
        self._uses: dict[int, tuple[tuple[int, int], int]] = {}

    def take(self, fd: int) -> int:
        """A descriptor of the same file that stays good until it is given back; raises OSError."""
        stat = os.fstat(fd)
        file = (stat.st_dev, stat.st_ino)
        held = self._files.get(file)
        if held is None:
            held = self._files[file] = os.dup(fd)
        self._uses[held] = (file, self._uses[held][1] + 1 if held in self._uses else 1)
        return held

    def give_back(self, held: int) -> None:
        """One use of a held descriptor is over; it is closed with the last."""
        file, uses = self._uses[held]
        if uses > 1:
            self._uses[held] = (file, uses - 1)
        else:
            del self._uses[held], self._files[file]
            os.close(held)


class OutputQueue:
    """Chunks to be sent, in order. `pending_bytes` counts what the kernel has not taken."""

    __slots__ = ("_begun", "_chunks", "_held", "_owned", "pending_bytes")

    def __init__(self, held: HeldFiles | None = None) -> None:
        """held: of this loop; None for one of its own."""
        self._chunks: deque[Chunk] = deque()
        self._begun = False  # the first is what is left of a slice that goes by sendfile, however little
        self._held = held if held is not None else HeldFiles()
        self._owned: dict[int, int] = {}  # descriptors that stay good: descriptor → slices here that still need it
        self.pending_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def append(self, chunk: Chunk, length: int) -> None:
        """length: chunk_length(chunk), which the caller knows."""
        if length:
            self._chunks.append(chunk)
            self.pending_bytes += length

    def own(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """The same chunks, with file slices on descriptors that stay good; raises OSError."""
        taken: dict[int, int] = {}
        owned: list[Chunk] = []
        for chunk in chunks:
            if isinstance(chunk, FileSlice) and chunk.fd not in self._owned:
                fd = taken.get(chunk.fd)
                if fd is None:
                    fd = taken[chunk.fd] = self._held.take(chunk.fd)
                    if fd in self._owned:
                        self._held.give_back(fd)
                    else:
                        self._owned[fd] = 0
                self._owned[fd] += 1
                owned.append(chunk._replace(fd=fd))
            else:
                owned.append(chunk)
        return owned

    def own_pending(self) -> None:
        """Make what is pending independent of the log's descriptors; raises OSError."""
        if any(isinstance(chunk, FileSlice) for chunk in self._chunks):
            self._chunks = deque(self.own(self._chunks))

    def send(self, sock: socket.socket) -> bool:
        """Hand the kernel as much as it takes; True when all is gone. Raises OSError (the socket's), FileFailure."""
        chunks = self._chunks
        if len(chunks) == 1 and isinstance(chunks[0], bytes):
            # What nearly every turn sends: small responses, joined already.
            size = len(chunks[0])
            try:
                sent = sock.send(chunks[0])
            except BlockingIOError:
                return False
            self.pending_bytes -= sent
            if sent == size:
                chunks.clear()
                return True
            chunks[0] = memoryview(chunks[0])[sent:]
            return False
        while chunks:
            buffers, size = self._gather()
            if buffers:
                sent = _send_buffers(sock, buffers, size, more=bool(chunks))
                self.pending_bytes -= sent
                if sent < size:
                    self._put_back(buffers, sent)
                    return False
            if chunks and isinstance(chunks[0], FileSlice) and not self._send_file(sock, chunks[0]):
                return False
        return True

    def close(self) -> None:
        """Drop everything."""
        self._chunks.clear()
        self._begun = False
        self.pending_bytes = 0
        for fd in self._owned:
            self._held.give_back(fd)
        self._owned.clear()

    def _gather(self) -> tuple[list[Buffer], int]:
        """Take memory from the front, small file slices read into it; stops before a slice for sendfile."""
        chunks = self._chunks
        buffers: list[Buffer] = []
        size = 0
        if self._begun:
            return buffers, size
        while chunks and len(buffers) < _BUFFERS_PER_SEND_MAX and size < _BYTES_PER_SEND_MAX:
            chunk = chunks[0]
            if isinstance(chunk, FileSlice):
                if chunk.length >= SENDFILE_BYTES_MIN:
                    break
                try:
                    data = os.pread(chunk.fd, chunk.length, chunk.position)
                except OSError as error:
                    raise UnreadableFile(chunk, error) from error
                if len(data) != chunk.length:
                    raise ShortRead(chunk, len(data))
                self._done_with(chunk.fd)
                chunk = data
            chunks.popleft()
            buffers.append(chunk)
            size += len(chunk)
        return buffers, size

    def _put_back(self, buffers: list[Buffer], sent: int) -> None:
        """The unsent rest to the front."""
        index = 0
        while sent >= len(buffers[index]):
            sent -= len(buffers[index])
            index += 1
        rest = buffers[index:]
        if sent:
            rest[0] = memoryview(rest[0])[sent:]
        self._chunks.extendleft(reversed(rest))

    def _send_file(self, sock: socket.socket, chunk: FileSlice) -> bool:
        """One call: the kernel goes on by itself until all is gone, the socket is full, or the file ends."""
        fd, position, length = chunk
        try:
            sent = os.sendfile(sock.fileno(), fd, position, length)
        except BlockingIOError:
            self._begun = True
            return False
        except OSError as error:
            if error.errno in _FILE_ERRORS:
                raise UnreadableFile(chunk, error) from error
            raise
        if sent == 0:
            raise ShortRead(chunk, 0)
        self.pending_bytes -= sent
        if sent < length:
            # Where the file ended the next call says so.
            self._chunks[0] = FileSlice(fd, position + sent, length - sent)
            self._begun = True
            return False
        self._chunks.popleft()
        self._begun = False
        self._done_with(fd)
        return True

    def _done_with(self, fd: int) -> None:
        uses = self._owned.get(fd)
        if uses is None:
            return
        if uses > 1:
            self._owned[fd] = uses - 1
        else:
            del self._owned[fd]
            self._held.give_back(fd)


def _send_buffers(sock: socket.socket, buffers: list[Buffer], size: int, more: bool) -> int:
    """Bytes taken, 0 when the socket is full. more: further output follows at once."""
    flags = socket.MSG_MORE if more else 0
    try:
        if len(buffers) == 1:
            return sock.send(buffers[0], flags)
        if size <= _JOIN_BYTES_MAX:
            return sock.send(b"".join(buffers), flags)
        return sock.sendmsg(buffers, [], flags)
    except BlockingIOError:
        return 0
