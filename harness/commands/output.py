"""Standard output and error that may go away while a command runs: `highwater test … | head`, a closed terminal.

Output that is written after its reader has gone is dropped, and the command goes on to its verdict. Must not know who
writes.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Survivor(io.RawIOBase):
    """A descriptor that leads to /dev/null from its first failed write on, for child processes too."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return os.write(self._descriptor, data)
        except OSError:
            _lead_to_null(self._descriptor)
            return os.write(self._descriptor, data)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)


def survive_loss() -> None:
    """Make sys.stdout and sys.stderr streams whose writes never fail, also where the process began without them."""
    sys.stdout = _surviving(sys.stdout, 1)
    sys.stderr = _surviving(sys.stderr, 2)


def _surviving(stream: TextIO | None, descriptor: int) -> TextIO:
    if stream is None:
        # Closed by the caller (`>&-`): the next file opened would take its number.
        _lead_to_null(descriptor)
    else:
        stream.flush()
    old = stream if isinstance(stream, io.TextIOWrapper) else None
    return io.TextIOWrapper(
        io.BufferedWriter(_Survivor(descriptor)),
        encoding="utf-8" if old is None else old.encoding,
        # A run's folder, or a text, need not be in the terminal's character set.
        errors="backslashreplace",
        line_buffering=True if old is None else old.line_buffering,
        write_through=False if old is None else old.write_through,
    )


def _lead_to_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
    else:
        os.set_inheritable(null, True)
