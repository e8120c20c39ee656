"""Ports for servers of this machine that a test or a benchmark starts."""

from __future__ import annotations

import atexit
import socket
from collections import deque

_HELD_MAX = 256
_HELD: deque[socket.socket] = deque()


def free_port(host: str = "127.0.0.1") -> int:
    """A port at which nobody listens, kept from other sockets until the process has asked for 256 more.

    A port that was free only when asked for may be the local port of somebody's connection by the time a server binds
    it, or between the server's kill and its next start. The kernel gives no connection a port that a socket is bound
    to. That socket never listens, and has SO_REUSEADDR as a server's has: the server can listen there, and a client
    without a server is refused.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((host, 0))
    _HELD.append(held)
    if len(_HELD) > _HELD_MAX:
        _HELD.popleft().close()
    port: int = held.getsockname()[1]
    return port


@atexit.register
def _let_go() -> None:
    while _HELD:
        _HELD.pop().close()
