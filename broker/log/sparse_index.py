"""A file of fixed-size entries (a, b), both rising, with its newest entries kept in memory.

Entries stay in memory until there are SPILL_ENTRIES of them, so that an append costs no system call: after an unclean
stop the index of any segment that may lack entries is rebuilt from its batches. Older entries are read by pread, so
that a cold segment costs no memory. No mmap: a full or failing disk must be an error, not a signal.
Whether an entry is true is for the caller to check against the batch it points at.
Source: kafka AbstractIndex (format only).
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Callable

from broker.log.files import segment_path
from broker.runtime.ports import Offset

SPILL_ENTRIES = 512
_BLOCK_ENTRIES = 512

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
        self._file_entries = 0
        self._tail: list[Entry] = []
        self._block = b""
        self._block_at = 0

    @property
    def path(self) -> str:
        return segment_path(self._directory, self._base, self._suffix)

    def create(self) -> None:
        """An empty file, whatever was there."""
        self.close()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self._file_entries = 0
        self._tail.clear()

    def open(self) -> None:
        """Take up an existing file. Raises IndexDamaged when its size cannot be right, FileNotFoundError."""
        fd = os.open(self.path, os.O_RDWR)
        size = os.fstat(fd).st_size
        if size % self._codec.size:
            os.close(fd)
            raise IndexDamaged(f"{self.path}: {size} bytes is no multiple of {self._codec.size}")
        self._fd = fd
        self._file_entries = size // self._codec.size
        self._tail.clear()

    def __len__(self) -> int:
        return self._file_entries + len(self._tail)

    def entry(self, number: int) -> Entry:
        if number >= self._file_entries:
            return self._tail[number - self._file_entries]
        return self._read(number)

    def last(self) -> Entry | None:
        if self._tail:
            return self._tail[-1]
        return self._read(self._file_entries - 1) if self._file_entries else None

    def push(self, a: int, b: int) -> None:
        """Append an entry; the caller keeps both columns rising."""
        self._tail.append((a, b))
        if len(self._tail) >= 2 * SPILL_ENTRIES:
            self.spill()

    def floor(self, column: int, key: int) -> int:
        """Number of the last entry whose column (0 or 1) is ≤ key, −1 when none."""
        by: Callable[[Entry], int] = _first if column == 0 else _second
        if self._tail and by(self._tail[0]) <= key:
            return self._file_entries + bisect_right(self._tail, key, key=by) - 1
        # Invariant: entry low − 1 is ≤ key (or low is 0), entry high is > key (or is the file's end).
        low, high = self._held(column, key)
        block, block_at = (self._block, self._block_at) if low else (b"", 0)
        while low < high:
            middle = (low + high) // 2
            if high - low <= _BLOCK_ENTRIES and not block:
                # Some more than asked for: who reads on comes here next.
                block_at = self._block_at = low
                block = self._block = self._read_bytes(low, min(2 * _BLOCK_ENTRIES, self._file_entries - low))
            data = block or self._read_bytes(middle, 1)
            at = (middle - block_at) * self._codec.size if block else 0
            if self._codec.unpack_from(data, at)[column] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _held(self, column: int, key: int) -> tuple[int, int]:
        """Between which entries key lies, as far as the block read last can tell."""
        block, size = self._block, self._codec.size
        if block and self._codec.unpack_from(block)[column] <= key:
            last = self._block_at + len(block) // size - 1
            if self._codec.unpack_from(block, len(block) - size)[column] > key:
                return self._block_at + 1, last
            if last + 1 == self._file_entries:
                return last + 1, last + 1
        return 0, self._file_entries

    def truncate(self, entries: int) -> None:
        """Keep the first `entries` entries, in memory and in the file."""
        self._block = b""
        if entries >= self._file_entries:
            del self._tail[entries - self._file_entries :]
            return
        self._tail.clear()
        os.ftruncate(self._fd, entries * self._codec.size)
        self._file_entries = entries

    def spill(self) -> None:
        """Put what is in memory into the file, which then has its exact size."""
        if not self._tail:
            return
        pack = self._codec.pack
        data = b"".join([pack(a, b) for a, b in self._tail])
        position = self._file_entries * self._codec.size
        while data:
            written = os.pwrite(self._fd, data, position)
            position += written
            data = data[written:]
        self._file_entries += len(self._tail)
        self._tail.clear()

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        """Forget memory and file; entries not spilled are lost."""
        self._block = b""
        self._tail.clear()
        self._file_entries = 0
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self, number: int) -> Entry:
        a, b = self._codec.unpack(self._read_bytes(number, 1))
        return a, b

    def _read_bytes(self, number: int, count: int) -> bytes:
        size = self._codec.size
        data = os.pread(self._fd, count * size, number * size)
        if len(data) < count * size:
            raise IndexDamaged(f"{self.path}: shorter than the {self._file_entries} entries it had when opened")
        return data


def _first(entry: Entry) -> int:
    return entry[0]


def _second(entry: Entry) -> int:
    return entry[1]
