"""What the kernel remembers of the last process that wrote a log dir: where each log ended, and whether it can know.

A file beside the logs, mapped into memory and never synced: a store of eight bytes after each write keeps the end of
every log. After kill -9 it says exactly what had been written, so that a log that is shorter has lost bytes. After the
loss of the host or of the mount it must not be believed, nor may the logs: it names the kernel's boot and the very file
that it is, and its first page must still be in the page cache, which lives no longer than the mount. That page is
written all the time and locked in memory while the process lives.
It says how many slots it has, so that a mark which somebody cut says nothing: without a log's slot nobody would miss
what was cut of that log.
It also names the registration under which it was written, for a copy that is put back in place, byte by byte.
A copy, a restored backup, another kernel, a remount: all of them read as "lost". So does, wrongly but harmlessly, a
page that memory pressure took between the end of the process and the next start.
Knows no partition's rules; `stops` says what follows. Blocking, tiny.
"""

from __future__ import annotations

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

from broker.runtime.ports import Offset, TopicPartition

_logger = logging.getLogger(__name__)

FILE_NAME = "highwater-run-mark"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PAGE = 4096
_HEADER = 512
_EPOCH_AT = _HEADER - 8
_SLOTS = "slots"
_SLOT = struct.Struct("<8sq")
_END = struct.Struct("<q")
_FREE = bytes(8)
NO_EPOCH = -1
_SLOTS_FIRST = (_PAGE - _HEADER) // _SLOT.size


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
    """The mark in a log dir; before anything else reads it."""
    path = f"{directory}/{FILE_NAME}"
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return LastRun(False)
    try:
        if not _cached(fd):
            return LastRun(False)
        stat = os.fstat(fd)
        data = os.pread(fd, stat.st_size, 0)
        named = json.loads(data[:_EPOCH_AT].rstrip(b"\0"))
        # A mark of an older version does not say how many there are: it is read as it is, once.
        slots = named.pop(_SLOTS, None)
        if named != _identity(stat, _boot_id() if boot_id is None else boot_id):
            return LastRun(False)
        if slots is not None and stat.st_size != _HEADER + slots * _SLOT.size:
            raise ValueError(f"{stat.st_size} bytes are not {slots} slots")
        rows = [_SLOT.unpack_from(data, at) for at in range(_HEADER, len(data) - _SLOT.size + 1, _SLOT.size)]
        (epoch,) = _END.unpack_from(data, _EPOCH_AT)
        return LastRun(True, epoch or NO_EPOCH, {key: end for key, end in rows if key != _FREE})
    except (AttributeError, TypeError, ValueError, struct.error) as error:
        _logger.warning("%s cannot be read (%s): the host counts as lost", path, error)
        return LastRun(False)
    finally:
        os.close(fd)


class RunMark:
    """This process's mark in one log dir. Raises OSError where the file has to be made or grow."""

    def __init__(self, directory: str, boot_id: str | None = None, epoch: int = NO_EPOCH) -> None:
        """Replaces the last run's: what that said must have been taken up. epoch: what that, or a clean stop, said."""
        self._path = f"{directory}/{FILE_NAME}"
        self._boot_id = _boot_id() if boot_id is None else boot_id
        self._epoch = epoch
        self._slots: dict[TopicPartition, int] = {}
        self._free: list[int] = []
        self._map = self._make(_SLOTS_FIRST, b"")

    def _make(self, slots: int, content: bytes | bytearray) -> mmap.mmap:
        """A file with room for so many slots in the place of the old one, mapped."""
        temporary = self._path + ".tmp"
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            size = _HEADER + slots * _SLOT.size
            # Every block is there before it is written through the map: a full disk must be an error, not a signal.
            os.posix_fallocate(fd, 0, size)
            stat = os.fstat(fd)
            header = json.dumps(_identity(stat, self._boot_id) | {_SLOTS: slots}).encode()
            os.pwrite(fd, header.ljust(_EPOCH_AT, b"\0") + _END.pack(self._epoch) + content, 0)
            mapped = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        os.replace(temporary, self._path)
        _lock_first_page(mapped)
        end = len(content) // _SLOT.size
        self._free.extend(_HEADER + nth * _SLOT.size for nth in range(slots - 1, end - 1, -1))
        return mapped

    def set_epoch(self, epoch: int) -> None:
        """From here on the logs are written under this registration."""
        self._epoch = epoch
        _END.pack_into(self._map, _EPOCH_AT, epoch)

    def add(self, topic_partition: TopicPartition, end: Offset) -> None:
        """Begin to remember a log's end."""
        if not self._free:
            content = self._map[_HEADER:]
            old = self._map
            self._map = self._make(2 * (len(content) // _SLOT.size), content)
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


def _cached(fd: int) -> bool:
    """Whether the first page is in the page cache, without bringing it there; True where the kernel cannot say."""
    if os.fstat(fd).st_size == 0:
        return False
    # Writable, so that ctypes can point at it; nothing is written.
    with mmap.mmap(fd, 1, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        resident = ctypes.create_string_buffer(1)
        view = (ctypes.c_char * 1).from_buffer(mapped)
        try:
            failed = ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(1), resident)
        finally:
            del view
    return bool(failed) or bool(resident.raw[0] & 1)


def _lock_first_page(mapped: mmap.mmap) -> None:
    """Best effort: it only spares a needless wait after a restart under memory pressure."""
    view = (ctypes.c_char * 1).from_buffer(mapped)
    try:
        ctypes.CDLL(None).mlock(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(1))
    finally:
        del view
