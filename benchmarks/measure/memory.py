"""Memory that the host has really given: the first trap of measuring on virtual machines.

A guest that reports free memory to its host loses it within seconds, and the next writer of fresh pages pays for them:
0.2 CPU-seconds per GB for pages that are there, up to 3 for those that are not. `pretouch` reads a sparse file into the
page cache until hardly any memory is free: the host has given it all then. Deleted logs become free memory, so it is
repeated around each run, at once. During a run, `room` frees as much of it as the run writes: a writer that has to push
clean pages out itself pays for that, about as much again as for the writing. It frees when memory is used, not before,
so that the host has no time to take it back: a slow run lasts ten seconds, the host waits two.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure.os_usage import free_bytes, processors, total_bytes

LEFT_FREE_BYTES = 500 << 20
AHEAD_BYTES = 1 << 30
"""Freed before a run begins: half a second of what the fastest writer takes."""
SLICE_BYTES = 8 << 20
TICK_S = 0.02
LIMIT_S = 180.0
_READ_BYTES = 4 << 20


class Ballast:
    """A sparse file as long as the memory; it takes no disk."""

    def __init__(self, path: Path, wanted: bool = True) -> None:
        self._path = path
        self._wanted = wanted
        self._size = total_bytes()
        self._lock = threading.Lock()
        self._at = 0
        if wanted:
            with path.open("wb") as file:
                file.truncate(self._size)

    def pretouch(self) -> None:
        """Read on, on every processor, until little is free, the file was read once, or LIMIT_S is over."""
        if not self._wanted or free_bytes() <= LEFT_FREE_BYTES:
            return
        end_s, left = time.monotonic() + LIMIT_S, [self._size]
        readers = [threading.Thread(target=self._read, args=(end_s, left)) for _ in range(processors())]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()

    @contextmanager
    def room(self, need_bytes: int) -> Iterator[None]:
        """While it is open there is fresh memory for that many bytes of files."""
        if not self._wanted:
            yield
            return
        ahead = min(need_bytes, AHEAD_BYTES, self._size // 4)
        self._free(ahead)
        over = threading.Event()
        # As much may be freed again as was freed ahead: what the host took back of that is of no use.
        keeper = threading.Thread(target=self._keep, args=(free_bytes(), min(need_bytes, self._size // 2), over))
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()

    def _keep(self, goal_bytes: int, allowed_bytes: int, over: threading.Event) -> None:
        """Hold free memory at the goal until so much was freed."""
        while allowed_bytes > 0 and not over.wait(TICK_S):
            lacking = goal_bytes - free_bytes()
            if lacking >= SLICE_BYTES:
                length = min(lacking, allowed_bytes)
                self._free(length)
                allowed_bytes -= length

    def _free(self, length: int) -> None:
        """What was read last leaves the page cache; the next pretouch begins where this ends."""
        if length <= 0:
            return
        end, self._at = self._at, (self._at - length) % self._size
        ranges = [(self._at, end)] if self._at < end else [(self._at, self._size), (0, end)]
        with self._path.open("rb") as file:
            for start, stop in ranges:
                if stop > start:  # a length of 0 would mean the whole file
                    os.posix_fadvise(file.fileno(), start, stop - start, os.POSIX_FADV_DONTNEED)

    def _read(self, end_s: float, left: list[int]) -> None:
        buffer = bytearray(_READ_BYTES)
        with self._path.open("rb", buffering=0) as file:
            while free_bytes() > LEFT_FREE_BYTES and time.monotonic() < end_s:
                with self._lock:
                    if left[0] <= 0:
                        return
                    at, self._at = self._at, (self._at + _READ_BYTES) % self._size
                    left[0] -= _READ_BYTES
                file.seek(at)
                file.readinto(buffer)

    def release(self) -> None:
        """Give the pages back."""
        if self._wanted and self._path.exists():
            descriptor = os.open(self._path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
            self._path.unlink()
