"""What the kernel remembers of the last process that wrote a log dir: where each log ended, and whether that is
reliable.

A file beside the logs, mapped into memory and not synced: a store of eight bytes after each write keeps the end of
every log. After kill -9 the file says exactly what had been written, so that a shorter log has lost bytes. After the
loss of the host or of the mount neither the file nor the logs may be believed. Two checks find that out: the file names
the kernel's boot and its own inode, and its first page must still be in the page cache, which lives no longer than the
mount. The process writes that page all the time and locks it in memory.
A program that reads the file would bring the first page back. So the process drops the last page, the guard, from the
cache when it makes the file, and never touches it: where the guard is cached, somebody has read the file, and the first
page proves nothing. tmpfs drops no page; there the mark says that it has no guard, and after a loss a tmpfs is gone
anyway.
The mark says how many slots it has, so that a mark which somebody cut short is not believed: without a log's slot
nothing would show that the log was cut too.
It also names the registration (broker epoch) under which it was written, for a copy that is put back byte by byte.
A copy, a restored backup, another kernel and a remount all read as "lost". So do, wrongly but harmlessly, a page that
memory pressure took between the end of the process and the next start, and a file that somebody read then.
`unclean_shutdown` decides what follows for a log. Blocking, tiny.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import logging
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from broker.model.ids import Offset, TopicPartition

_logger = logging.getLogger(__name__)

FILE_NAME = "highwater-run-mark"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PAGE = mmap.PAGESIZE
_HEADER = 512
_EPOCH_AT = _HEADER - 8
_SLOTS = "slots"
_GUARD = "guard"
_SLOT = struct.Struct("<8sq")
_END = struct.Struct("<q")
_FREE = bytes(8)
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class LastRun:
    """same_kernel: everything that was written before the process ended is still there, unless someone cut it."""

    same_kernel: bool
    epoch: int = NO_EPOCH
    """Broker epoch of the registration that wrote last; NO_EPOCH where the mark does not know."""
    ends: Mapping[bytes, Offset] = field(default_factory=dict)

    def end_of(self, topic_partition: TopicPartition) -> Offset | None:
        """Where the log ended when the process did, None when the mark does not know."""
        return self.ends.get(_key(topic_partition)) if self.same_kernel else None


def read(directory: str, boot_id: str | None = None) -> LastRun:
    """The mark in a log dir; to be called before anything else reads the file."""
    path = f"{directory}/{FILE_NAME}"
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return LastRun(False)
    try:
        stat = os.fstat(fd)
        if stat.st_size == 0 or not _cached(fd, 0):
            return LastRun(False)
        # Looked up before the file is read; and the reads below do not bring the guard into the cache (no read-ahead),
        # because the next start may have to look it up again.
        was_read = _cached(fd, (stat.st_size - 1) // _PAGE * _PAGE)
        _advise(fd, 0, os.POSIX_FADV_RANDOM)
        named = json.loads(os.pread(fd, _EPOCH_AT, 0).rstrip(b"\0"))
        # A mark written by an older version may lack the count or the guard, and is read without these checks.
        slots, guard = named.pop(_SLOTS, None), named.pop(_GUARD, None)
        if named != _identity(stat, _boot_id() if boot_id is None else boot_id):
            return LastRun(False)
        size = stat.st_size if guard is None else stat.st_size - _PAGE
        if slots is not None and size != _HEADER + slots * _SLOT.size:
            raise ValueError(f"{stat.st_size} bytes are not {slots} slots")
        if guard and was_read:
            _logger.info(
                "%s is not used: another process has read it, so it cannot show whether its mount was lost", path
            )
            return LastRun(False)
        data = os.pread(fd, size, 0)
        rows = [_SLOT.unpack_from(data, at) for at in range(_HEADER, len(data) - _SLOT.size + 1, _SLOT.size)]
        (epoch,) = _END.unpack_from(data, _EPOCH_AT)
        return LastRun(True, epoch or NO_EPOCH, {key: end for key, end in rows if key != _FREE})
    except (AttributeError, TypeError, ValueError, struct.error) as error:
        _logger.warning("%s is not believed (%s): the host counts as lost", path, error)
        return LastRun(False)
    finally:
        os.close(fd)


class RunMark:
    """This process's mark in one log dir. Raises OSError where the file has to be made or grow."""

    def __init__(self, directory: str, boot_id: str | None = None, epoch: int = NO_EPOCH) -> None:
        """Replaces the last run's mark, which must have been read before. epoch: that mark's, or the clean-shutdown
        file's.
        """
        self._path = f"{directory}/{FILE_NAME}"
        self._boot_id = _boot_id() if boot_id is None else boot_id
        self._epoch = epoch
        self._slots: dict[TopicPartition, int] = {}
        self._free: list[int] = []
        self._fd, self._map = self._make(_PAGE, bytes(_HEADER))

    def _make(self, size: int, content: bytes | bytearray) -> tuple[int, mmap.mmap]:
        """Replace the file by one of `size` bytes, in whole pages, and the guard; returns its descriptor and the
        mapping of all but the guard. content: room for the header, then the slots.
        """
        temporary = self._path + ".tmp"
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            # Every block is there before it is written through the map: a full disk must be an error, not a signal.
            os.posix_fallocate(fd, 0, size + _PAGE)
            os.pwrite(fd, content, 0)
            # Written, because a reader may skip blocks that are only allocated; synced, because only a clean page can
            # be dropped.
            os.pwrite(fd, b"\xff" * _PAGE, size)
            os.fdatasync(fd)
            _advise(fd, size, os.POSIX_FADV_DONTNEED)
            slots = (size - _HEADER) // _SLOT.size
            named = _identity(os.fstat(fd), self._boot_id) | {_SLOTS: slots, _GUARD: not _cached(fd, size)}
            os.pwrite(fd, json.dumps(named).encode().ljust(_EPOCH_AT, b"\0") + _END.pack(self._epoch), 0)
            mapped = mmap.mmap(fd, size)
            # A page fault must not read neighbouring pages, the guard among them.
            mapped.madvise(mmap.MADV_RANDOM)
            os.replace(temporary, self._path)
        except BaseException:
            os.close(fd)
            raise
        _lock_first_page(mapped)
        self._free.extend(range(size - _SLOT.size, len(content) - 1, -_SLOT.size))
        return fd, mapped

    def forget_readers(self) -> None:
        """Drop the guard from the cache, so that reads so far, a backup's say, do not count. Called now and then."""
        _advise(self._fd, len(self._map), os.POSIX_FADV_DONTNEED)

    def set_epoch(self, epoch: int) -> None:
        """From here on the logs are written under this registration."""
        self._epoch = epoch
        _END.pack_into(self._map, _EPOCH_AT, epoch)

    def add(self, topic_partition: TopicPartition, end: Offset) -> None:
        """Begin to remember a log's end."""
        if not self._free:
            fd, old = self._fd, self._map
            self._fd, self._map = self._make(2 * len(old), old[:])
            os.close(fd)
            old.close()
        at = self._slots.get(topic_partition)
        if at is None:
            at = self._slots[topic_partition] = self._free.pop()
        _SLOT.pack_into(self._map, at, _key(topic_partition), end)

    def set(self, topic_partition: TopicPartition, end: Offset) -> None:
        """A log ends here now: what is below is in its file."""
        at = self._slots.get(topic_partition)
        if at is None:
            self.add(topic_partition, end)
        else:
            _END.pack_into(self._map, at + 8, end)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Forget a log that is deleted. Nothing where it is not known."""
        at = self._slots.pop(topic_partition, None)
        if at is not None:
            self._map[at : at + _SLOT.size] = bytes(_SLOT.size)
            self._free.append(at)

    def close(self) -> None:
        """The file stays: it is the next start that reads it."""
        os.close(self._fd)
        self._map.close()


def _key(topic_partition: TopicPartition) -> bytes:
    digest = hashlib.blake2b(str(topic_partition).encode(), digest_size=8).digest()
    return digest if digest != _FREE else b"\1" * 8


def _identity(stat: os.stat_result, boot_id: str) -> dict[str, object]:
    return {"boot": boot_id, "device": stat.st_dev, "inode": stat.st_ino}


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _cached(fd: int, at: int) -> bool:
    """Whether the page that begins there is in the page cache, without bringing it there; True where the kernel cannot
    say.
    """
    # Writable, so that ctypes can point at it; nothing is written.
    with mmap.mmap(fd, 1, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE, offset=at) as mapped:
        resident = ctypes.create_string_buffer(1)
        view = (ctypes.c_char * 1).from_buffer(mapped)
        try:
            failed = ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(1), resident)
        finally:
            del view
    return bool(failed) or bool(resident.raw[0] & 1)


def _advise(fd: int, at: int, advice: int) -> None:
    """Of a file from there on. Best effort: not every file system knows it."""
    with contextlib.suppress(OSError):
        os.posix_fadvise(fd, at, 0, advice)


def _lock_first_page(mapped: mmap.mmap) -> None:
    """Best effort: it only spares a needless wait after a restart under memory pressure."""
    view = (ctypes.c_char * 1).from_buffer(mapped)
    try:
        ctypes.CDLL(None).mlock(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(1))
    finally:
        del view
