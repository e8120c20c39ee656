"""A file of fixed-size entries (a, b), both rising, with its newest entries kept in memory.

Entries stay in memory until there are SPILL_ENTRIES of them, so that an append costs no system call: after an unclean
stop the index of any segment that may lack entries is rebuilt from its batches. Older entries are read by pread, so
that a cold segment costs no memory. No mmap: a full or failing disk must be an error, not a signal. No descriptor
either: a search, or a spill, opens the file by its name and closes it again, so that ten thousand partitions take ten
thousand descriptors, as with Kafka, which maps its indexes. Only what is about to have another name is held open.
Whether an entry is true is for the caller to check against the batch it points at.
Source: kafka AbstractIndex (format only).
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker.log.files.names import segment_path
from broker.log.files.open_segments import NO_DESCRIPTOR
from broker.model.ids import Offset

SPILL_ENTRIES = 512
_BLOCK_ENTRIES = 512
_END_ENTRIES = 64

Entry = tuple[int, int]


class IndexDamaged(Exception):
    """An index file cannot be right; it is rebuilt from the batches."""


class SparseIndex:
    """Entries [0, file entries) are in the file, the rest in memory."""

    __slots__ = ("_base", "_block", "_block_at", "_codec", "_directory", "_fd", "_file_entries", "_suffix", "_tail")

    def __init__(self, directory: str, base_offset: Offset, suffix: str, codec: struct.Struct) -> None:
        """Name an index; no file is touched."""
        self._directory = directory
        self._base = base_offset
        self._suffix = suffix
        self._codec = codec
        self._fd = -1
        """Of a file that is held; −1 for one that is opened by its name."""
        self._file_entries = 0
        self._tail: list[Entry] = []
        self._block = b""
        self._block_at = 0

    @property
    def path(self) -> str:
        """Where the file is, or will be once there is something to write."""
        return segment_path(self._directory, self._base, self._suffix)

    def create(self) -> None:
        """An empty file, whatever was there."""
        self.close()
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644))

    def open(self) -> None:
        """Take up an existing file. Raises IndexDamaged when its size cannot be right or it is not there, OSError."""
        self.close()
        with self._file() as fd:
            size = os.fstat(fd).st_size
            if size % self._codec.size:
                raise IndexDamaged(f"{self.path}: {size} bytes is no multiple of {self._codec.size}")
            self._file_entries = size // self._codec.size
            if size:
                # Whoever opens an index reads its last entries next.
                self._block_at = max(0, self._file_entries - _END_ENTRIES)
                self._block = self._read(fd, self._block_at, self._file_entries - self._block_at)

    def hold(self) -> None:
        """Open the file and keep it open: its name is about to change. Raises IndexDamaged, OSError."""
        if self._fd < 0:
            self._fd = self._open(os.O_RDWR)

    def let_go(self) -> None:
        """Close what `hold` opened: the name stays after all."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def peek(self) -> tuple[Entry, Entry] | None:
        """First and last entry of a file that is not open, and stays so. None where it is not there, empty, or torn.

        Raises OSError.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        size = self._codec.size
        try:
            end = os.fstat(fd).st_size
            if end == 0 or end % size:
                return None
            a, b = self._codec.unpack(os.pread(fd, size, 0)), self._codec.unpack(os.pread(fd, size, end - size))
        except struct.error:
            return None
        finally:
            os.close(fd)
        return (a[0], a[1]), (b[0], b[1])

    def __len__(self) -> int:
        return self._file_entries + len(self._tail)

    def entry(self, number: int) -> Entry:
        """Raises IndexDamaged, OSError."""
        if number >= self._file_entries:
            return self._tail[number - self._file_entries]
        at = number - self._block_at
        if self._block and 0 <= at < len(self._block) // self._codec.size:
            a, b = self._codec.unpack_from(self._block, at * self._codec.size)
        else:
            with self._file() as fd:
                a, b = self._codec.unpack(self._read(fd, number, 1))
        return a, b

    def last(self) -> Entry | None:
        """Raises IndexDamaged, OSError."""
        if self._tail:
            return self._tail[-1]
        return self.entry(self._file_entries - 1) if self._file_entries else None

    def push(self, a: int, b: int) -> None:
        """Append an entry; the caller keeps both columns rising.

        Raises OSError, but not for want of a descriptor: what was not spilled stays in memory.
        """
        self._tail.append((a, b))
        if len(self._tail) >= 2 * SPILL_ENTRIES and len(self._tail) % SPILL_ENTRIES == 0:
            try:
                self.spill()
            except IndexDamaged:
                return  # the file is gone: the next search raises
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise

    def floor(self, column: int, key: int) -> int:
        """Number of the last entry whose column (0 or 1) is ≤ key, −1 when none. Raises IndexDamaged, OSError."""
        by: Callable[[Entry], int] = _first if column == 0 else _second
        if self._tail and by(self._tail[0]) <= key:
            return self._file_entries + bisect_right(self._tail, key, key=by) - 1
        # Invariant: entry low − 1 is ≤ key (or low is 0), entry high is > key (or is the file's end).
        low, high = self._held(column, key)
        if low == high:
            return low - 1
        if not low and self._block and not self._block_at and self._codec.unpack_from(self._block)[column] > key:
            return -1
        block, block_at = (self._block, self._block_at) if low else (b"", 0)
        if block:
            return self._search(block, block_at, column, key, low, high) - 1
        with self._file() as fd:
            while high - low > _BLOCK_ENTRIES:
                middle = (low + high) // 2
                if self._codec.unpack(self._read(fd, middle, 1))[column] <= key:
                    low = middle + 1
                else:
                    high = middle
            # Also the entry before, which may be the result, and some entries after: sequential readers need these
            # next.
            block_at = max(low - 1, 0)
            block = self._read(fd, block_at, min(2 * _BLOCK_ENTRIES, self._file_entries - block_at))
        self._block, self._block_at = block, block_at
        return self._search(block, block_at, column, key, low, high) - 1

    def _search(self, block: bytes, block_at: int, column: int, key: int, low: int, high: int) -> int:
        size = self._codec.size
        while low < high:
            middle = (low + high) // 2
            if self._codec.unpack_from(block, (middle - block_at) * size)[column] <= key:
                low = middle + 1
            else:
                high = middle
        return low

    def _held(self, column: int, key: int) -> tuple[int, int]:
        """The entries between which key lies, narrowed by the block that was read last."""
        block, size = self._block, self._codec.size
        if block and self._codec.unpack_from(block)[column] <= key:
            last = self._block_at + len(block) // size - 1
            if self._codec.unpack_from(block, len(block) - size)[column] > key:
                return self._block_at + 1, last
            if last + 1 == self._file_entries:
                return last + 1, last + 1
        return 0, self._file_entries

    def truncate(self, entries: int) -> None:
        """Keep the first `entries` entries, in memory and in the file. Raises IndexDamaged, OSError."""
        self._block = b""
        if entries >= self._file_entries:
            del self._tail[entries - self._file_entries :]
            return
        self._tail.clear()
        with self._file(os.O_RDWR) as fd:
            os.ftruncate(fd, entries * self._codec.size)
        self._file_entries = entries

    def spill(self) -> None:
        """Put what is in memory into the file, which then has its exact size. Raises IndexDamaged, OSError."""
        if not self._tail:
            return
        pack = self._codec.pack
        data = b"".join([pack(a, b) for a, b in self._tail])
        position = self._file_entries * self._codec.size
        with self._file(os.O_RDWR) as fd:
            while data:
                written = os.pwrite(fd, data, position)
                position += written
                data = data[written:]
        self._file_entries += len(self._tail)
        self._tail.clear()

    def descriptor(self) -> int:
        """A new one of the file, for whoever syncs it, and closes it. Raises IndexDamaged, OSError."""
        return os.dup(self._fd) if self._fd >= 0 else self._open(os.O_RDWR)

    def close(self) -> None:
        """Forget memory and file; entries not spilled are lost."""
        self._block = b""
        self._tail.clear()
        self._file_entries = 0
        self.let_go()

    @contextmanager
    def _file(self, flags: int = os.O_RDONLY) -> Iterator[int]:
        if self._fd >= 0:
            yield self._fd
            return
        fd = self._open(flags)
        try:
            yield fd
        finally:
            os.close(fd)

    def _open(self, flags: int) -> int:
        try:
            return os.open(self.path, flags)
        except FileNotFoundError as error:
            raise IndexDamaged(f"{self.path}: {error.strerror}") from error

    def _read(self, fd: int, number: int, count: int) -> bytes:
        size = self._codec.size
        data = os.pread(fd, count * size, number * size)
        if len(data) < count * size:
            raise IndexDamaged(f"{self.path}: shorter than the {self._file_entries} entries it had when opened")
        return data


def _first(entry: Entry) -> int:
    return entry[0]


def _second(entry: Entry) -> int:
    return entry[1]
