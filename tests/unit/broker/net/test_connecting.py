"""Sockets that are writable: connected, refused, connected to themselves, or gone by the time that one asks."""

from __future__ import annotations

import errno
import socket
from typing import Any, cast

import pytest

from broker.net.connecting import outcome


class Writable:
    def __init__(self, code: int, own: str, other: str | OSError) -> None:
        self._code, self._own, self._other = code, own, other

    def getsockopt(self, level: int, name: int) -> int:
        assert (level, name) == (socket.SOL_SOCKET, socket.SO_ERROR)
        return self._code

    def getsockname(self) -> str:
        return self._own

    def getpeername(self) -> str:
        if isinstance(self._other, OSError):
            raise self._other
        return self._other


@pytest.mark.parametrize(
    ("sock", "came_out"),
    [
        (Writable(0, "us", "them"), (0, False)),
        (Writable(errno.ECONNREFUSED, "us", OSError(errno.ENOTCONN, "gone")), (errno.ECONNREFUSED, False)),
        (Writable(0, "us", "us"), (0, True)),
        (Writable(0, "us", OSError(errno.ENOTCONN, "reset in between")), (errno.ENOTCONN, False)),
        (Writable(0, "us", OSError("without a number")), (errno.ENOTCONN, False)),
    ],
    ids=["connected", "refused", "to-itself", "reset", "reset-somehow"],
)
def test_outcome_of_an_attempt(sock: Writable, came_out: tuple[int, bool]) -> None:
    assert outcome(cast(Any, sock)) == came_out
