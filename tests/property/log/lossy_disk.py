"""A model of a disk under power failure, fed by the real system calls of the code under test.

POSIX at its weakest that is still sane: a file keeps what it held at its last fsync and any first part of what was
done to it since; a folder keeps the names that it had at its own last fsync and any first part of the changes since; a
file whose name survives may well be empty. `cut` builds the folder that a restart would find.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_SizedOp = tuple[int, bytes | None]
"""(position, bytes written there); None: the file's size becomes `position`."""

_NameOp = tuple[str, int | None]
"""(name, the inode that it stands for from now on, None when it is gone)."""


class PowerCut(BaseException):
    """The process, and all else, ends here."""


@dataclass
class _File:
    durable: bytes = b""
    since: list[_SizedOp] = field(default_factory=list)


@dataclass
class _Folder:
    durable: dict[str, int] = field(default_factory=dict)
    since: list[list[_NameOp]] = field(default_factory=list)


class LossyDisk:
    """Watches everything below `root`, an existing empty folder."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._files: dict[int, _File] = {}
        self._folders: dict[str, _Folder] = {self.root: _Folder()}
        self._open: dict[int, str] = {}
        self._real: dict[str, Callable[..., object]] = {}
        self.calls_left: int | None = None
        """After so many calls more the power fails, in the middle of whatever is done; None: it does not."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """System calls of this process go through the model."""
        with pytest.MonkeyPatch.context() as patch:
            for name in _WATCHED:
                self._real[name] = getattr(os, name)
                patch.setattr(os, name, self._wrapped(name))
            yield

    def write_back(self) -> None:
        """The kernel writes what all files hold, of its own accord; names may still wait."""
        for file in self._files.values():
            content = bytearray(file.durable)
            for position, data in file.since:
                _apply(content, position, data)
            file.durable = bytes(content)
            file.since.clear()

    def cut(self, rng: random.Random, target: str) -> None:
        """Write what the disk holds after a power failure now into the new folder `target`."""
        for path, folder in self._folders.items():
            names = dict(folder.durable)
            for change in folder.since[: rng.randint(0, len(folder.since))]:
                for name, inode in change:
                    if inode is None:
                        names.pop(name, None)
                    else:
                        names[name] = inode
            place = Path(target + path.removeprefix(self.root))
            if path != self.root and os.path.basename(path) not in self._names(os.path.dirname(path), rng):
                continue
            place.mkdir(parents=True, exist_ok=True)
            for name, inode in names.items():
                if inode in self._files:
                    (place / name).write_bytes(self._content(self._files[inode], rng))

    def _names(self, path: str, rng: random.Random) -> set[str]:
        """Names of sub-folders that survive: synced ones do, others may."""
        folder = self._folders[path]
        later = {name for change in folder.since for name, inode in change if inode is not None}
        return set(folder.durable) | (later if rng.random() < 0.5 else set())

    def _content(self, file: _File, rng: random.Random) -> bytes:
        content = bytearray(file.durable)
        for position, data in file.since[: rng.randint(0, len(file.since))]:
            _apply(content, position, data)
        if file.since and rng.random() < 0.5:
            # The last write may have got half-way.
            position, data = file.since[rng.randrange(len(file.since))]
            if data and position == len(content):
                _apply(content, position, data[: rng.randrange(len(data))])
        return bytes(content)

    # -- the calls -------------------------------------------------------------------------------------------------

    def _wrapped(self, name: str) -> Callable[..., object]:
        watch = getattr(self, "_open_" if name == "open" else f"_{name}")

        def call(*args: object, **kwargs: object) -> object:
            if self.calls_left is not None:
                if self.calls_left == 0:
                    raise PowerCut
                self.calls_left -= 1
            return watch(*args, **kwargs)

        return call

    def _inside(self, path: object) -> bool:
        return isinstance(path, str) and os.path.realpath(path).startswith(self.root)

    def _change(self, *ops: tuple[str, int | None]) -> None:
        """Changes of names in one folder that happen together or not at all; ops name whole paths."""
        folder = os.path.dirname(ops[0][0])
        assert all(os.path.dirname(path) == folder for path, _ in ops)
        self._folders[folder].since.append([(os.path.basename(path), inode) for path, inode in ops])

    def _open_(self, path: str, flags: int, mode: int = 0o777) -> int:
        existed = os.path.exists(path)
        fd = self._real["open"](path, flags, mode)
        assert isinstance(fd, int)
        if self._inside(path):
            self._open[fd] = path
            if not os.path.isdir(path):
                inode = os.fstat(fd).st_ino
                if not existed:
                    self._files[inode] = _File()
                    self._change((path, inode))
                elif flags & os.O_TRUNC:
                    self._file(fd).since.append((0, None))
        return fd

    def _file(self, fd: int) -> _File:
        return self._files.setdefault(os.fstat(fd).st_ino, _File())

    def _close(self, fd: int) -> None:
        self._open.pop(fd, None)
        self._real["close"](fd)

    def _dup(self, fd: int) -> int:
        other = self._real["dup"](fd)
        assert isinstance(other, int)
        if fd in self._open:
            self._open[other] = self._open[fd]
        return other

    def _write(self, fd: int, data: bytes) -> object:
        if fd in self._open:
            self._file(fd).since.append((os.lseek(fd, 0, os.SEEK_CUR), bytes(data)))
        return self._real["write"](fd, data)

    def _pwrite(self, fd: int, data: bytes, position: int) -> object:
        if fd in self._open:
            self._file(fd).since.append((position, bytes(data)))
        return self._real["pwrite"](fd, data, position)

    def _pwritev(self, fd: int, views: list[memoryview], position: int) -> object:
        if fd in self._open:
            self._file(fd).since.append((position, b"".join(views)))
        return self._real["pwritev"](fd, views, position)

    def _ftruncate(self, fd: int, size: int) -> None:
        if fd in self._open:
            self._file(fd).since.append((size, None))
        self._real["ftruncate"](fd, size)

    def _fsync(self, fd: int) -> None:
        path = self._open.get(fd)
        if path is not None and os.path.isdir(path):
            folder = self._folders[path]
            for change in folder.since:
                for name, inode in change:
                    if inode is None:
                        folder.durable.pop(name, None)
                    else:
                        folder.durable[name] = inode
            folder.since.clear()
        else:
            # Also of files that were opened by other means and are first heard of here.
            stat = os.fstat(fd)
            file = self._files.setdefault(stat.st_ino, _File())
            file.durable = _whole(fd, stat.st_size)
            file.since.clear()

    _fdatasync = _fsync

    def _rename(self, old: str, new: str) -> None:
        self._real["rename"](old, new)
        if self._inside(new):
            inode = os.stat(new).st_ino
            self._files.setdefault(inode, _File())
            self._change((old, None), (new, inode))

    _replace = _rename

    def _unlink(self, path: str) -> None:
        self._real["unlink"](path)
        if self._inside(path):
            self._change((path, None))

    def _mkdir(self, path: str, mode: int = 0o777) -> None:
        self._real["mkdir"](path, mode)
        if self._inside(path):
            self._folders[path] = _Folder()
            self._change((path, os.stat(path).st_ino))


_WATCHED = (
    *("open", "close", "dup", "write", "pwrite", "pwritev", "ftruncate", "fsync", "fdatasync"),
    *("rename", "replace", "unlink", "mkdir"),
)


def _whole(fd: int, size: int) -> bytes:
    path = f"/proc/self/fd/{fd}"
    with open(path, "rb") as file:
        return file.read(size)


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
        content.extend(bytes(position - len(content)))
        return
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data
