"""Opens files below a folder for reading, and nothing else: no `..`, no links, no pipes or devices.

Decides what may be opened, component by component (O_NOFOLLOW), so that nothing can be put in between. Must not know
what the files mean.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MOST_LISTED = 2_000
"""Files of one run that are listed."""


class Refused(Exception):
    """A path that leads to no regular file below the folder; the text says why, without the folder's own path."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file below a folder. path: with `/` between its parts; size: in bytes, None for what is not opened."""

    path: str
    size: int | None


@contextmanager
def opened(root: Path, parts: Sequence[str]) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor of the regular file at root/parts, and its state. Raises Refused."""
    if not parts or any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
        raise Refused("no such file")
    descriptors: list[int] = []
    try:
        try:
            descriptors.append(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for part in parts[:-1]:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptors.append(os.open(part, flags, dir_fd=descriptors[-1]))
            # O_NONBLOCK: opening a pipe would wait for its writer.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptors.append(os.open(parts[-1], flags, dir_fd=descriptors[-1]))
        except (OSError, UnicodeEncodeError):
            raise Refused("no such file, or one that is not opened (links are not followed)") from None
        state = os.fstat(descriptors[-1])
        if not stat.S_ISREG(state.st_mode):
            raise Refused("not a regular file")
        yield descriptors[-1], state
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def read(root: Path, parts: Sequence[str], limit: int) -> bytes:
    """The whole file. Raises Refused, also where it holds more than `limit` bytes."""
    # A file may still be growing: what counts is what can be read.
    with opened(root, parts) as (descriptor, _), os.fdopen(os.dup(descriptor), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise Refused(f"larger than {limit:,} bytes")
    return content


def stream(root: Path, parts: Sequence[str]) -> BinaryIO:
    """The file, open for reading. Raises OSError, for what is refused as well."""
    try:
        with opened(root, parts) as (descriptor, _):
            return os.fdopen(os.dup(descriptor), "rb")
    except Refused as error:
        raise FileNotFoundError(errno.ENOENT, str(error)) from None


def names(root: Path, parts: Sequence[str]) -> list[str]:
    """What a folder below root holds, sorted; links to folders are not followed. Raises OSError."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        if part in ("", ".", "..") or "/" in part or "\0" in part:
            os.close(descriptor)
            raise FileNotFoundError(errno.ENOENT, "no such folder")
        try:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    try:
        return sorted(os.listdir(descriptor))
    finally:
        os.close(descriptor)


def part_of(root: Path, parts: Sequence[str], start: int, length: int) -> tuple[bytes, int]:
    """Up to `length` bytes from `start` on, and the file's size. Raises Refused."""
    with opened(root, parts) as (descriptor, state):
        return os.pread(descriptor, length, min(start, state.st_size)), state.st_size


def chunks(root: Path, parts: Sequence[str], size: int) -> Iterator[bytes]:
    """The first `size` bytes of a file, a piece at a time. Raises Refused before the first."""
    with opened(root, parts) as (descriptor, _):
        at = 0
        while at < size and (piece := os.pread(descriptor, min(1 << 16, size - at), at)):
            at += len(piece)
            yield piece


def listed(folder: Path) -> list[Entry]:
    """What stands below a folder, sorted by path, at most MOST_LISTED; links are named and not followed."""
    found: list[Entry] = []
    open_folders = [""]
    while open_folders and len(found) < MOST_LISTED:
        below = open_folders.pop()
        try:
            entries = sorted(os.scandir(folder / below), key=lambda one: one.name)
        except OSError:
            continue
        for entry in entries:
            path = f"{below}{entry.name}"
            try:
                if entry.is_dir(follow_symlinks=False):
                    open_folders.append(path + "/")
                    continue
                regular = entry.is_file(follow_symlinks=False)
                size = entry.stat(follow_symlinks=False).st_size if regular else None
            except OSError:
                continue
            found.append(Entry(path, size))
    return sorted(found, key=lambda one: one.path)[:MOST_LISTED]
