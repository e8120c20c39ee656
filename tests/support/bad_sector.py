"""A broker whose disk has bad sectors: `bad_sector.py SECTORS broker's arguments…`.

Reads of a byte that a line `<position> <file>` of the file SECTORS names, if there is one, fail with EIO.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

SECTORS = Path(sys.argv.pop(1))
_plain_pread = os.pread
_plain_sendfile = os.sendfile


def _check(fd: int, position: int, length: int) -> None:
    if not SECTORS.exists():
        return
    for line in SECTORS.read_text().splitlines():
        bad, path = line.split(" ", 1)
        if position <= int(bad) < position + length and os.path.sameopenfile(fd, _descriptor(path)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))


_descriptors: dict[str, int] = {}


def _descriptor(path: str) -> int:
    if path not in _descriptors:
        _descriptors[path] = os.open(path, os.O_RDONLY)
    return _descriptors[path]


def _pread(fd: int, length: int, position: int) -> bytes:
    _check(fd, position, length)
    return _plain_pread(fd, length, position)


def _sendfile(to: int, fd: int, position: int, length: int) -> int:
    _check(fd, position, length)
    return _plain_sendfile(to, fd, position, length)


if __name__ == "__main__":
    os.pread = _pread
    os.sendfile = _sendfile  # type: ignore[assignment]
    from broker.cli import main

    sys.exit(main())
